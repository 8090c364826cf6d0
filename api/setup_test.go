package api_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/api"
	"holdfast/auth"
	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/internal/httpserver"
	"holdfast/internal/testkit/pgtest"
	"holdfast/jobs"
	"holdfast/purchase"
	"holdfast/sandbox"
)

// world is the API over a real database and, over a real wire, the sandbox broker.
type world struct {
	t        *testing.T
	pool     *pgxpool.Pool
	service  *purchase.Service
	sandbox  *sandbox.Sandbox
	params   api.Params
	server   *httptest.Server
	client   string // the key of acct-1
	other    string // the key of acct-2
	operator string
	// committed is told of each commit that wrote an event.
	committed func()
	// called is told of each answer of the broker, before it is stored.
	called func()
}

// brokerTimeout is short: many cases wait it out.
const brokerTimeout = time.Second

// setup opens acct-1 and acct-2 with 10,000.00 USD each; change, where given, changes how
// the API is set up.
func setup(t *testing.T, change ...func(*api.Params)) *world {
	t.Helper()
	w := &world{t: t, pool: pgtest.New(t), committed: func() {}, called: func() {}}
	w.buildBroker()
	w.params = w.buildParams()
	for _, c := range change {
		c(&w.params)
	}
	w.server = w.serve(w.params)
	w.fund("acct-1", "USD")
	w.fund("acct-2", "USD")
	w.client = w.key(auth.ScopeClient, "acct-1")
	w.other = w.key(auth.ScopeClient, "acct-2")
	w.operator = w.key(auth.ScopeOperator, "")
	return w
}

func (w *world) buildBroker() {
	w.t.Helper()
	box, err := sandbox.New(sandbox.Config{})
	if err != nil {
		w.t.Fatal(err)
	}
	w.sandbox = box
}

func (w *world) buildParams() api.Params {
	w.t.Helper()
	server := httptest.NewServer(w.sandbox.Handler())
	w.t.Cleanup(func() {
		_ = w.sandbox.Close()
		server.Close()
	})
	client, err := httpbroker.New(httpbroker.Config{
		URL: server.URL, Timeout: brokerTimeout, KeyRetention: 24 * time.Hour, Settle: 10 * time.Second, Idempotent: true, Name: "test",
		ProcessingInterval: 5 * time.Second,
	})
	if err != nil {
		w.t.Fatal(err)
	}
	scheduler, err := jobs.NewScheduler(w.pool)
	if err != nil {
		w.t.Fatal(err)
	}
	quiet := slog.New(slog.DiscardHandler)
	p := api.Params{
		Accounts: account.New(w.pool), Switches: purchase.NewSwitches(w.pool, quiet),
		Keys:    auth.New(auth.Config{Pool: w.pool, OperatorKey: environmentKey}),
		Pool:    w.pool,
		Queues:  func(ctx context.Context) (map[string]bool, error) { return jobs.Queues(ctx, w.pool) },
		Streams: http.NotFoundHandler(), Metrics: http.HandlerFunc(writeMetrics), Log: quiet,
	}
	w.service = purchase.New(purchase.Params{
		Pool: w.pool, Accounts: p.Accounts, Scheduler: scheduler, Alerts: alert.New(w.pool, scheduler, slog.New(slog.DiscardHandler)), Committed: func() { w.committed() },
		Brokers: purchase.NewBrokers(purchase.Member{
			Broker: client, Gate: broker.NewGate(broker.GateConfig{Failures: 5, Open: time.Minute}),
			Policy: purchase.Policy{
				RetryBase: time.Minute, RetryCap: 30 * time.Minute, Jitter: 0.2, MaxAttempts: 1,
				MaxAge: 12 * time.Hour, RetryAfterMax: time.Hour, PendingGrace: time.Minute, RescueAfter: 2 * time.Minute,
			},
		}),
		Switches: p.Switches, Observer: listener{w: w}, Log: quiet,
	})
	p.Purchases = w.service
	return p
}

const environmentKey = "an-operator-key-of-the-environment"

func writeMetrics(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/plain")
	_, _ = io.WriteString(w, "holdfast_unknown_purchases 0\n")
}

type nobody struct{}

func (nobody) StatusChanged(purchase.Status)            {}
func (nobody) BrokerCall(string, string, time.Duration) {}
func (nobody) PassEnded(string)                         {}
func (nobody) OrphanRepaired(string)                    {}
func (nobody) Contradiction()                           {}

// listener hears of the broker's answers only.
type listener struct {
	nobody
	w *world
}

func (l listener) BrokerCall(string, string, time.Duration) { l.w.called() }

func (w *world) serve(p api.Params) *httptest.Server {
	return w.serveHandler(api.New(p))
}

func (w *world) serveHandler(handler http.Handler) *httptest.Server {
	server := httptest.NewServer(httpserver.Bound(handler))
	w.t.Cleanup(server.Close)
	return server
}

func (w *world) fund(id, currency string) {
	w.t.Helper()
	_, err := w.params.Accounts.Create(w.t.Context(), account.CreateParams{
		ID: id, Currency: currency, Available: decimal.NewFromInt(10_000), Actor: "operator:test",
	})
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) key(scope, accountID string) string {
	w.t.Helper()
	_, secret, err := w.params.Keys.Create(w.t.Context(), auth.CreateParams{Scope: scope, AccountID: accountID})
	if err != nil {
		w.t.Fatal(err)
	}
	return secret
}

// request is one call of a test. A body that is a string goes as it is, anything else
// as JSON.
type request struct {
	method, path, key string
	body              any
	header            http.Header
}

type answer struct {
	t      *testing.T
	status int
	header http.Header
	body   []byte
	json   map[string]any
}

// do makes a call and holds the answer, and the request where it was taken, against the
// API's description.
func (w *world) do(r request) *answer {
	w.t.Helper()
	return w.doOn(w.server, r)
}

func (w *world) doOn(server *httptest.Server, r request) *answer {
	w.t.Helper()
	sent := w.encode(r)
	out, err := http.NewRequestWithContext(w.t.Context(), r.method, server.URL+r.path, strings.NewReader(sent))
	if err != nil {
		w.t.Fatal(err)
	}
	if r.body != nil {
		out.Header.Set("Content-Type", "application/json")
	}
	if r.key != "" {
		out.Header.Set("Authorization", "Bearer "+r.key)
	}
	for name, values := range r.header {
		out.Header[name] = values
	}
	client := &http.Client{
		Transport:     &http.Transport{DisableKeepAlives: true},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}
	in, err := client.Do(out)
	if err != nil {
		w.t.Fatal(err)
	}
	defer in.Body.Close()
	a := &answer{t: w.t, status: in.StatusCode, header: in.Header}
	if a.body, err = io.ReadAll(in.Body); err != nil {
		w.t.Fatal(err)
	}
	if strings.Contains(in.Header.Get("Content-Type"), "json") && r.method != http.MethodHead {
		if err := json.Unmarshal(a.body, &a.json); err != nil {
			w.t.Fatalf("answer is no JSON: %v: %s", err, a.body)
		}
	}
	describe(w.t, out, sent, a)
	return a
}

func (w *world) encode(r request) string {
	switch body := r.body.(type) {
	case nil:
		return ""
	case string:
		return body
	default:
		raw, err := json.Marshal(body)
		if err != nil {
			w.t.Fatal(err)
		}
		return string(raw)
	}
}

type fields map[string]any

// order is ten shares at 25.00 for acct-1, with changes; a nil takes a field away.
func order(change fields) fields {
	o := fields{"account_id": "acct-1", "symbol": "AAPL", "quantity": "10", "limit_price": "25.00"}
	for name, value := range change {
		if value == nil {
			delete(o, name)
			continue
		}
		o[name] = value
	}
	return o
}

func withKey(key string) http.Header { return http.Header{"Idempotency-Key": {key}} }

// buy posts a purchase under a key of its own.
func (w *world) buy(body any) *answer {
	w.t.Helper()
	return w.buyAs(uuid.NewString(), body)
}

func (w *world) buyAs(key string, body any) *answer {
	w.t.Helper()
	return w.do(request{method: "POST", path: "/v1/purchases", key: w.client, body: body, header: withKey(key)})
}

// pass runs one pass over a purchase, due or not.
func (w *world) pass(id string) {
	w.t.Helper()
	w.exec("UPDATE transaction_history SET next_retry = now(), leased_until = NULL WHERE id = $1 AND status = 'UNKNOWN'", id)
	if _, err := w.service.Pass(w.t.Context(), uuid.MustParse(id), 0); err != nil {
		w.t.Fatalf("pass: %v", err)
	}
}

// review brings a purchase into MANUAL_REVIEW and returns its id.
func (w *world) review() string {
	w.t.Helper()
	id := w.buy(order(fields{"symbol": "WRONG-QUANTITY"})).wantStatus(202).text("id")
	w.pass(id)
	w.get("/v1/purchases/"+id, w.client).wantText("status", "MANUAL_REVIEW")
	return id
}

func (w *world) get(path, key string, header ...http.Header) *answer {
	w.t.Helper()
	r := request{method: "GET", path: path, key: key}
	if len(header) > 0 {
		r.header = header[0]
	}
	return w.do(r)
}

func (w *world) exec(sql string, args ...any) {
	w.t.Helper()
	if _, err := w.pool.Exec(w.t.Context(), sql, args...); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
}

// brokerKey is the key under which the broker knows a purchase.
func (w *world) brokerKey(id string) (key string) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), "SELECT broker_key FROM transaction_history WHERE id = $1", id).Scan(&key); err != nil {
		w.t.Fatal(err)
	}
	return key
}

func (w *world) count(sql string, args ...any) (n int) {
	w.t.Helper()
	if err := w.pool.QueryRow(w.t.Context(), sql, args...).Scan(&n); err != nil {
		w.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (a *answer) wantStatus(status int) *answer {
	a.t.Helper()
	if a.status != status {
		a.t.Fatalf("status = %d, want %d: %s", a.status, status, a.body)
	}
	return a
}

// wantProblem asks for a problem document of a status and a slug.
func (a *answer) wantProblem(status int, slug string) *answer {
	a.t.Helper()
	a.wantStatus(status).wantHeader("Content-Type", "application/problem+json")
	if kind := a.text("type"); !strings.HasSuffix(kind, "/"+slug) {
		a.t.Errorf("type = %q, want it to end in %q", kind, slug)
	}
	if got := a.json["status"]; got != float64(status) {
		a.t.Errorf("status in the document = %v, want %d", got, status)
	}
	return a
}

// wantPurchase asks for a purchase of an outcome, as application/json.
func (a *answer) wantPurchase(status int, outcome string) *answer {
	a.t.Helper()
	return a.wantStatus(status).wantHeader("Content-Type", "application/json").wantText("outcome", outcome)
}

func (a *answer) wantHeader(name, value string) *answer {
	a.t.Helper()
	if got := a.header.Get(name); got != value {
		a.t.Errorf("%s = %q, want %q", name, got, value)
	}
	return a
}

func (a *answer) wantRetryAfter() *answer {
	a.t.Helper()
	if got := a.header.Get("Retry-After"); got == "" || got == "0" || strings.Trim(got, "0123456789") != "" {
		a.t.Errorf("Retry-After = %q, want whole seconds", got)
	}
	return a
}

func (a *answer) wantText(field, value string) *answer {
	a.t.Helper()
	if got := a.json[field]; got != value {
		a.t.Errorf("%s = %v, want %q", field, got, value)
	}
	return a
}

// wantNo checks that a field is absent.
func (a *answer) wantNo(field string) *answer {
	a.t.Helper()
	if value, ok := a.json[field]; ok {
		a.t.Errorf("%s is %v, want none", field, value)
	}
	return a
}

func (a *answer) wantNull(names ...string) *answer {
	a.t.Helper()
	for _, name := range names {
		if got, there := a.json[name]; !there || got != nil {
			a.t.Errorf("%s = %v (there: %v), want null", name, got, there)
		}
	}
	return a
}

func (a *answer) text(field string) string {
	a.t.Helper()
	s, ok := a.json[field].(string)
	if !ok {
		a.t.Fatalf("%s = %v, want a string: %s", field, a.json[field], a.body)
	}
	return s
}

// locations are the fields that a problem names.
func (a *answer) locations() []string {
	var names []string
	list, _ := a.json["errors"].([]any)
	for _, item := range list {
		names = append(names, item.(map[string]any)["location"].(string))
	}
	return names
}

// waitFor polls until ok, for a busy machine's while.
func waitFor(t *testing.T, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatal("waited too long")
		}
		<-time.After(5 * time.Millisecond)
	}
}
