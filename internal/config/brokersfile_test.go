package config

import (
	"strings"
	"testing"
	"time"
)

const twoBrokers = `
default: beta
brokers:
  - name: alpha
    kind: http
    url: https://alpha.example/
    token_env: HOLDFAST_ALPHA_TOKEN
    timeout: 3s
    key_retention: 24h
    retry_base: 2m
    retry_max_attempts: 7
    breaker_failures: 0
    budget: 3
    lookup: false
    ca_file: /etc/holdfast/ca.pem
    cert_file: /etc/holdfast/cert.pem
    key_file: /etc/holdfast/key.pem
    proxy: http://127.0.0.1:3128
  - name: beta
    kind: alpaca
    token_file: TOKEN
`

func TestBrokersFile(t *testing.T) {
	t.Parallel()
	path := fileWith(t, strings.ReplaceAll(twoBrokers, "token_file: TOKEN", "token_file: "+fileWith(t, "id:secret\n")))
	c, err := Load(env("HOLDFAST_DATA_DIR=/data", "HOLDFAST_BROKERS_FILE="+path, "HOLDFAST_ALPHA_TOKEN=t1",
		"HOLDFAST_BROKER_SETTLE=1s"))
	if err != nil {
		t.Fatal(err)
	}
	if len(c.Brokers) != 2 || c.Broker.Name != "beta" || c.Demo() {
		t.Fatalf("brokers %+v, default %q", c.Brokers, c.Broker.Name)
	}
	a, b := c.Brokers[0], c.Brokers[1]
	if a.URL != "https://alpha.example" || a.Token != "t1" || a.Timeout != 3*time.Second || a.RetryBase != 2*time.Minute ||
		a.RetryMaxAttempts != 7 || a.BreakerFailures != 0 || a.Budget != 3 || a.Lookup || a.Proxy == "" || a.CAFile == "" {
		t.Errorf("alpha = %+v", a)
	}
	if b.Token != "id:secret" || b.Timeout != 5*time.Second || b.Kind != Alpaca {
		t.Errorf("beta = %+v", b)
	}
	if a.Settle != time.Second || b.Settle != time.Second {
		t.Errorf("settle %s and %s: want the environment's", a.Settle, b.Settle)
	}
	if c.PendingGrace != 35*time.Second {
		t.Errorf("grace %s: want the longest timeout and 30s", c.PendingGrace)
	}
}

func TestBrokersFileRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct{ text, want string }{
		"Empty":         {"", "HOLDFAST_BROKERS_FILE"},
		"NoBroker":      {"brokers: []", "names no broker"},
		"UnknownTop":    {"broker: []", "broker"},
		"UnknownKey":    {"brokers: [{name: a, kind: sandbox, timout: 5s}]", `broker "a": unknown key timout`},
		"GlobalKey":     {"brokers: [{name: a, kind: sandbox, workers: 5}]", `unknown key workers`},
		"Value":         {"brokers: [{name: a, kind: sandbox, timeout: soon}]", `broker "a": timeout is "soon"`},
		"Kind":          {"brokers: [{name: a, kind: bank}]", `kind is "bank"`},
		"NoName":        {"brokers: [{kind: sandbox}]", "name"},
		"Twice":         {"brokers: [{name: a, kind: sandbox}, {name: a, kind: sandbox}]", "more than once"},
		"Default":       {"default: b\nbrokers: [{name: a, kind: sandbox}]", `no broker is named "b"`},
		"Secret":        {"brokers: [{name: a, kind: http, url: 'https://x', token: hunter2}]", "token_env or token_file"},
		"NoVariable":    {"brokers: [{name: a, kind: http, url: 'https://x', token_env: NOWHERE}]", "NOWHERE is not set"},
		"HalfOfAPair":   {"brokers: [{name: a, kind: http, url: 'https://x', cert_file: /c}]", "cert_file and key_file"},
		"Contradiction": {"brokers: [{name: a, kind: sandbox, timeout: 2m}, {name: b, kind: sandbox}]", "broker a"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(env("HOLDFAST_DATA_DIR=/data", "HOLDFAST_BROKERS_FILE="+fileWith(t, test.text)))
			if err == nil || !strings.Contains(err.Error(), test.want) || strings.ContainsAny(err.Error(), "\n") {
				t.Errorf("error %q, want one line with %q", err, test.want)
			}
			if err != nil && strings.Contains(err.Error(), "hunter2") {
				t.Errorf("%q repeats the secret", err)
			}
		})
	}
}

// A file says which brokers are meant; the environment must not say it again.
func TestBrokersFileCannotBeCombined(t *testing.T) {
	t.Parallel()
	path := fileWith(t, "brokers: [{name: a, kind: sandbox}]")
	for _, pair := range []string{"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_NAME=b", "HOLDFAST_BROKER_URL=https://x", "HOLDFAST_BROKER_TOKEN=t"} {
		name, _, _ := strings.Cut(pair, "=")
		if _, err := Load(env("HOLDFAST_DATA_DIR=/data", "HOLDFAST_BROKERS_FILE="+path, pair)); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", pair, err)
		}
	}
}
