package config

import (
	"net"
	"net/url"
	"strings"
	"time"

	"holdfast/alert"
)

// checkContradictions finds settings that are each valid and cannot be combined. Each rule
// keeps a promise of the product; its reason is next to it.
func checkContradictions(r *reader, c Config) {
	for _, b := range c.Brokers {
		checkTimes(r, c, b)
		checkBroker(r, c, b)
	}
	checkJWT(r, c)
	checkWebhook(r, c)
	if _, port, _ := net.SplitHostPort(c.Addr); c.MetricsAddr == c.Addr && port != "0" {
		r.errorf("HOLDFAST_METRICS_ADDR is the same as HOLDFAST_ADDR: leave it out, or give it an address of its own")
	}
}

// callEndSlack is what a request needs beyond its broker call to be answered.
const callEndSlack = 2 * time.Second

func checkTimes(r *reader, c Config, b Broker) {
	timeout := b.label("HOLDFAST_BROKER_TIMEOUT", c)
	// Otherwise a first call in progress would count as interrupted.
	if c.PendingGrace <= b.Timeout {
		r.errorf("HOLDFAST_PENDING_GRACE (%s) must be above %s (%s)", c.PendingGrace, timeout, b.Timeout)
	}
	// A pass may make two calls, a lookup and a replay: otherwise an active one is rerun.
	if c.RescueAfter <= 2*b.Timeout {
		r.errorf("HOLDFAST_RESCUE_AFTER (%s) must be above twice %s (%s)", c.RescueAfter, timeout, b.Timeout)
	}
	// Otherwise a call in flight would not get its answer.
	if c.ShutdownTimeout < b.Timeout+callEndSlack {
		r.errorf("HOLDFAST_SHUTDOWN_TIMEOUT (%s) must be at least %s (%s) + %s", c.ShutdownTimeout, timeout, b.Timeout, callEndSlack)
	}
}

// label is how an error names a setting of the broker.
func (b Broker) label(name string, c Config) string {
	if len(c.Brokers) == 1 {
		return name
	}
	return name + " of broker " + b.Name
}

func checkBroker(r *reader, c Config, b Broker) {
	if b.Kind == HTTP && b.URL == "" {
		r.errorf("HOLDFAST_BROKER=http needs %s", b.label("HOLDFAST_BROKER_URL", c))
	}
	if _, _, ok := AlpacaKeys(b.Token); b.isAlpaca() && !ok {
		r.errorf("HOLDFAST_BROKER=alpaca needs %s as KEY-ID:SECRET (or APCA_API_KEY_ID and APCA_API_SECRET_KEY)",
			b.label("HOLDFAST_BROKER_TOKEN", c))
	}
	// Real purchases never go into a private database that nobody named.
	if b.Kind != Sandbox && c.DatabaseURL == "" && c.DataDir == "" {
		r.errorf("HOLDFAST_BROKER=%s needs HOLDFAST_DATABASE_URL or HOLDFAST_DATA_DIR", b.Kind)
	}
	if b.Token != "" && b.Kind != Sandbox {
		checkPlainHTTP(r, c.AllowPlainHTTP, b.label("HOLDFAST_BROKER_URL", c), b.URL)
	}
}

// checkPlainHTTP refuses a URL over which credentials would go in clear to another host.
func checkPlainHTTP(r *reader, allowed bool, name, text string) {
	parsed, err := url.Parse(text)
	if allowed || err != nil || parsed.Scheme != "http" || isLoopback(parsed.Hostname()) {
		return
	}
	r.errorf("%s is plain http to another host: use https, or set HOLDFAST_ALLOW_PLAIN_HTTP=true", name)
}

func isLoopback(host string) bool {
	ip := net.ParseIP(host)
	return strings.EqualFold(host, "localhost") || ip != nil && ip.IsLoopback()
}

func checkJWT(r *reader, c Config) {
	parts := map[string]string{
		"HOLDFAST_JWT_ISSUER":        c.JWT.Issuer,
		"HOLDFAST_JWT_AUDIENCE":      c.JWT.Audience,
		"HOLDFAST_JWT_JWKS_URL":      c.JWT.JWKSURL,
		"HOLDFAST_JWT_ACCOUNT_CLAIM": c.JWT.AccountClaim,
	}
	var missing []string
	for _, s := range settings { // the table's order, so that the line is always the same
		if value, ok := parts[s.name]; ok && value == "" {
			missing = append(missing, s.name)
		}
	}
	if len(missing) > 0 && len(missing) < len(parts) {
		r.errorf("HOLDFAST_JWT_*: all four or none; missing: %s", strings.Join(missing, ", "))
	}
	// Whoever can replace the keys can be every client.
	checkPlainHTTP(r, c.AllowPlainHTTP, "HOLDFAST_JWT_JWKS_URL", c.JWT.JWKSURL)
}

func checkWebhook(r *reader, c Config) {
	if c.WebhookURL == "" {
		return
	}
	if _, err := alert.NewWebhook(c.WebhookURL, c.WebhookSecret); err != nil {
		r.errorf("HOLDFAST_ALERT_WEBHOOK_URL, HOLDFAST_ALERT_WEBHOOK_SECRET: %s", err)
	}
	if target, err := url.Parse(c.WebhookURL); err == nil && target.User != nil {
		checkPlainHTTP(r, c.AllowPlainHTTP, "HOLDFAST_ALERT_WEBHOOK_URL", c.WebhookURL)
	}
}

// Warnings are settings that do not contradict each other and are suspicious all the same.
func (c Config) Warnings() []string {
	var warnings []string
	if (c.WebhookURL == "") != (c.WebhookSecret == "") {
		warnings = append(warnings, "HOLDFAST_ALERT_WEBHOOK_URL and HOLDFAST_ALERT_WEBHOOK_SECRET belong together: one of them is not set")
	}
	for _, b := range c.Brokers {
		warnings = append(warnings, b.warnings()...)
	}
	return warnings
}

func (b Broker) warnings() []string {
	var warnings []string
	if b.Kind == Sandbox && (b.URL != "" || b.Token != "") {
		warnings = append(warnings, "HOLDFAST_BROKER_URL and HOLDFAST_BROKER_TOKEN name no real broker: HOLDFAST_BROKER is sandbox, and buys nothing")
	}
	if b.Settle >= b.KeyRetention && b.Idempotent {
		warnings = append(warnings, "HOLDFAST_BROKER_SETTLE is not below HOLDFAST_BROKER_KEY_RETENTION: nothing will ever be replayed")
	}
	if !b.Lookup && !b.Idempotent {
		warnings = append(warnings, "HOLDFAST_BROKER_LOOKUP and HOLDFAST_BROKER_IDEMPOTENT are both false: every uncertain purchase will need an operator")
	}
	if b.RetryCap < b.RetryBase {
		warnings = append(warnings, "HOLDFAST_RETRY_CAP is below HOLDFAST_RETRY_BASE: every wait is the cap")
	}
	return warnings
}
