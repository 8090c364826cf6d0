package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"holdfast/purchase"
)

// Config is every setting, parsed and checked.
type Config struct {
	// DatabaseURL is empty if the private Postgres is to be used.
	DatabaseURL string
	// ListenURL leads to the database directly, past a pooler; by default it equals
	// DatabaseURL.
	ListenURL   string
	DataDir     string
	Addr        string
	MetricsAddr string
	OperatorKey string

	Broker Broker
	Policy purchase.Policy

	SweepInterval  time.Duration
	MatchInterval  time.Duration
	Workers        int
	EventRetention time.Duration
	WebhookURL     string
	WebhookSecret  string
	// RateLimit is the maximum of requests per second and key; 0 is off.
	RateLimit       float64
	JWT             JWT
	ShutdownTimeout time.Duration
	Log             Log
	// Traces is set if the OTEL_ variables enable tracing.
	Traces bool
}

// Demo reports whether no setting decides where purchases and data go. Then serve creates
// a demo account and prints its keys.
func (c Config) Demo() bool {
	return c.DatabaseURL == "" && c.Broker.Kind == "sandbox"
}

// Broker is how one broker is reached, and what it promises.
type Broker struct {
	Kind            string
	URL             string
	Token           string
	Timeout         time.Duration
	KeyRetention    time.Duration
	Idempotent      bool
	Settle          time.Duration
	DuplicateCodes  []string
	TimeInForce     string
	Rate            float64
	MaxInFlight     int
	BreakerFailures int
	BreakerOpen     time.Duration
}

// JWT names the identity provider whose tokens are accepted; it is zero if there is none.
type JWT struct{ Issuer, Audience, JWKSURL, AccountClaim string }

// Log says what is logged, and how.
type Log struct {
	Level slog.Level
	// Format is empty where the terminal decides.
	Format string
}

// Load parses and checks every setting. The error, if any, is an *Error.
func Load(find Lookup) (Config, error) {
	r := &reader{lookup: find}
	c := Config{
		DataDir:         r.str("HOLDFAST_DATA_DIR"),
		Addr:            r.address("HOLDFAST_ADDR"),
		MetricsAddr:     r.address("HOLDFAST_METRICS_ADDR"),
		OperatorKey:     r.token("HOLDFAST_OPERATOR_KEY"),
		Broker:          readBroker(r),
		SweepInterval:   r.duration("HOLDFAST_SWEEP_INTERVAL", time.Millisecond),
		MatchInterval:   r.duration("HOLDFAST_MATCH_INTERVAL", 0),
		Workers:         r.integer("HOLDFAST_WORKERS", 1, 10_000),
		EventRetention:  r.duration("HOLDFAST_EVENT_RETENTION", time.Millisecond),
		WebhookURL:      r.httpURL("HOLDFAST_ALERT_WEBHOOK_URL"),
		WebhookSecret:   r.str("HOLDFAST_ALERT_WEBHOOK_SECRET"),
		RateLimit:       readRateLimit(r),
		JWT:             readJWT(r),
		ShutdownTimeout: r.duration("HOLDFAST_SHUTDOWN_TIMEOUT", time.Millisecond),
		Log:             readLog(r),
		Traces:          tracing(find),
	}
	readDatabase(r, &c)
	checkTraces(r)
	c.Policy = readPolicy(r, c.Broker)
	if c.DataDir == "" {
		c.DataDir = defaultDataDir(os.Geteuid(), os.Getenv)
	}
	if c.DataDir == "" && c.DatabaseURL == "" {
		return c, ErrNoDataDir
	}
	if len(r.problems) == 0 {
		checkContradictions(r, c)
	}
	return c, r.err()
}

func readDatabase(r *reader, c *Config) {
	name, value := "HOLDFAST_DATABASE_URL", r.str("HOLDFAST_DATABASE_URL")
	if value == "" {
		name = "DATABASE_URL"
		value, _ = r.lookup(name)
	}
	c.DatabaseURL = r.database(name, strings.TrimSpace(value))
	c.ListenURL = r.database("HOLDFAST_LISTEN_DATABASE_URL", r.str("HOLDFAST_LISTEN_DATABASE_URL"))
	if c.ListenURL != "" && c.DatabaseURL == "" {
		r.errorf("HOLDFAST_LISTEN_DATABASE_URL needs HOLDFAST_DATABASE_URL")
	}
	if c.ListenURL == "" {
		c.ListenURL = c.DatabaseURL
	}
}

func readBroker(r *reader) Broker {
	b := Broker{
		Kind:            r.choice("HOLDFAST_BROKER", "sandbox", "http", "alpaca"),
		URL:             strings.TrimRight(r.httpURL("HOLDFAST_BROKER_URL"), "/"),
		Token:           r.token("HOLDFAST_BROKER_TOKEN"),
		Timeout:         r.duration("HOLDFAST_BROKER_TIMEOUT", time.Millisecond),
		KeyRetention:    r.duration("HOLDFAST_BROKER_KEY_RETENTION", time.Millisecond),
		Idempotent:      r.boolean("HOLDFAST_BROKER_IDEMPOTENT"),
		Settle:          r.duration("HOLDFAST_BROKER_SETTLE", 0),
		DuplicateCodes:  r.list("HOLDFAST_BROKER_DUPLICATE_CODES"),
		TimeInForce:     r.choice("HOLDFAST_BROKER_TIME_IN_FORCE", "ioc", "day"),
		Rate:            r.number("HOLDFAST_BROKER_RATE", "above 0", positive),
		MaxInFlight:     r.integer("HOLDFAST_BROKER_MAX_IN_FLIGHT", 1, 100_000),
		BreakerFailures: r.integer("HOLDFAST_BREAKER_FAILURES", 0, 1_000_000),
		BreakerOpen:     r.duration("HOLDFAST_BREAKER_OPEN", time.Millisecond),
	}
	if b.Kind == "alpaca" && b.Token == "" {
		b.Token = alpacaToken(r)
	}
	return b
}

var keyNamespaceForm = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

func readPolicy(r *reader, b Broker) purchase.Policy {
	p := purchase.Policy{
		RetryBase:     r.duration("HOLDFAST_RETRY_BASE", time.Millisecond),
		RetryCap:      r.duration("HOLDFAST_RETRY_CAP", time.Millisecond),
		Jitter:        r.number("HOLDFAST_RETRY_JITTER", "from 0 to below 1", func(v float64) bool { return v >= 0 && v < 1 }),
		MaxAttempts:   r.integer("HOLDFAST_RETRY_MAX_ATTEMPTS", 1, 1_000_000),
		MaxAge:        r.duration("HOLDFAST_RETRY_MAX_AGE", time.Millisecond),
		RetryAfterMax: r.duration("HOLDFAST_RETRY_AFTER_MAX", 0),
		PendingGrace:  b.Timeout + pendingSlack,
		RescueAfter:   r.duration("HOLDFAST_RESCUE_AFTER", time.Millisecond),
		SweepInterval: r.duration("HOLDFAST_SWEEP_INTERVAL", time.Millisecond),
		IntentTTL:     r.duration("HOLDFAST_INTENT_TTL", 0),
		NotionalTTL:   r.duration("HOLDFAST_NOTIONAL_TTL", 0),
		KeyNamespace:  r.pattern("HOLDFAST_BROKER_KEY_NAMESPACE", keyNamespaceForm, "1 to 16 of a-z 0-9"),
	}
	if r.str("HOLDFAST_PENDING_GRACE") != "" {
		p.PendingGrace = r.duration("HOLDFAST_PENDING_GRACE", time.Millisecond)
	}
	return p
}

// pendingSlack is what a purchase gets on top of its broker call to store the outcome
// before it counts as interrupted: a process that waits for the database this long has
// lost it, or its life.
const pendingSlack = 30 * time.Second

func readRateLimit(r *reader) float64 {
	if text := r.str("HOLDFAST_RATE_LIMIT"); text == "off" || text == "0" {
		return 0
	}
	return r.number("HOLDFAST_RATE_LIMIT", "above 0, or off", positive)
}

// positive refuses what is not a finite number above 0; so large a rate as 1e9 is no
// limit at all, and a slip.
func positive(v float64) bool { return v > 0 && v < 1e9 }

func readJWT(r *reader) JWT {
	return JWT{
		Issuer:       r.str("HOLDFAST_JWT_ISSUER"),
		Audience:     r.str("HOLDFAST_JWT_AUDIENCE"),
		JWKSURL:      r.httpURL("HOLDFAST_JWT_JWKS_URL"),
		AccountClaim: r.str("HOLDFAST_JWT_ACCOUNT_CLAIM"),
	}
}

func readLog(r *reader) Log {
	var c Log
	level := r.choice("HOLDFAST_LOG_LEVEL", "debug", "info", "warn", "error")
	_ = c.Level.UnmarshalText([]byte(level)) // a wrong one is told already
	if r.str("HOLDFAST_LOG_FORMAT") != "" {
		c.Format = r.choice("HOLDFAST_LOG_FORMAT", "text", "json")
	}
	return c
}

// ErrNoDataDir says that a data dir is needed and that there is no default for it.
var ErrNoDataDir error = &Error{[]string{"HOME is not set: set HOLDFAST_DATA_DIR"}}

// defaultDataDir is the user's data dir. Root's own home is closed to the user that
// Postgres must run as, so root gets a folder beside other services' data. It is empty
// where nothing says who the user is.
func defaultDataDir(uid int, getenv func(string) string) string {
	if uid == 0 {
		return "/var/lib/holdfast"
	}
	if getenv("HOME") == "" && getenv("XDG_DATA_HOME") == "" {
		return ""
	}
	return filepath.Join(xdg.DataHome, "holdfast")
}

// UnknownSettings returns the HOLDFAST_ variables that are no setting: most likely typing
// errors that would otherwise go unnoticed.
func UnknownSettings(environ []string) []string {
	var unknown []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if _, known := settingNamed(name); strings.HasPrefix(name, "HOLDFAST_") && !known {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
