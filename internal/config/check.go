package config

import (
	"net"
	"strings"
	"time"

	"holdfast/jobs"
)

// checkContradictions finds settings that are each readable and cannot hold together.
// Each rule keeps a promise of the product; its reason stands beside it.
func checkContradictions(r *reader, c Config) {
	checkTimes(r, c)
	checkBroker(r, c.Broker)
	checkJWT(r, c.JWT)
	if _, port, _ := net.SplitHostPort(c.Addr); c.MetricsAddr == c.Addr && port != "0" {
		r.errorf("HOLDFAST_METRICS_ADDR is the same as HOLDFAST_ADDR: leave it out, or give it an address of its own")
	}
	if c.WebhookURL == "" {
		return
	}
	if _, err := jobs.NewWebhook(c.WebhookURL, c.WebhookSecret); err != nil {
		r.errorf("HOLDFAST_ALERT_WEBHOOK_URL, HOLDFAST_ALERT_WEBHOOK_SECRET: %s", err)
	}
}

func checkTimes(r *reader, c Config) {
	// Past the key's life nothing can be replayed: a person must know before that.
	if c.Policy.MaxAge >= c.Broker.KeyRetention {
		r.errorf("HOLDFAST_RETRY_MAX_AGE (%s) must be below HOLDFAST_BROKER_KEY_RETENTION (%s)",
			c.Policy.MaxAge, c.Broker.KeyRetention)
	}
	// Else a first call that is still in progress would be taken for interrupted.
	if c.Policy.PendingGrace <= c.Broker.Timeout {
		r.errorf("HOLDFAST_PENDING_GRACE (%s) must be above HOLDFAST_BROKER_TIMEOUT (%s)",
			c.Policy.PendingGrace, c.Broker.Timeout)
	}
	// A pass may make two calls, a lookup and a replay: else a living one is rescued.
	if c.Policy.RescueAfter <= 2*c.Broker.Timeout {
		r.errorf("HOLDFAST_RESCUE_AFTER (%s) must be above twice HOLDFAST_BROKER_TIMEOUT (%s)",
			c.Policy.RescueAfter, c.Broker.Timeout)
	}
}

func checkBroker(r *reader, b Broker) {
	if b.Kind == "http" && b.URL == "" {
		r.errorf("HOLDFAST_BROKER=http needs HOLDFAST_BROKER_URL")
	}
	if _, _, ok := AlpacaKeys(b.Token); b.Kind == "alpaca" && !ok {
		r.errorf("HOLDFAST_BROKER=alpaca needs HOLDFAST_BROKER_TOKEN as KEY-ID:SECRET (or APCA_API_KEY_ID and APCA_API_SECRET_KEY)")
	}
}

func checkJWT(r *reader, c JWT) {
	parts := map[string]string{
		"HOLDFAST_JWT_ISSUER":        c.Issuer,
		"HOLDFAST_JWT_AUDIENCE":      c.Audience,
		"HOLDFAST_JWT_JWKS_URL":      c.JWKSURL,
		"HOLDFAST_JWT_ACCOUNT_CLAIM": c.AccountClaim,
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
}

// Warnings are settings that do not contradict each other and are suspicious all the same.
func (c Config) Warnings() []string {
	var warnings []string
	if (c.WebhookURL == "") != (c.WebhookSecret == "") {
		warnings = append(warnings, "HOLDFAST_ALERT_WEBHOOK_URL and HOLDFAST_ALERT_WEBHOOK_SECRET belong together: one of them is not set")
	}
	if c.Broker.Kind == "sandbox" && (c.Broker.URL != "" || c.Broker.Token != "") {
		warnings = append(warnings, "HOLDFAST_BROKER_URL and HOLDFAST_BROKER_TOKEN are not used: HOLDFAST_BROKER is sandbox, and buys nothing anywhere")
	}
	if c.Broker.Settle >= c.Broker.KeyRetention && c.Broker.Idempotent {
		warnings = append(warnings, "HOLDFAST_BROKER_SETTLE is not below HOLDFAST_BROKER_KEY_RETENTION: nothing will ever be replayed")
	}
	if c.Policy.RetryCap < c.Policy.RetryBase {
		warnings = append(warnings, "HOLDFAST_RETRY_CAP is below HOLDFAST_RETRY_BASE: every wait is the cap")
	}
	if c.ShutdownTimeout < c.Broker.Timeout+time.Second {
		warnings = append(warnings, "HOLDFAST_SHUTDOWN_TIMEOUT leaves a broker call in progress no time to end: such purchases will be found by the sweep")
	}
	return warnings
}
