package main

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/adrg/xdg"

	"holdfast/purchase"
)

// config is every setting, read and checked.
type config struct {
	// DatabaseURL is empty where the private Postgres is to be used.
	DatabaseURL string
	// ListenURL goes to the database directly, past a pooler; the same as DatabaseURL
	// where there is none.
	ListenURL   string
	DataDir     string
	Addr        string
	MetricsAddr string
	OperatorKey string

	Broker brokerConfig
	Policy purchase.Policy

	SweepInterval  time.Duration
	Workers        int
	EventRetention time.Duration
	WebhookURL     string
	WebhookSecret  string
	// RateLimit is requests a second and key; 0 is off.
	RateLimit       float64
	JWT             jwtConfig
	ShutdownTimeout time.Duration
	Log             logConfig
	// Traces: the OTEL_ variables turn them on.
	Traces bool
}

// trial reports whether nothing was set that decides where purchases and data go: then
// there is a demo account, and its keys are printed.
func (c config) trial() bool {
	return c.DatabaseURL == "" && c.Broker.Kind == "sandbox"
}

type brokerConfig struct {
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

type jwtConfig struct{ Issuer, Audience, JWKSURL, AccountClaim string }

type logConfig struct {
	Level slog.Level
	// Format is empty where the terminal decides.
	Format string
}

// loadConfig reads every setting. The error, where there is one, is a *settingsError.
func loadConfig(find lookup) (config, error) {
	r := &reader{lookup: find}
	c := config{
		DataDir:         r.text("HOLDFAST_DATA_DIR"),
		Addr:            r.address("HOLDFAST_ADDR"),
		MetricsAddr:     r.address("HOLDFAST_METRICS_ADDR"),
		OperatorKey:     r.word("HOLDFAST_OPERATOR_KEY"),
		Broker:          readBroker(r),
		SweepInterval:   r.duration("HOLDFAST_SWEEP_INTERVAL", time.Millisecond),
		Workers:         r.whole("HOLDFAST_WORKERS", 1, 10_000),
		EventRetention:  r.duration("HOLDFAST_EVENT_RETENTION", time.Millisecond),
		WebhookURL:      r.link("HOLDFAST_ALERT_WEBHOOK_URL"),
		WebhookSecret:   r.text("HOLDFAST_ALERT_WEBHOOK_SECRET"),
		RateLimit:       readRateLimit(r),
		JWT:             readJWT(r),
		ShutdownTimeout: r.duration("HOLDFAST_SHUTDOWN_TIMEOUT", time.Millisecond),
		Log:             readLog(r),
		Traces:          wantsTraces(find),
	}
	readDatabase(r, &c)
	checkTraces(r)
	c.Policy = readPolicy(r, c.Broker)
	if c.DataDir == "" {
		c.DataDir = defaultDataDir(os.Geteuid(), os.Getenv)
	}
	if c.DataDir == "" && c.DatabaseURL == "" {
		r.fault("%s", noDataDir)
	}
	if len(r.problems) == 0 {
		checkContradictions(r, c)
	}
	return c, r.err()
}

func readDatabase(r *reader, c *config) {
	name, value := "HOLDFAST_DATABASE_URL", r.text("HOLDFAST_DATABASE_URL")
	if value == "" {
		name = "DATABASE_URL"
		value, _ = r.lookup(name)
	}
	c.DatabaseURL = r.database(name, strings.TrimSpace(value))
	c.ListenURL = r.database("HOLDFAST_LISTEN_DATABASE_URL", r.text("HOLDFAST_LISTEN_DATABASE_URL"))
	if c.ListenURL != "" && c.DatabaseURL == "" {
		r.fault("HOLDFAST_LISTEN_DATABASE_URL needs HOLDFAST_DATABASE_URL")
	}
	if c.ListenURL == "" {
		c.ListenURL = c.DatabaseURL
	}
}

func readBroker(r *reader) brokerConfig {
	b := brokerConfig{
		Kind:            r.choice("HOLDFAST_BROKER", "sandbox", "http", "alpaca"),
		URL:             strings.TrimRight(r.link("HOLDFAST_BROKER_URL"), "/"),
		Token:           r.word("HOLDFAST_BROKER_TOKEN"),
		Timeout:         r.duration("HOLDFAST_BROKER_TIMEOUT", time.Millisecond),
		KeyRetention:    r.duration("HOLDFAST_BROKER_KEY_RETENTION", time.Millisecond),
		Idempotent:      r.boolean("HOLDFAST_BROKER_IDEMPOTENT"),
		Settle:          r.duration("HOLDFAST_BROKER_SETTLE", 0),
		DuplicateCodes:  r.list("HOLDFAST_BROKER_DUPLICATE_CODES"),
		TimeInForce:     r.choice("HOLDFAST_BROKER_TIME_IN_FORCE", "ioc", "day"),
		Rate:            r.number("HOLDFAST_BROKER_RATE", "above 0", positive),
		MaxInFlight:     r.whole("HOLDFAST_BROKER_MAX_IN_FLIGHT", 1, 100_000),
		BreakerFailures: r.whole("HOLDFAST_BREAKER_FAILURES", 0, 1_000_000),
		BreakerOpen:     r.duration("HOLDFAST_BREAKER_OPEN", time.Millisecond),
	}
	if b.Kind == "alpaca" && b.Token == "" {
		b.Token = alpacaToken(r)
	}
	return b
}

func readPolicy(r *reader, b brokerConfig) purchase.Policy {
	p := purchase.Policy{
		RetryBase:     r.duration("HOLDFAST_RETRY_BASE", time.Millisecond),
		RetryCap:      r.duration("HOLDFAST_RETRY_CAP", time.Millisecond),
		Jitter:        r.number("HOLDFAST_RETRY_JITTER", "from 0 to below 1", func(v float64) bool { return v >= 0 && v < 1 }),
		MaxAttempts:   r.whole("HOLDFAST_RETRY_MAX_ATTEMPTS", 1, 1_000_000),
		MaxAge:        r.duration("HOLDFAST_RETRY_MAX_AGE", time.Millisecond),
		RetryAfterMax: r.duration("HOLDFAST_RETRY_AFTER_MAX", 0),
		PendingGrace:  b.Timeout + pendingSlack,
		RescueAfter:   r.duration("HOLDFAST_RESCUE_AFTER", time.Millisecond),
	}
	if r.text("HOLDFAST_PENDING_GRACE") != "" {
		p.PendingGrace = r.duration("HOLDFAST_PENDING_GRACE", time.Millisecond)
	}
	return p
}

// pendingSlack is what a purchase gets on top of its broker call to store the outcome
// before it counts as interrupted: a process that waits for the database this long has
// lost it, or its life.
const pendingSlack = 30 * time.Second

func readRateLimit(r *reader) float64 {
	if text := r.text("HOLDFAST_RATE_LIMIT"); text == "off" || text == "0" {
		return 0
	}
	return r.number("HOLDFAST_RATE_LIMIT", "above 0, or off", positive)
}

// positive refuses what is not a finite number above 0; so large a rate as 1e9 is no
// limit at all, and a slip.
func positive(v float64) bool { return v > 0 && v < 1e9 }

func readJWT(r *reader) jwtConfig {
	return jwtConfig{
		Issuer:       r.text("HOLDFAST_JWT_ISSUER"),
		Audience:     r.text("HOLDFAST_JWT_AUDIENCE"),
		JWKSURL:      r.link("HOLDFAST_JWT_JWKS_URL"),
		AccountClaim: r.text("HOLDFAST_JWT_ACCOUNT_CLAIM"),
	}
}

func readLog(r *reader) logConfig {
	var c logConfig
	level := r.choice("HOLDFAST_LOG_LEVEL", "debug", "info", "warn", "error")
	_ = c.Level.UnmarshalText([]byte(level)) // a wrong one is told already
	if r.text("HOLDFAST_LOG_FORMAT") != "" {
		c.Format = r.choice("HOLDFAST_LOG_FORMAT", "text", "json")
	}
	return c
}

const noDataDir = "HOME is not set: set HOLDFAST_DATA_DIR"

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

// unknownSettings returns the HOLDFAST_ variables that no setting has: most likely
// slips that would otherwise go unnoticed.
func unknownSettings(environ []string) []string {
	var unknown []string
	for _, pair := range environ {
		name, _, _ := strings.Cut(pair, "=")
		if _, known := settingNamed(name); strings.HasPrefix(name, "HOLDFAST_") && !known {
			unknown = append(unknown, name)
		}
	}
	return unknown
}
