package config

import (
	"fmt"
	"strings"
)

// A setting is one variable of the environment that Holdfast reads.
type setting struct {
	name string
	// fallback is used where the variable is not set or empty. It is read by the same
	// rules as a value from outside.
	fallback string
	help     string
}

// settings is every variable of the program, in the order of its help. The names, the
// defaults and the meanings are part of the outside contract.
var settings = []setting{
	{"HOLDFAST_DATABASE_URL", "", "Postgres; none: a private one in the data dir. DATABASE_URL is read where this is not set"},
	{"HOLDFAST_LISTEN_DATABASE_URL", "", "a direct connection, for LISTEN, where the first goes through a transaction pooler"},
	{"HOLDFAST_DATA_DIR", "", "where the private Postgres lives (default: the user's data dir; for root /var/lib/holdfast)"},
	{"HOLDFAST_ADDR", "127.0.0.1:8080", "where to listen; port 0 picks one"},
	{"HOLDFAST_METRICS_ADDR", "", "moves /metrics to an address of its own"},
	{"HOLDFAST_OPERATOR_KEY", "", "an operator key given by the environment"},
	{"HOLDFAST_BROKER", "sandbox", "sandbox, http or alpaca"},
	{"HOLDFAST_BROKER_URL", "", "base URL of the broker"},
	{"HOLDFAST_BROKER_TOKEN", "", "bearer token of the http broker; for alpaca KEY-ID:SECRET"},
	{"HOLDFAST_BROKER_TIMEOUT", "5s", "deadline of one broker call, all of it"},
	{"HOLDFAST_BROKER_KEY_RETENTION", "24h", "how long the broker remembers a key; no replay is sent later than this"},
	{"HOLDFAST_BROKER_IDEMPOTENT", "true", "false: the broker does not honour keys, so nothing is ever replayed"},
	{"HOLDFAST_BROKER_SETTLE", "10s", "a lookup's \"not found\" is believed only so long after the last place or replay"},
	{"HOLDFAST_BROKER_DUPLICATE_CODES", "", "codes, comma between, by which the broker says that a key was used before"},
	{"HOLDFAST_BROKER_TIME_IN_FORCE", "ioc", "alpaca: ioc or day"},
	{"HOLDFAST_BROKER_RATE", "50", "broker calls a second that all workers of a process make together"},
	{"HOLDFAST_BROKER_MAX_IN_FLIGHT", "256", "broker calls in progress at once in a process; more purchases are refused with 503"},
	{"HOLDFAST_BREAKER_FAILURES", "20", "so many calls in a row without an answer open the breaker; 0 turns it off"},
	{"HOLDFAST_BREAKER_OPEN", "10s", "how long the breaker stays open before it probes"},
	{"HOLDFAST_BROKER_KEY_NAMESPACE", "", "part of every broker key: separates deployments that share a broker login; up to 16 of a-z 0-9"},
	{"HOLDFAST_INTENT_TTL", "0", "default of valid_until for orders by quantity: time after creation; 0: none"},
	{"HOLDFAST_NOTIONAL_TTL", "15m", "default of valid_until for orders by notional; 0: none"},
	{"HOLDFAST_RETRY_BASE", "1m", "wait after the first pass; doubles with each"},
	{"HOLDFAST_RETRY_CAP", "30m", "the longest wait between passes"},
	{"HOLDFAST_RETRY_JITTER", "0.2", "spread of the wait, as a part of it"},
	{"HOLDFAST_RETRY_MAX_ATTEMPTS", "20", "passes before a person must decide"},
	{"HOLDFAST_RETRY_MAX_AGE", "12h", "time in UNKNOWN before a person must decide; below the key retention"},
	{"HOLDFAST_RETRY_AFTER_MAX", "1h", "the longest Retry-After of a broker that is obeyed"},
	{"HOLDFAST_PENDING_GRACE", "", "a PENDING purchase older than this counts as interrupted (default: broker timeout + 30s)"},
	{"HOLDFAST_SWEEP_INTERVAL", "30s", "how often interrupted purchases and lost jobs are looked for"},
	{"HOLDFAST_MATCH_INTERVAL", "15m", "how often the broker's order list is matched against ours, if the adapter can list; 0: never"},
	{"HOLDFAST_RESCUE_AFTER", "2m", "a pass whose process died is run again after this; above twice the broker timeout"},
	{"HOLDFAST_WORKERS", "50", "concurrent passes of a process"},
	{"HOLDFAST_ALERT_WEBHOOK_URL", "", "where alerts are posted"},
	{"HOLDFAST_ALERT_WEBHOOK_SECRET", "", "signs the alerts: whsec_... or raw"},
	{"HOLDFAST_EVENT_RETENTION", "168h", "whole days of events older than this go"},
	{"HOLDFAST_RATE_LIMIT", "off", "requests a second that one API key may make"},
	{"HOLDFAST_JWT_ISSUER", "", "with the other three: tokens of an identity provider in place of client keys"},
	{"HOLDFAST_JWT_AUDIENCE", "", "see HOLDFAST_JWT_ISSUER"},
	{"HOLDFAST_JWT_JWKS_URL", "", "see HOLDFAST_JWT_ISSUER"},
	{"HOLDFAST_JWT_ACCOUNT_CLAIM", "", "see HOLDFAST_JWT_ISSUER"},
	{"HOLDFAST_SHUTDOWN_TIMEOUT", "20s", "how long a shutdown may take"},
	{"HOLDFAST_LOG_LEVEL", "info", "debug, info, warn or error"},
	{"HOLDFAST_LOG_FORMAT", "", "text or json (default: text on a terminal, json elsewhere)"},
	{"HOLDFAST_URL", "http://127.0.0.1:8080", "the API that the commands buy, show, list, watch, resolve, reconcile and switch speak to"},
	{"HOLDFAST_API_KEY", "", "their key"},
}

func settingNamed(name string) (setting, bool) {
	for _, s := range settings {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

// Help is the table of settings as text.
func Help() string {
	var help strings.Builder
	for _, s := range settings {
		fmt.Fprintf(&help, "%s", s.name)
		if s.fallback != "" {
			fmt.Fprintf(&help, " (%s)", s.fallback)
		}
		fmt.Fprintf(&help, ": %s\n\n", s.help)
	}
	return strings.TrimSpace(help.String())
}
