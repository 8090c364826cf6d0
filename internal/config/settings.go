package config

import (
	"fmt"
	"strings"
)

// A setting is one variable of the environment that Holdfast reads.
type setting struct {
	name string
	// fallback applies if the variable is not set or empty. It is parsed by the same rules
	// as a value from outside.
	fallback string
	help     string
	kind     kind
}

// A kind says where else a setting may be given.
type kind int

const (
	plain kind = iota
	// secret may be given as NAME_FILE, the path of a file that holds it.
	secret
	// perBroker may differ between the brokers of HOLDFAST_BROKERS_FILE.
	perBroker
	// brokerSecret is both.
	brokerSecret
)

// settings is every variable of the program, in the order of its help. The names, the
// defaults and the meanings are part of the external contract.
var settings = []setting{
	{"HOLDFAST_DATABASE_URL", "", "Postgres; none: a private one in the data dir. If unset, DATABASE_URL is read", secret},
	{"HOLDFAST_LISTEN_DATABASE_URL", "", "a direct connection for LISTEN, if the first URL goes through a transaction pooler", secret},
	{"HOLDFAST_DATA_DIR", "", "location of the private Postgres (default: the user's data dir; for root /var/lib/holdfast)", plain},
	{"HOLDFAST_ADDR", "127.0.0.1:8080", "address to listen on; port 0 picks one", plain},
	{"HOLDFAST_METRICS_ADDR", "", "moves /metrics to a separate address", plain},
	{"HOLDFAST_OPERATOR_KEY", "", "an operator key supplied through the environment, at least 20 characters", secret},
	{"HOLDFAST_BROKER", "sandbox", "sandbox, http or alpaca. With any but sandbox, HOLDFAST_DATABASE_URL or HOLDFAST_DATA_DIR must be set", plain},
	{"HOLDFAST_BROKERS_FILE", "", "YAML with several named brokers, instead of HOLDFAST_BROKER", plain},
	{"HOLDFAST_BROKER_NAME", "", "identity of the broker (default: sandbox, http:HOST[:PORT], alpaca:paper, alpaca:live, alpaca-broker:sandbox or alpaca-broker:live)", plain},
	{"HOLDFAST_BROKER_URL", "", "base URL of the broker", perBroker},
	{"HOLDFAST_BROKER_TOKEN", "", "bearer token of the http broker; for alpaca KEY-ID:SECRET", brokerSecret},
	{"HOLDFAST_BROKER_KEY_NAMESPACE", "", "1 to 16 of a-z and 0-9; part of every broker key; separates deployments that share one broker login", perBroker},
	{"HOLDFAST_BROKER_TIMEOUT", "5s", "overall deadline of one broker call: connect, send, wait and read", perBroker},
	{"HOLDFAST_BROKER_KEY_RETENTION", "24h", "how long the broker remembers a key; no replay is sent later than this", perBroker},
	{"HOLDFAST_BROKER_IDEMPOTENT", "true", "false: the broker does not honor keys, so workers only look up and never replay", perBroker},
	{"HOLDFAST_BROKER_LOOKUP", "true", "false: the broker has no lookup, so passes replay", perBroker},
	{"HOLDFAST_BROKER_SETTLE", "10s", "a lookup's \"not found\" counts only if the last place or replay ended longer ago than this", perBroker},
	{"HOLDFAST_BROKER_ABSENCE_LOOKUPS", "2", "consecutive \"not found\" answers required for a rejection based on absence", perBroker},
	{"HOLDFAST_BROKER_PROCESSING_INTERVAL", "5s", "how often a purchase that the broker is processing is looked up", perBroker},
	{"HOLDFAST_BROKER_DUPLICATE_CODES", "", "comma-separated codes by which the broker reports that a key was used before", perBroker},
	{"HOLDFAST_BROKER_TIME_IN_FORCE", "ioc", "alpaca: ioc or day", perBroker},
	{"HOLDFAST_BROKER_RATE", "50", "maximum broker calls per second by passes, shared by all processes", perBroker},
	{"HOLDFAST_BROKER_BUDGET", "0", "broker calls per second, first calls included, shared by all processes; 0: off", perBroker},
	{"HOLDFAST_BROKER_MAX_IN_FLIGHT", "256", "concurrent first calls per process; beyond: 503", perBroker},
	{"HOLDFAST_BROKER_EVENTS_SECRET", "", "secret that broker events must be signed with, at least 20 characters", brokerSecret},
	{"HOLDFAST_BREAKER_FAILURES", "20", "consecutive calls without an answer, or with a 5xx, that open the breaker; 0 disables it", perBroker},
	{"HOLDFAST_BREAKER_OPEN", "10s", "how long the breaker stays open before it probes", perBroker},
	{"HOLDFAST_INTENT_TTL", "0", "default of valid_until for orders by quantity: time after creation; 0: none", plain},
	{"HOLDFAST_NOTIONAL_TTL", "15m", "default of valid_until for orders by notional; 0: none", plain},
	{"HOLDFAST_RETRY_BASE", "1m", "wait after the first pass; doubles with each", perBroker},
	{"HOLDFAST_RETRY_CAP", "30m", "maximum wait between passes", perBroker},
	{"HOLDFAST_RETRY_JITTER", "0.2", "random spread of the wait, as a fraction of it", perBroker},
	{"HOLDFAST_RETRY_MAX_ATTEMPTS", "20", "passes before an operator must decide", perBroker},
	{"HOLDFAST_RETRY_MAX_AGE", "12h", "time in UNKNOWN before an operator must decide; no replay is sent later", perBroker},
	{"HOLDFAST_RETRY_AFTER_MAX", "1h", "cap on a broker's Retry-After", perBroker},
	{"HOLDFAST_PENDING_GRACE", "", "a PENDING purchase older than this counts as interrupted (default: broker timeout + 30s)", plain},
	{"HOLDFAST_SWEEP_INTERVAL", "30s", "how often the sweep looks for interrupted purchases and missing jobs", plain},
	{"HOLDFAST_RESCUE_AFTER", "2m", "a pass whose process died is rerun after this; above twice the broker timeout", plain},
	{"HOLDFAST_WORKERS", "50", "concurrent passes per process", plain},
	{"HOLDFAST_ALERT_WEBHOOK_URL", "", "where alerts are posted", secret},
	{"HOLDFAST_ALERT_WEBHOOK_SECRET", "", "signs the alerts: whsec_... or raw, at least 20 characters", secret},
	{"HOLDFAST_EVENT_RETENTION", "168h", "events are deleted by the day, once the whole day is older than this", plain},
	{"HOLDFAST_RATE_LIMIT", "off", "maximum requests per second per API key", plain},
	{"HOLDFAST_KEY_MAX_IN_FLIGHT", "256", "concurrent requests per client key; beyond: 429", plain},
	{"HOLDFAST_KEY_MAX_STREAMS", "1000", "open streams per client key; beyond: 429", plain},
	{"HOLDFAST_MATCH_INTERVAL", "15m", "how often the broker's order list is matched against ours, if it can list; 0: never", plain},
	{"HOLDFAST_ALLOW_PLAIN_HTTP", "false", "true: credentials may go over plain HTTP to a non-loopback host", plain},
	{"HOLDFAST_JWT_ISSUER", "", "with the other three: accepts an identity provider's tokens as an alternative to client keys", plain},
	{"HOLDFAST_JWT_AUDIENCE", "", "see HOLDFAST_JWT_ISSUER", plain},
	{"HOLDFAST_JWT_JWKS_URL", "", "see HOLDFAST_JWT_ISSUER", plain},
	{"HOLDFAST_JWT_ACCOUNT_CLAIM", "", "see HOLDFAST_JWT_ISSUER", plain},
	{"HOLDFAST_SHUTDOWN_DELAY", "0s", "how long after SIGTERM the process keeps serving, with /readyz at 503", plain},
	{"HOLDFAST_SHUTDOWN_TIMEOUT", "20s", "maximum duration of a shutdown after that delay; at least the broker timeout + 2s", plain},
	{"HOLDFAST_LOG_LEVEL", "info", "debug, info, warn or error", plain},
	{"HOLDFAST_LOG_FORMAT", "", "text or json (default: text on a terminal, json elsewhere)", plain},
	{"HOLDFAST_URL", "http://127.0.0.1:8080", "the API that the commands buy, show, list, watch, resolve, reconcile and switch use", plain},
	{"HOLDFAST_API_KEY", "", "their API key", secret},
}

// fileSuffix makes the name under which a secret's file is given.
const fileSuffix = "_FILE"

func (s setting) secret() bool    { return s.kind == secret || s.kind == brokerSecret }
func (s setting) perBroker() bool { return s.kind == perBroker || s.kind == brokerSecret }

// brokerKey is the setting's name in HOLDFAST_BROKERS_FILE.
func (s setting) brokerKey() string {
	name := strings.TrimPrefix(s.name, "HOLDFAST_")
	return strings.ToLower(strings.TrimPrefix(name, "BROKER_"))
}

func settingNamed(name string) (setting, bool) {
	for _, s := range settings {
		if s.name == name {
			return s, true
		}
	}
	return setting{}, false
}

// isKnown reports whether name is a setting or, for a secret, the name of its file.
func isKnown(name string) bool {
	if _, ok := settingNamed(name); ok {
		return true
	}
	s, ok := settingNamed(strings.TrimSuffix(name, fileSuffix))
	return ok && s.secret()
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
	help.WriteString("Every secret NAME, the database URLs included, may be given as NAME_FILE, the path of a file that holds it.")
	return help.String()
}
