package config

import (
	"log/slog"
	"os"
	"path/filepath"
	"time"

	"github.com/adrg/xdg"
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

	// Brokers are the brokers that this process serves, one at least. Broker is the default
	// one: it takes the accounts that name none.
	Brokers []Broker
	Broker  Broker

	// PendingGrace is the age from which a PENDING purchase counts as interrupted;
	// RescueAfter the time after which the pass of a dead process is rerun.
	PendingGrace, RescueAfter time.Duration
	// IntentTTL and NotionalTTL are the defaults of valid_until; 0 is none.
	IntentTTL, NotionalTTL time.Duration

	SweepInterval  time.Duration
	Workers        int
	EventRetention time.Duration
	// MatchInterval is how often the broker's orders are matched with ours; 0 is never.
	MatchInterval time.Duration
	WebhookURL    string
	WebhookSecret string
	// RateLimit is the maximum of requests per second and key; 0 is off.
	RateLimit float64
	// KeyMaxInFlight and KeyMaxStreams bound what one client key may use at once.
	KeyMaxInFlight, KeyMaxStreams int
	JWT                           JWT
	AllowPlainHTTP                bool
	// ShutdownDelay is how long a process keeps serving after a signal, ShutdownTimeout how
	// long it may take to end after that.
	ShutdownDelay, ShutdownTimeout time.Duration
	Log                            Log
	// Traces is set if the OTEL_ variables enable tracing.
	Traces bool
}

// Demo reports whether no setting decides where purchases and data go. Then serve creates
// a demo account and prints its keys.
func (c Config) Demo() bool {
	return c.DatabaseURL == "" && len(c.Brokers) == 1 && c.Broker.Kind == Sandbox
}

// JWT names the identity provider whose tokens are accepted; it is zero if there is none.
type JWT struct{ Issuer, Audience, JWKSURL, AccountClaim string }

// Log says what is logged, and how.
type Log struct {
	Level slog.Level
	// Format is empty if the terminal decides.
	Format string
}

// Load parses and checks every setting of env. The error, if any, is an *Error.
func Load(env Env) (Config, error) {
	r := &reader{env: env}
	c := Config{
		DataDir:         r.str("HOLDFAST_DATA_DIR"),
		Addr:            r.address("HOLDFAST_ADDR"),
		MetricsAddr:     r.address("HOLDFAST_METRICS_ADDR"),
		OperatorKey:     readOperatorKey(r),
		IntentTTL:       r.duration("HOLDFAST_INTENT_TTL", 0),
		NotionalTTL:     r.duration("HOLDFAST_NOTIONAL_TTL", 0),
		RescueAfter:     r.duration("HOLDFAST_RESCUE_AFTER", time.Millisecond),
		SweepInterval:   r.duration("HOLDFAST_SWEEP_INTERVAL", time.Millisecond),
		Workers:         r.integer("HOLDFAST_WORKERS", 1, 10_000),
		EventRetention:  r.duration("HOLDFAST_EVENT_RETENTION", time.Millisecond),
		MatchInterval:   r.duration("HOLDFAST_MATCH_INTERVAL", 0),
		WebhookURL:      r.httpURL("HOLDFAST_ALERT_WEBHOOK_URL"),
		WebhookSecret:   r.key("HOLDFAST_ALERT_WEBHOOK_SECRET"),
		RateLimit:       readRateLimit(r),
		KeyMaxInFlight:  r.integer("HOLDFAST_KEY_MAX_IN_FLIGHT", 1, 1_000_000),
		KeyMaxStreams:   r.integer("HOLDFAST_KEY_MAX_STREAMS", 1, 1_000_000),
		JWT:             readJWT(r),
		AllowPlainHTTP:  r.boolean("HOLDFAST_ALLOW_PLAIN_HTTP"),
		ShutdownDelay:   r.duration("HOLDFAST_SHUTDOWN_DELAY", 0),
		ShutdownTimeout: r.duration("HOLDFAST_SHUTDOWN_TIMEOUT", time.Millisecond),
		Log:             readLog(r),
		Traces:          tracing(env),
	}
	references := readBrokers(r, &c)
	readDatabase(r, &c)
	readGrace(r, &c)
	checkTraces(r)
	for _, name := range env.unknown(references) {
		r.errorf("%s is no setting of Holdfast", name)
	}
	if len(r.problems) == 0 {
		checkContradictions(r, c)
	}
	if err := r.err(); err != nil {
		return c, err
	}
	if c.DataDir == "" {
		c.DataDir = defaultDataDir(os.Geteuid(), os.Getenv)
	}
	if c.DataDir == "" && c.DatabaseURL == "" {
		return c, ErrNoDataDir
	}
	return c, nil
}

func readOperatorKey(r *reader) string {
	r.key("HOLDFAST_OPERATOR_KEY")
	return r.token("HOLDFAST_OPERATOR_KEY")
}

func readDatabase(r *reader, c *Config) {
	c.DatabaseURL = r.databaseURL("HOLDFAST_DATABASE_URL")
	if _, set := r.env["HOLDFAST_DATABASE_URL"]; c.DatabaseURL == "" && !set {
		c.DatabaseURL = r.databaseURL("DATABASE_URL")
	}
	c.ListenURL = r.databaseURL("HOLDFAST_LISTEN_DATABASE_URL")
	if c.ListenURL != "" && c.DatabaseURL == "" {
		r.errorf("HOLDFAST_LISTEN_DATABASE_URL needs HOLDFAST_DATABASE_URL")
	}
	if c.ListenURL == "" {
		c.ListenURL = c.DatabaseURL
	}
}

// pendingSlack is how long a purchase has, after its broker call, to store the outcome
// before it counts as interrupted. A process that waits for the database this long has
// lost it.
const pendingSlack = 30 * time.Second

func readGrace(r *reader, c *Config) {
	c.PendingGrace = c.longestTimeout() + pendingSlack
	if r.str("HOLDFAST_PENDING_GRACE") != "" {
		c.PendingGrace = r.duration("HOLDFAST_PENDING_GRACE", time.Millisecond)
	}
}

func (c Config) longestTimeout() time.Duration {
	var longest time.Duration
	for _, b := range c.Brokers {
		longest = max(longest, b.Timeout)
	}
	return longest
}

func readRateLimit(r *reader) float64 {
	if text := r.str("HOLDFAST_RATE_LIMIT"); text == "off" || text == "0" {
		return 0
	}
	return r.number("HOLDFAST_RATE_LIMIT", "above 0, or off", positive)
}

// positive accepts a finite number above 0. A rate of 1e9 or more limits nothing and is a
// typing error.
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
	_ = c.Level.UnmarshalText([]byte(level)) // an invalid one is reported already
	if r.str("HOLDFAST_LOG_FORMAT") != "" {
		c.Format = r.choice("HOLDFAST_LOG_FORMAT", "text", "json")
	}
	return c
}

// ErrNoDataDir says that a data dir is needed and that there is no default for it.
var ErrNoDataDir error = &Error{[]string{"HOME is not set: set HOLDFAST_DATA_DIR"}}

// defaultDataDir is the user's data dir. Root's own home is closed to the user that
// Postgres must run as, so root gets a directory next to other services' data. It is empty
// if nothing says who the user is.
func defaultDataDir(uid int, getenv func(string) string) string {
	if uid == 0 {
		return "/var/lib/holdfast"
	}
	if getenv("HOME") == "" && getenv("XDG_DATA_HOME") == "" {
		return ""
	}
	return filepath.Join(xdg.DataHome, "holdfast")
}
