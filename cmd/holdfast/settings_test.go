package main

import (
	"strings"
	"testing"
)

// contractSettings are the settings of the external contract, their defaults, and an invalid
// value for each; it is empty if every text is valid.
var contractSettings = []struct{ name, fallback, bad string }{
	{"HOLDFAST_DATABASE_URL", "", "mysql://there/db"},
	{"HOLDFAST_LISTEN_DATABASE_URL", "", "mysql://there/db"},
	{"HOLDFAST_DATA_DIR", "", ""},
	{"HOLDFAST_ADDR", "127.0.0.1:8080", "8080"},
	{"HOLDFAST_METRICS_ADDR", "", "localhost"},
	{"HOLDFAST_OPERATOR_KEY", "", "two words of twenty characters"},
	{"HOLDFAST_BROKER", "sandbox", "bank"},
	{"HOLDFAST_BROKERS_FILE", "", "/nowhere"},
	{"HOLDFAST_BROKER_NAME", "", "two words"},
	{"HOLDFAST_BROKER_KEY_NAMESPACE", "", "a-b"},
	{"HOLDFAST_BROKER_LOOKUP", "true", "perhaps"},
	{"HOLDFAST_BROKER_ABSENCE_LOOKUPS", "2", "0"},
	{"HOLDFAST_BROKER_PROCESSING_INTERVAL", "5s", "0s"},
	{"HOLDFAST_BROKER_MAX_IN_FLIGHT", "256", "0"},
	{"HOLDFAST_BROKER_BUDGET", "0", "-1"},
	{"HOLDFAST_BROKER_EVENTS_SECRET", "", "short"},
	{"HOLDFAST_INTENT_TTL", "0", "-1s"},
	{"HOLDFAST_NOTIONAL_TTL", "15m", "15"},
	{"HOLDFAST_KEY_MAX_IN_FLIGHT", "256", "0"},
	{"HOLDFAST_KEY_MAX_STREAMS", "1000", "many"},
	{"HOLDFAST_MATCH_INTERVAL", "15m", "-1m"},
	{"HOLDFAST_ALLOW_PLAIN_HTTP", "false", "perhaps"},
	{"HOLDFAST_SHUTDOWN_DELAY", "0s", "-1s"},
	{"HOLDFAST_BROKER_URL", "", "broker.example"},
	{"HOLDFAST_BROKER_TOKEN", "", "two\nlines"},
	{"HOLDFAST_BROKER_TIMEOUT", "5s", "5"},
	{"HOLDFAST_BROKER_KEY_RETENTION", "24h", "1d"},
	{"HOLDFAST_BROKER_IDEMPOTENT", "true", "perhaps"},
	{"HOLDFAST_BROKER_SETTLE", "10s", "-1s"},
	{"HOLDFAST_BROKER_DUPLICATE_CODES", "", ""},
	{"HOLDFAST_BROKER_RATE", "50", "0"},
	{"HOLDFAST_BROKER_KEY_NAMESPACE", "", "Prod"},
	{"HOLDFAST_INTENT_TTL", "0", "-1s"},
	{"HOLDFAST_NOTIONAL_TTL", "15m", "1d"},
	{"HOLDFAST_BREAKER_FAILURES", "20", "-1"},
	{"HOLDFAST_BREAKER_OPEN", "10s", "0s"},
	{"HOLDFAST_RETRY_BASE", "1m", "0"},
	{"HOLDFAST_RETRY_CAP", "30m", "half an hour"},
	{"HOLDFAST_RETRY_JITTER", "0.2", "20%"},
	{"HOLDFAST_RETRY_MAX_ATTEMPTS", "20", "1.5"},
	{"HOLDFAST_RETRY_MAX_AGE", "12h", "soon"},
	{"HOLDFAST_RETRY_AFTER_MAX", "1h", "-1h"},
	{"HOLDFAST_PENDING_GRACE", "", "0s"},
	{"HOLDFAST_SWEEP_INTERVAL", "30s", "never"},
	{"HOLDFAST_MATCH_INTERVAL", "15m", "never"},
	{"HOLDFAST_RESCUE_AFTER", "2m", "2"},
	{"HOLDFAST_WORKERS", "50", "0"},
	{"HOLDFAST_ALERT_WEBHOOK_URL", "", "hook"},
	{"HOLDFAST_ALERT_WEBHOOK_SECRET", "", "short"},
	{"HOLDFAST_EVENT_RETENTION", "168h", "7d"},
	{"HOLDFAST_RATE_LIMIT", "off", "fast"},
	{"HOLDFAST_JWT_ISSUER", "", ""},
	{"HOLDFAST_JWT_AUDIENCE", "", ""},
	{"HOLDFAST_JWT_JWKS_URL", "", "keys.json"},
	{"HOLDFAST_JWT_ACCOUNT_CLAIM", "", ""},
	{"HOLDFAST_SHUTDOWN_TIMEOUT", "20s", "0s"},
	{"HOLDFAST_LOG_LEVEL", "info", "loud"},
	{"HOLDFAST_LOG_FORMAT", "", "xml"},
	{"OTEL_EXPORTER_OTLP_ENDPOINT", "", "collector:4318"},
}

// Each setting exists with its default, is in the help, and aborts startup with a one-line
// error that names it if its value is invalid.
func TestSettingsAreTheContracts(t *testing.T) {
	t.Parallel()
	help := must(t, nil, "serve", "--help")
	for _, want := range contractSettings {
		t.Run(want.name, func(t *testing.T) {
			t.Parallel()
			line := want.name + ":"
			if want.fallback != "" {
				line = want.name + " (" + want.fallback + "):"
			}
			if strings.HasPrefix(want.name, "HOLDFAST_") && !strings.Contains(help, line) {
				t.Errorf("the help lacks %q", line)
			}
			if want.bad != "" {
				wantRefused(t, []string{want.name}, want.name+"="+want.bad)
			}
		})
	}
}

// wantRefused runs a serve that must refuse to start with a one-line error that contains names.
func wantRefused(t *testing.T, names []string, settings ...string) {
	t.Helper()
	r := command(t, append([]string{"HOLDFAST_DATA_DIR=" + t.TempDir()}, settings...), "serve")
	if r.code != exitUsage || strings.Count(r.err, "\n") != 1 || r.out != "" {
		t.Errorf("exit %d, want %d and one line: %s%s", r.code, exitUsage, r.out, r.err)
	}
	for _, name := range names {
		if !strings.Contains(r.err, name) {
			t.Errorf("%q does not name %s", r.err, name)
		}
	}
}

// Two settings that contradict each other are both named.
func TestContradictionsNameBothSides(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ settings, names []string }{
		"GraceAtTimeout": {
			[]string{"HOLDFAST_PENDING_GRACE=5s"}, []string{"HOLDFAST_PENDING_GRACE", "HOLDFAST_BROKER_TIMEOUT"}},
		"RescueAtTwiceTheTimeout": {
			[]string{"HOLDFAST_RESCUE_AFTER=10s"}, []string{"HOLDFAST_RESCUE_AFTER", "HOLDFAST_BROKER_TIMEOUT"}},
		"LongTimeout": {
			[]string{"HOLDFAST_BROKER_TIMEOUT=2m"}, []string{"HOLDFAST_RESCUE_AFTER", "HOLDFAST_BROKER_TIMEOUT"}},
		"HTTPWithoutURL": {
			[]string{"HOLDFAST_BROKER=http"}, []string{"HOLDFAST_BROKER", "HOLDFAST_BROKER_URL"}},
		"MetricsWhereTheAPIIs": {
			[]string{"HOLDFAST_ADDR=127.0.0.1:8099", "HOLDFAST_METRICS_ADDR=127.0.0.1:8099"}, []string{"HOLDFAST_METRICS_ADDR", "HOLDFAST_ADDR"}},
		"OneOfFour": {
			[]string{"HOLDFAST_JWT_ISSUER=x"}, []string{"HOLDFAST_JWT_AUDIENCE", "HOLDFAST_JWT_JWKS_URL", "HOLDFAST_JWT_ACCOUNT_CLAIM"}},
		"ThreeOfFour": {
			[]string{"HOLDFAST_JWT_ISSUER=x", "HOLDFAST_JWT_AUDIENCE=x", "HOLDFAST_JWT_JWKS_URL=https://x"}, []string{"HOLDFAST_JWT_ACCOUNT_CLAIM"}},
		"WebhookSecret": {
			[]string{"HOLDFAST_ALERT_WEBHOOK_URL=http://127.0.0.1/", "HOLDFAST_ALERT_WEBHOOK_SECRET=whsec_????????????????"},
			[]string{"HOLDFAST_ALERT_WEBHOOK_URL", "HOLDFAST_ALERT_WEBHOOK_SECRET"}},
		"ListenAlone": {
			[]string{"HOLDFAST_LISTEN_DATABASE_URL=postgres://x/y"}, []string{"HOLDFAST_LISTEN_DATABASE_URL", "HOLDFAST_DATABASE_URL"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			wantRefused(t, test.names, test.settings...)
		})
	}
}
