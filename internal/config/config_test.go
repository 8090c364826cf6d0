package config

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
)

// env is an environment with what a test sets.
func env(pairs ...string) Env {
	set := Env{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return set
}

func TestConfigDefaults(t *testing.T) {
	t.Parallel()
	c, err := Load(env())
	if err != nil {
		t.Fatal(err)
	}
	if c.Addr != "127.0.0.1:8080" || c.Broker.Kind != "sandbox" || c.Workers != 50 || c.RateLimit != 0 {
		t.Errorf("defaults = %+v", c)
	}
	if c.Broker.Timeout != 5*time.Second || c.PendingGrace != 35*time.Second {
		t.Errorf("timeout %s, grace %s; want 5s, 35s", c.Broker.Timeout, c.PendingGrace)
	}
	if c.Broker.RetryMaxAttempts != 20 || c.Broker.RetryBase != time.Minute || c.Broker.RetryJitter != 0.2 {
		t.Errorf("broker = %+v", c.Broker)
	}
	if !c.Demo() || c.DataDir == "" || !c.Broker.Idempotent {
		t.Errorf("demo %t, data dir %q, idempotent %t", c.Demo(), c.DataDir, c.Broker.Idempotent)
	}
	if got := c.Warnings(); len(got) != 0 {
		t.Errorf("the defaults cause warnings: %q", got)
	}
}

func TestConfigRead(t *testing.T) {
	t.Parallel()
	c, err := Load(env(
		"DATABASE_URL=postgres://there/db", "HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=http://broker/",
		"HOLDFAST_BROKER_TIMEOUT=200ms", "HOLDFAST_BROKER_DUPLICATE_CODES= used, ,Seen ", "HOLDFAST_RATE_LIMIT=2.5",
		"HOLDFAST_BROKER_IDEMPOTENT=false", "HOLDFAST_LOG_LEVEL=debug", "HOLDFAST_WORKERS=  "))
	if err != nil {
		t.Fatal(err)
	}
	if c.DatabaseURL != "postgres://there/db" || c.ListenURL != c.DatabaseURL || c.Demo() {
		t.Errorf("database %q, listen %q, demo %t", c.DatabaseURL, c.ListenURL, c.Demo())
	}
	if c.Broker.URL != "http://broker" || c.Broker.Idempotent || c.RateLimit != 2.5 || c.Workers != 50 {
		t.Errorf("config = %+v", c)
	}
	if got := strings.Join(c.Broker.DuplicateCodes, "|"); got != "used|Seen" {
		t.Errorf("duplicate codes = %q", got)
	}
	if want := 30*time.Second + 200*time.Millisecond; c.PendingGrace != want {
		t.Errorf("grace = %s, want %s", c.PendingGrace, want)
	}
}

func TestHoldfastDatabaseURLComesFirst(t *testing.T) {
	t.Parallel()
	c, err := Load(env("DATABASE_URL=postgres://a/db", "HOLDFAST_DATABASE_URL=postgres://b/db"))
	if err != nil || c.DatabaseURL != "postgres://b/db" {
		t.Errorf("database %q, %v", c.DatabaseURL, err)
	}
}

// Each of these stops the start with one line that has these words.
func TestConfigRefused(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		set   []string
		words []string
	}{
		"Duration":         {[]string{"HOLDFAST_BROKER_TIMEOUT=5"}, []string{"HOLDFAST_BROKER_TIMEOUT", `"5"`}},
		"NegativeDuration": {[]string{"HOLDFAST_SWEEP_INTERVAL=-1s"}, []string{"HOLDFAST_SWEEP_INTERVAL"}},
		"ZeroTimeout":      {[]string{"HOLDFAST_BROKER_TIMEOUT=0s"}, []string{"HOLDFAST_BROKER_TIMEOUT"}},
		"Whole":            {[]string{"HOLDFAST_WORKERS=many"}, []string{"HOLDFAST_WORKERS", "many"}},
		"NoWorkers":        {[]string{"HOLDFAST_WORKERS=0"}, []string{"HOLDFAST_WORKERS"}},
		"NoAttempts":       {[]string{"HOLDFAST_RETRY_MAX_ATTEMPTS=0"}, []string{"HOLDFAST_RETRY_MAX_ATTEMPTS"}},
		"JitterOne":        {[]string{"HOLDFAST_RETRY_JITTER=1"}, []string{"HOLDFAST_RETRY_JITTER"}},
		"JitterNaN":        {[]string{"HOLDFAST_RETRY_JITTER=NaN"}, []string{"HOLDFAST_RETRY_JITTER"}},
		"Rate":             {[]string{"HOLDFAST_BROKER_RATE=Inf"}, []string{"HOLDFAST_BROKER_RATE"}},
		"RateLimit":        {[]string{"HOLDFAST_RATE_LIMIT=-1"}, []string{"HOLDFAST_RATE_LIMIT"}},
		"Boolean":          {[]string{"HOLDFAST_BROKER_IDEMPOTENT=maybe"}, []string{"HOLDFAST_BROKER_IDEMPOTENT"}},
		"Address":          {[]string{"HOLDFAST_ADDR=8080"}, []string{"HOLDFAST_ADDR"}},
		"Port":             {[]string{"HOLDFAST_METRICS_ADDR=:99999"}, []string{"HOLDFAST_METRICS_ADDR"}},
		"LogLevel":         {[]string{"HOLDFAST_LOG_LEVEL=loud"}, []string{"HOLDFAST_LOG_LEVEL", "loud"}},
		"LogFormat":        {[]string{"HOLDFAST_LOG_FORMAT=xml"}, []string{"HOLDFAST_LOG_FORMAT"}},
		"UnknownBroker":    {[]string{"HOLDFAST_BROKER=ib"}, []string{"HOLDFAST_BROKER", "ib"}},
		"BrokerURLScheme":  {[]string{"HOLDFAST_BROKER_URL=ftp://x"}, []string{"HOLDFAST_BROKER_URL"}},
		"HTTPWithoutURL":   {[]string{"HOLDFAST_BROKER=http", "HOLDFAST_DATA_DIR=/d"}, []string{"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL"}},
		"AlpacaKeys":       {[]string{"HOLDFAST_BROKER=alpaca", "HOLDFAST_BROKER_TOKEN=x"}, []string{"HOLDFAST_BROKER_TOKEN"}},
		"OperatorKey":      {[]string{"HOLDFAST_OPERATOR_KEY=a b"}, []string{"HOLDFAST_OPERATOR_KEY"}},
		"GraceAtTimeout": {[]string{"HOLDFAST_PENDING_GRACE=5s"},
			[]string{"HOLDFAST_PENDING_GRACE", "HOLDFAST_BROKER_TIMEOUT"}},
		"RescueAtTwiceTimeout": {[]string{"HOLDFAST_RESCUE_AFTER=10s"},
			[]string{"HOLDFAST_RESCUE_AFTER", "HOLDFAST_BROKER_TIMEOUT"}},
		"HalfJWT": {[]string{"HOLDFAST_JWT_ISSUER=a", "HOLDFAST_JWT_AUDIENCE=b"},
			[]string{"HOLDFAST_JWT_JWKS_URL", "HOLDFAST_JWT_ACCOUNT_CLAIM"}},
		"ListenAlone": {[]string{"HOLDFAST_LISTEN_DATABASE_URL=postgres://x/y"},
			[]string{"HOLDFAST_LISTEN_DATABASE_URL", "HOLDFAST_DATABASE_URL"}},
		"Unknown":           {[]string{"HOLDFAST_WORKRES=3"}, []string{"HOLDFAST_WORKRES"}},
		"FileOfNoSecret":    {[]string{"HOLDFAST_WORKERS_FILE=/x"}, []string{"HOLDFAST_WORKERS_FILE"}},
		"EmptyDatabase":     {[]string{"HOLDFAST_DATABASE_URL="}, []string{"HOLDFAST_DATABASE_URL", "empty"}},
		"EmptyFallback":     {[]string{"DATABASE_URL= "}, []string{"DATABASE_URL", "empty"}},
		"EmptyListen":       {[]string{"DATABASE_URL=postgres://a/b", "HOLDFAST_LISTEN_DATABASE_URL="}, []string{"HOLDFAST_LISTEN_DATABASE_URL", "empty"}},
		"QuotedDatabase":    {[]string{`HOLDFAST_DATABASE_URL="postgres://u@h/db"`}, []string{"HOLDFAST_DATABASE_URL", "quotes"}},
		"SingleQuotes":      {[]string{"DATABASE_URL='postgres://u@h/db'"}, []string{"DATABASE_URL", "quotes"}},
		"ShortOperatorKey":  {[]string{"HOLDFAST_OPERATOR_KEY=nineteen-characters"}, []string{"HOLDFAST_OPERATOR_KEY", "20"}},
		"EventsSecret":      {[]string{"HOLDFAST_BROKER_EVENTS_SECRET=whsec_????????????????"}, []string{"HOLDFAST_BROKER_EVENTS_SECRET", "base64"}},
		"ShortSecret":       {[]string{"HOLDFAST_ALERT_WEBHOOK_URL=https://x", "HOLDFAST_ALERT_WEBHOOK_SECRET=whsec_YQ=="}, []string{"HOLDFAST_ALERT_WEBHOOK_SECRET", "20"}},
		"Namespace":         {[]string{"HOLDFAST_BROKER_KEY_NAMESPACE=Prod"}, []string{"HOLDFAST_BROKER_KEY_NAMESPACE", "Prod"}},
		"BrokerName":        {[]string{"HOLDFAST_BROKER_NAME=a b"}, []string{"HOLDFAST_BROKER_NAME", "a b"}},
		"ShutdownAtTimeout": {[]string{"HOLDFAST_SHUTDOWN_TIMEOUT=6999ms"}, []string{"HOLDFAST_SHUTDOWN_TIMEOUT", "HOLDFAST_BROKER_TIMEOUT"}},
		"RealBrokerNowhere": {[]string{"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=https://x"}, []string{"HOLDFAST_DATABASE_URL", "HOLDFAST_DATA_DIR"}},
		"PlainToken": {[]string{"HOLDFAST_BROKER=http", "HOLDFAST_DATA_DIR=/d", "HOLDFAST_BROKER_URL=http://broker.example", "HOLDFAST_BROKER_TOKEN=t"},
			[]string{"HOLDFAST_BROKER_URL", "HOLDFAST_ALLOW_PLAIN_HTTP"}},
		"PlainJWKS": {[]string{"HOLDFAST_JWT_ISSUER=a", "HOLDFAST_JWT_AUDIENCE=b", "HOLDFAST_JWT_ACCOUNT_CLAIM=c", "HOLDFAST_JWT_JWKS_URL=http://idp.example/jwks"},
			[]string{"HOLDFAST_JWT_JWKS_URL", "HOLDFAST_ALLOW_PLAIN_HTTP"}},
		"MissingFile":    {[]string{"HOLDFAST_OPERATOR_KEY_FILE=/nowhere"}, []string{"HOLDFAST_OPERATOR_KEY_FILE", "/nowhere"}},
		"ValueAndFile":   {[]string{"HOLDFAST_OPERATOR_KEY=an-operator-key-of-24-ch", "HOLDFAST_OPERATOR_KEY_FILE=/x"}, []string{"HOLDFAST_OPERATOR_KEY", "HOLDFAST_OPERATOR_KEY_FILE"}},
		"MissingBrokers": {[]string{"HOLDFAST_BROKERS_FILE=/nowhere"}, []string{"HOLDFAST_BROKERS_FILE", "/nowhere"}},
		"SeveralAtOnce": {[]string{"HOLDFAST_WORKERS=x", "HOLDFAST_RETRY_BASE=y"},
			[]string{"HOLDFAST_WORKERS", "HOLDFAST_RETRY_BASE"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Load(env(test.set...))
			if err == nil {
				t.Fatal("accepted")
			}
			for _, word := range test.words {
				if !strings.Contains(err.Error(), word) {
					t.Errorf("%q does not name %s", err, word)
				}
			}
			if strings.Contains(err.Error(), "\n") {
				t.Errorf("more than one line: %q", err)
			}
		})
	}
}

func TestConfigFaultsKeepSecrets(t *testing.T) {
	t.Parallel()
	_, err := Load(env("HOLDFAST_DATABASE_URL=postgres://u:hunter2@h:bad/db",
		"HOLDFAST_ALERT_WEBHOOK_URL=hunter2", "HOLDFAST_OPERATOR_KEY=hunter2 x"))
	if err == nil || strings.Contains(err.Error(), "hunter2") {
		t.Errorf("err = %v", err)
	}
}

// A webhook's path is the receiver's business, its final slash included.
func TestWebhookURLStaysAsItIs(t *testing.T) {
	t.Parallel()
	c, err := Load(env("HOLDFAST_ALERT_WEBHOOK_URL=https://hooks.example/hook/", "HOLDFAST_ALERT_WEBHOOK_SECRET=a-secret-of-24-characters"))
	if err != nil || c.WebhookURL != "https://hooks.example/hook/" {
		t.Errorf("webhook %q, %v", c.WebhookURL, err)
	}
}

func TestAlpacaKeys(t *testing.T) {
	t.Parallel()
	for name, set := range map[string][]string{
		"Token":      {"HOLDFAST_BROKER_TOKEN=id:secret"},
		"AlpacasOwn": {"APCA_API_KEY_ID=id", "APCA_API_SECRET_KEY=secret"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, err := Load(env(append(set, "HOLDFAST_BROKER=alpaca", "HOLDFAST_DATA_DIR=/data")...))
			if err != nil {
				t.Fatal(err)
			}
			if id, secret, ok := AlpacaKeys(c.Broker.Token); id != "id" || secret != "secret" || !ok {
				t.Errorf("keys %q, %q", id, secret)
			}
		})
	}
}

// Without a home the data dir would be a directory in the root of the file system.
func TestDataDirNeedsAHome(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		uid  int
		home string
		none bool
	}{
		"NoHome": {1000, "", true},
		"Home":   {1000, "/home/me", false},
		"Root":   {0, "", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := defaultDataDir(test.uid, func(name string) string { return map[string]string{"HOME": test.home}[name] })
			if (dir == "") != test.none {
				t.Errorf("data dir is %q", dir)
			}
		})
	}
}

// Settings that are valid and suspicious cause a warning.
func TestSandboxWithABrokerURLCausesAWarning(t *testing.T) {
	t.Parallel()
	c, err := Load(env("HOLDFAST_BROKER_URL=https://broker.example"))
	if err != nil {
		t.Fatal(err)
	}
	if got := strings.Join(c.Warnings(), "\n"); !strings.Contains(got, "HOLDFAST_BROKER_URL") {
		t.Errorf("warnings %q", got)
	}
}

// Whoever sets everything to its default gets the defaults.
func TestEveryDefaultCanBeGiven(t *testing.T) {
	t.Parallel()
	set := Env{}
	for _, s := range settings {
		if s.fallback != "" {
			set[s.name] = s.fallback
		}
	}
	given, err := Load(set)
	if err != nil {
		t.Fatal(err)
	}
	if want, _ := Load(env()); !reflect.DeepEqual(given, want) {
		t.Errorf("given %+v, want %+v", given, want)
	}
}

func TestBrokerNames(t *testing.T) {
	t.Parallel()
	for want, set := range map[string][]string{
		"sandbox":                  nil,
		"http:broker.example":      {"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=https://Broker.example/base"},
		"http:broker.example:8443": {"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL=https://broker.example:8443"},
		"alpaca:paper":             {"HOLDFAST_BROKER=alpaca", "HOLDFAST_BROKER_TOKEN=a:b"},
		"alpaca:live":              {"HOLDFAST_BROKER=alpaca", "HOLDFAST_BROKER_TOKEN=a:b", "HOLDFAST_BROKER_URL=https://api.alpaca.markets"},
		"prime":                    {"HOLDFAST_BROKER_NAME=prime"},
	} {
		c, err := Load(env(append(set, "HOLDFAST_DATA_DIR=/data")...))
		if err != nil || c.Broker.Name != want {
			t.Errorf("name %q, %v; want %q", c.Broker.Name, err, want)
		}
	}
}

// Plain HTTP is accepted on this machine, without credentials, or if a setting allows it.
func TestPlainHTTP(t *testing.T) {
	t.Parallel()
	for name, set := range map[string][]string{
		"Loopback": {"HOLDFAST_BROKER_URL=http://127.0.0.2:80", "HOLDFAST_BROKER_TOKEN=t"},
		"IPv6":     {"HOLDFAST_BROKER_URL=http://[::1]:80", "HOLDFAST_BROKER_TOKEN=t"},
		"Name":     {"HOLDFAST_BROKER_URL=http://localhost", "HOLDFAST_BROKER_TOKEN=t"},
		"NoToken":  {"HOLDFAST_BROKER_URL=http://broker.example"},
		"Allowed":  {"HOLDFAST_BROKER_URL=http://broker.example", "HOLDFAST_BROKER_TOKEN=t", "HOLDFAST_ALLOW_PLAIN_HTTP=true"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if _, err := Load(env(append(set, "HOLDFAST_BROKER=http", "HOLDFAST_DATA_DIR=/data")...)); err != nil {
				t.Error(err)
			}
		})
	}
}

// Every secret can be given as a file; its final line break is not part of it.
func TestSecretFiles(t *testing.T) {
	t.Parallel()
	set := Env{"HOLDFAST_BROKER": "http", "HOLDFAST_BROKER_URL": "https://x", "HOLDFAST_JWT_ISSUER": ""}
	values := map[string]string{}
	for _, s := range settings {
		if !s.secret() {
			continue
		}
		values[s.name] = "a-secret-of-24-characters"
		if strings.HasSuffix(s.name, "_URL") {
			values[s.name] = "https://hooks.example/x"
		}
		if strings.HasSuffix(s.name, "DATABASE_URL") {
			values[s.name] = "postgres://u:p@db/" + strings.ToLower(s.name)
		}
		set[s.name+"_FILE"] = fileWith(t, values[s.name]+"\n")
	}
	c, err := Load(set)
	if err != nil {
		t.Fatal(err)
	}
	client, err := LoadClient(set, "")
	for name, got := range map[string]string{
		"HOLDFAST_DATABASE_URL": c.DatabaseURL, "HOLDFAST_LISTEN_DATABASE_URL": c.ListenURL, "HOLDFAST_OPERATOR_KEY": c.OperatorKey,
		"HOLDFAST_BROKER_TOKEN": c.Broker.Token, "HOLDFAST_BROKER_EVENTS_SECRET": c.Broker.EventsSecret,
		"HOLDFAST_ALERT_WEBHOOK_URL": c.WebhookURL, "HOLDFAST_ALERT_WEBHOOK_SECRET": c.WebhookSecret, "HOLDFAST_API_KEY": client.Key,
	} {
		if err != nil || got != values[name] {
			t.Errorf("%s is %q, %v; want %q", name, got, err, values[name])
		}
		delete(values, name)
	}
	if len(values) > 0 {
		t.Errorf("not checked: %v", values)
	}
}

func fileWith(t *testing.T, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
