package config

import (
	"strings"
	"testing"
	"time"
)

// env makes a lookup of what a test sets.
func env(pairs ...string) Lookup {
	set := map[string]string{}
	for _, pair := range pairs {
		name, value, _ := strings.Cut(pair, "=")
		set[name] = value
	}
	return func(name string) (string, bool) {
		value, ok := set[name]
		return value, ok
	}
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
	if c.Broker.Timeout != 5*time.Second || c.Policy.PendingGrace != 35*time.Second {
		t.Errorf("timeout %s, grace %s; want 5s, 35s", c.Broker.Timeout, c.Policy.PendingGrace)
	}
	if c.Policy.MaxAttempts != 20 || c.Policy.RetryBase != time.Minute || c.Policy.Jitter != 0.2 {
		t.Errorf("policy = %+v", c.Policy)
	}
	if !c.Demo() || c.DataDir == "" || !c.Broker.Idempotent {
		t.Errorf("trial %t, data dir %q, idempotent %t", c.Demo(), c.DataDir, c.Broker.Idempotent)
	}
	if said := c.Warnings(); len(said) != 0 {
		t.Errorf("the defaults deserve no remark: %q", said)
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
		t.Errorf("database %q, listen %q, trial %t", c.DatabaseURL, c.ListenURL, c.Demo())
	}
	if c.Broker.URL != "http://broker" || c.Broker.Idempotent || c.RateLimit != 2.5 || c.Workers != 50 {
		t.Errorf("config = %+v", c)
	}
	if got := strings.Join(c.Broker.DuplicateCodes, "|"); got != "used|Seen" {
		t.Errorf("duplicate codes = %q", got)
	}
	if want := 30*time.Second + 200*time.Millisecond; c.Policy.PendingGrace != want {
		t.Errorf("grace = %s, want %s", c.Policy.PendingGrace, want)
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
		"HTTPWithoutURL":   {[]string{"HOLDFAST_BROKER=http"}, []string{"HOLDFAST_BROKER=http", "HOLDFAST_BROKER_URL"}},
		"AlpacaKeys":       {[]string{"HOLDFAST_BROKER=alpaca", "HOLDFAST_BROKER_TOKEN=x"}, []string{"HOLDFAST_BROKER_TOKEN"}},
		"OperatorKey":      {[]string{"HOLDFAST_OPERATOR_KEY=a b"}, []string{"HOLDFAST_OPERATOR_KEY"}},
		"AgeAtRetention": {[]string{"HOLDFAST_RETRY_MAX_AGE=24h"},
			[]string{"HOLDFAST_RETRY_MAX_AGE", "HOLDFAST_BROKER_KEY_RETENTION"}},
		"GraceAtTimeout": {[]string{"HOLDFAST_PENDING_GRACE=5s"},
			[]string{"HOLDFAST_PENDING_GRACE", "HOLDFAST_BROKER_TIMEOUT"}},
		"RescueAtTwiceTimeout": {[]string{"HOLDFAST_RESCUE_AFTER=10s"},
			[]string{"HOLDFAST_RESCUE_AFTER", "HOLDFAST_BROKER_TIMEOUT"}},
		"HalfJWT": {[]string{"HOLDFAST_JWT_ISSUER=a", "HOLDFAST_JWT_AUDIENCE=b"},
			[]string{"HOLDFAST_JWT_JWKS_URL", "HOLDFAST_JWT_ACCOUNT_CLAIM"}},
		"ListenAlone": {[]string{"HOLDFAST_LISTEN_DATABASE_URL=postgres://x/y"},
			[]string{"HOLDFAST_LISTEN_DATABASE_URL", "HOLDFAST_DATABASE_URL"}},
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

func TestUnknownSettings(t *testing.T) {
	t.Parallel()
	got := UnknownSettings([]string{"HOLDFAST_WORKRES=3", "HOLDFAST_WORKERS=3", "PATH=/bin"})
	if len(got) != 1 || got[0] != "HOLDFAST_WORKRES" {
		t.Errorf("unknown = %q", got)
	}
}

// A webhook's path is the receiver's business, its last slash too.
func TestWebhookURLStaysAsItIs(t *testing.T) {
	t.Parallel()
	c, err := Load(env("HOLDFAST_ALERT_WEBHOOK_URL=https://there/hook/", "HOLDFAST_ALERT_WEBHOOK_SECRET=s"))
	if err != nil || c.WebhookURL != "https://there/hook/" {
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
			c, err := Load(env(append(set, "HOLDFAST_BROKER=alpaca")...))
			if err != nil {
				t.Fatal(err)
			}
			if id, secret, ok := AlpacaKeys(c.Broker.Token); id != "id" || secret != "secret" || !ok {
				t.Errorf("keys %q, %q", id, secret)
			}
		})
	}
}

// Without a home the data dir would be a folder in the root of the file system.
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

// What holds together and still deserves a word gets one.
func TestSandboxThatIsGivenABrokerSaysSo(t *testing.T) {
	t.Parallel()
	c, err := Load(env("HOLDFAST_BROKER_URL=https://broker.example"))
	if err != nil {
		t.Fatal(err)
	}
	if said := strings.Join(c.Warnings(), "\n"); !strings.Contains(said, "HOLDFAST_BROKER_URL") {
		t.Errorf("said %q", said)
	}
}
