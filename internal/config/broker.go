package config

import (
	"net/url"
	"regexp"
	"strings"
	"time"

	"holdfast/internal/webhookkey"
)

// The kinds of brokers.
const (
	Sandbox = "sandbox"
	HTTP    = "http"
	Alpaca  = "alpaca"
	// AlpacaBroker is Alpaca's Broker API: each account of ours is an account of theirs.
	AlpacaBroker = "alpaca-broker"
)

// Broker is how one broker is reached, what it promises, and how its purchases are
// reconciled.
type Broker struct {
	// Name is the broker's identity; it is stored with every purchase.
	Name  string
	Kind  string
	URL   string
	Token string
	// KeyNamespace is part of every broker key; it may be empty.
	KeyNamespace string
	Timeout      time.Duration
	KeyRetention time.Duration
	Idempotent   bool
	// Lookup is false if the broker has no lookup.
	Lookup             bool
	Settle             time.Duration
	AbsenceLookups     int
	ProcessingInterval time.Duration
	DuplicateCodes     []string
	TimeInForce        string
	// Rate is the maximum of calls per second by passes; Budget that of all calls, 0 is off.
	Rate, Budget float64
	MaxInFlight  int
	EventsSecret string

	BreakerFailures int
	BreakerOpen     time.Duration

	RetryBase, RetryCap, RetryMaxAge, RetryAfterMax time.Duration
	RetryJitter                                     float64
	RetryMaxAttempts                                int

	// CAFile, CertFile and KeyFile are PEM files: the broker's certificate authority and our
	// client certificate. Proxy is the URL of a proxy. All of them are optional.
	CAFile, CertFile, KeyFile, Proxy string
}

// readBroker reads the one broker of the environment, or the entry that r is at.
func readBroker(r *reader, kind, name string) Broker {
	b := Broker{
		Name: name, Kind: kind,
		URL:                strings.TrimRight(r.httpURL("HOLDFAST_BROKER_URL"), "/"),
		Token:              r.token("HOLDFAST_BROKER_TOKEN"),
		KeyNamespace:       readNamespace(r),
		Timeout:            r.duration("HOLDFAST_BROKER_TIMEOUT", time.Millisecond),
		KeyRetention:       r.duration("HOLDFAST_BROKER_KEY_RETENTION", time.Millisecond),
		Idempotent:         r.boolean("HOLDFAST_BROKER_IDEMPOTENT"),
		Lookup:             r.boolean("HOLDFAST_BROKER_LOOKUP"),
		Settle:             r.duration("HOLDFAST_BROKER_SETTLE", 0),
		AbsenceLookups:     r.integer("HOLDFAST_BROKER_ABSENCE_LOOKUPS", 1, 1000),
		ProcessingInterval: r.duration("HOLDFAST_BROKER_PROCESSING_INTERVAL", time.Millisecond),
		DuplicateCodes:     r.list("HOLDFAST_BROKER_DUPLICATE_CODES"),
		TimeInForce:        r.choice("HOLDFAST_BROKER_TIME_IN_FORCE", "ioc", "day"),
		Rate:               r.number("HOLDFAST_BROKER_RATE", "above 0", positive),
		Budget:             r.number("HOLDFAST_BROKER_BUDGET", "from 0", func(v float64) bool { return v == 0 || positive(v) }),
		MaxInFlight:        r.integer("HOLDFAST_BROKER_MAX_IN_FLIGHT", 1, 100_000),
		EventsSecret:       readEventsSecret(r),
		BreakerFailures:    r.integer("HOLDFAST_BREAKER_FAILURES", 0, 1_000_000),
		BreakerOpen:        r.duration("HOLDFAST_BREAKER_OPEN", time.Millisecond),
		RetryBase:          r.duration("HOLDFAST_RETRY_BASE", time.Millisecond),
		RetryCap:           r.duration("HOLDFAST_RETRY_CAP", time.Millisecond),
		RetryMaxAge:        r.duration("HOLDFAST_RETRY_MAX_AGE", time.Millisecond),
		RetryAfterMax:      r.duration("HOLDFAST_RETRY_AFTER_MAX", 0),
		RetryMaxAttempts:   r.integer("HOLDFAST_RETRY_MAX_ATTEMPTS", 1, 1_000_000),
		RetryJitter: r.number("HOLDFAST_RETRY_JITTER", "from 0 to below 1",
			func(v float64) bool { return v >= 0 && v < 1 }),
	}
	if b.isAlpaca() && b.Token == "" {
		b.Token = alpacaToken(r.env)
	}
	if b.Name == "" {
		b.Name = b.defaultName()
	}
	return b
}

var namespaceForm = regexp.MustCompile(`^[a-z0-9]{1,16}$`)

func readNamespace(r *reader) string {
	text := r.str("HOLDFAST_BROKER_KEY_NAMESPACE")
	if text != "" && !namespaceForm.MatchString(text) {
		r.errorf("%s is %q, must be 1 to 16 of a-z and 0-9", r.label("HOLDFAST_BROKER_KEY_NAMESPACE"), text)
	}
	return text
}

func readEventsSecret(r *reader) string {
	secret := r.key("HOLDFAST_BROKER_EVENTS_SECRET")
	if _, err := webhookkey.Parse(secret); err != nil {
		r.errorf("%s is %s", r.label("HOLDFAST_BROKER_EVENTS_SECRET"), err)
	}
	return secret
}

var kinds = []string{Sandbox, HTTP, Alpaca, AlpacaBroker}

// nameForm is what a broker may be called: it appears in URLs, logs and labels.
var nameForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._:\[\]-]{0,127}$`)

func checkName(r *reader, label, name string) {
	if !nameForm.MatchString(name) {
		r.errorf("%s is %q, must be up to 128 letters, digits and any of . _ : -", label, name)
	}
}

// defaultName is the broker's identity unless a setting gives one.
func (b Broker) defaultName() string {
	parsed, err := url.Parse(b.URL)
	switch {
	case b.Kind == HTTP && err == nil:
		return "http:" + strings.ToLower(parsed.Host)
	case b.Kind == Alpaca && err == nil && parsed.Host == alpacaLiveHost:
		return "alpaca:live"
	case b.Kind == Alpaca:
		return "alpaca:paper"
	case b.Kind == AlpacaBroker && err == nil && parsed.Host == alpacaBrokerLiveHost:
		return "alpaca-broker:live"
	case b.Kind == AlpacaBroker:
		return "alpaca-broker:sandbox"
	default:
		return b.Kind
	}
}
