package api_test

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/api"
	"holdfast/internal/httpserver"
)

// logged is a log that a test reads while handlers write.
type logged struct {
	mu  sync.Mutex
	out bytes.Buffer
}

func (l *logged) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.Write(p)
}

func (l *logged) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.out.String()
}

type counted struct {
	mu   sync.Mutex
	seen []string
}

func (c *counted) HTTPRequest(route, method string, code int, _ time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen = append(c.seen, method+" "+route+" "+http.StatusText(code))
}

func (c *counted) has(line string) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, s := range c.seen {
		if s == line {
			return true
		}
	}
	return false
}

func TestOneLineARequestAndNoSecretInIt(t *testing.T) {
	t.Parallel()
	log, count := &logged{}, &counted{}
	w := setup(t, func(p *api.Params) {
		p.Log, p.Observer = slog.New(slog.NewTextHandler(log, nil)), count
	})
	header := withKey("the-idempotency-key")
	header.Set("X-Request-Id", "client.made-1")
	w.do(request{method: "POST", path: "/v1/purchases?ticket=the-ticket", key: w.client, header: header,
		body: order(fields{"metadata": fields{"secret": "the-metadata"}})}).wantStatus(201).wantHeader("X-Request-Id", "client.made-1")
	w.get("/v1/purchases/"+uuid.NewString(), "the-wrong-key").wantStatus(401)
	w.get("/nothing", "").wantStatus(404)
	waitFor(t, func() bool { return count.has("GET unknown Not Found") })
	text := log.String()
	if n := strings.Count(text, `msg="http request"`); n != 3 {
		t.Errorf("%d lines, want 3:\n%s", n, text)
	}
	if !strings.Contains(text, "request_id=client.made-1") || !strings.Contains(text, "key_id=key_") {
		t.Errorf("the line lacks who it was:\n%s", text)
	}
	for _, secret := range []string{w.client, "the-wrong-key", "the-idempotency-key", "the-metadata", "the-ticket"} {
		if strings.Contains(text, secret) {
			t.Errorf("the log tells %q", secret)
		}
	}
	for _, line := range []string{"POST /v1/purchases Created", "GET /v1/purchases/{id} Unauthorized"} {
		if !count.has(line) {
			t.Errorf("not counted: %s in %v", line, count.seen)
		}
	}
}

func TestRequestIDThatCouldHarmIsReplaced(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, bad := range []string{strings.Repeat("x", 65), "a b", "a=b", ""} {
		if got := w.get("/healthz", "", http.Header{"X-Request-Id": {bad}}).header.Get("X-Request-Id"); got == bad || got == "" {
			t.Errorf("id %q for %q", got, bad)
		}
	}
}

func TestPanicIsA500ThatTellsNothing(t *testing.T) {
	t.Parallel()
	log := &logged{}
	w := setup(t, func(p *api.Params) {
		p.Log = slog.New(slog.NewTextHandler(log, nil))
		p.Streams = http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Query().Has("late") {
				_, _ = w.Write([]byte("half"))
				_ = http.NewResponseController(w).Flush()
			}
			panic("the inside")
		})
	})
	a := w.get("/v1/events", w.client).wantProblem(500, "internal-error")
	if strings.Contains(string(a.body), "inside") || !strings.Contains(log.String(), "the inside") {
		t.Errorf("answer %s\nlog %s", a.body, log)
	}
	asked := httptest.NewRequest(http.MethodGet, w.server.URL+"/v1/events?late", nil)
	asked.RequestURI = ""
	asked.Header.Set("Authorization", "Bearer "+w.client)
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(asked)
	if err == nil {
		var whole bytes.Buffer
		_, err = whole.ReadFrom(response.Body)
		response.Body.Close()
	}
	if err == nil {
		t.Error("half an answer looked like a whole one")
	}
}

// A panic after the broker was called is as a process that died there: the client is told
// nothing, its repeat the truth, and the sweep takes the purchase up.
func TestPanicAfterTheCallLeavesThePurchaseToTheSweep(t *testing.T) {
	t.Parallel()
	w := setup(t, func(p *api.Params) { p.Limits.InFlight = 1 })
	key := uuid.NewString()
	w.called = func() { panic("after the call") }
	w.buyAs(key, order(nil)).wantProblem(500, "internal-error").wantHeader("Location", "")
	w.called = func() {}
	id := w.buyAs(key, order(nil)).wantPurchase(202, "pending_reconciliation").wantHeader("Idempotent-Replayed", "true").
		wantText("status", "PENDING").wantText("reserved", "250.00").text("id")
	w.exec("UPDATE transaction_history SET created_at = created_at - interval '1 hour', send_until = send_until - interval '1 hour' WHERE id = $1", id)
	if n, err := w.service.SweepPending(t.Context()); err != nil || n != 1 {
		t.Fatalf("the sweep took up %d, %v", n, err)
	}
	w.get("/v1/purchases/"+id, w.client).wantText("status", "UNKNOWN").wantText("reason", "interrupted")
	w.pass(id)
	w.get("/v1/purchases/"+id, w.client).wantText("status", "COMPLETED").wantText("evidence", "lookup")
	if orders := w.sandbox.Ledger("").Orders; orders != 1 {
		t.Errorf("%d orders", orders)
	}
	w.buy(order(nil)).wantStatus(201) // neither the request's place nor the breaker's was lost
}

// A page may show itself, and nothing of anybody else's.
func TestPagesForbidABrowserTheRest(t *testing.T) {
	t.Parallel()
	b := console(t)
	for _, a := range []*answer{b.open("/console/"), b.open("/console/login"), b.open("/console/none"), b.open("/river/"), b.open("/docs")} {
		a.wantHeader("X-Content-Type-Options", "nosniff").wantHeader("X-Frame-Options", "DENY").wantHeader("Referrer-Policy", "no-referrer")
		policy := a.header.Get("Content-Security-Policy")
		closed := strings.HasPrefix(policy, "default-src 'none'") || strings.HasPrefix(policy, "default-src 'self'") // River's page
		if !closed || !strings.Contains(policy, "frame-ancestors 'none'") {
			t.Errorf("the policy is %q", policy)
		}
		if strings.Contains(policy, "*") || strings.Contains(policy, "http") {
			t.Errorf("the policy lets others in: %q", policy)
		}
	}
}

func TestAnswersForbidABrowserEverything(t *testing.T) {
	t.Parallel()
	w := setup(t)
	for _, a := range []*answer{w.get("/healthz", ""), w.get("/v1/purchases", w.client), w.get("/v1/purchases", "")} {
		a.wantHeader("X-Content-Type-Options", "nosniff").wantHeader("X-Frame-Options", "DENY").
			wantHeader("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'").
			wantHeader("Cache-Control", "no-store")
	}
}

func TestSameKeyFiftyTimesOnTwoProcesses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	second := w.serve(w.buildParams())
	key := uuid.NewString()
	answers := make(chan *answer, 50)
	for i := range 50 {
		server := w.server
		if i%2 == 1 {
			server = second
		}
		go func() {
			answers <- w.doOn(server, request{method: "POST", path: "/v1/purchases", key: w.client, body: order(nil), header: withKey(key)})
		}()
	}
	id, firsts := "", 0
	for range 50 {
		a := <-answers
		if a.status != 201 && a.status != 202 {
			t.Fatalf("status %d: %s", a.status, a.body)
		}
		if a.header.Get("Idempotent-Replayed") == "" {
			firsts++
		}
		if id == "" {
			id = a.text("id")
		}
		a.wantText("id", id)
	}
	if rows := w.count("SELECT count(*) FROM transaction_history"); firsts != 1 || rows != 1 || w.sandbox.Ledger("").Orders != 1 {
		t.Errorf("%d firsts, %d rows, %d orders, want 1 of each", firsts, rows, w.sandbox.Ledger("").Orders)
	}
	w.buyAs(key, order(nil)).wantPurchase(201, "completed")
	w.get("/v1/accounts/acct-1", w.client).wantText("spent", "250.00").wantText("reserved", "0.00")
}

func TestClientThatHangsUpChangesNothing(t *testing.T) {
	t.Parallel()
	w := setup(t)
	conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	body := `{"account_id":"acct-1","symbol":"LATE","notional":"1.00"}`
	_, err = conn.Write([]byte("POST /v1/purchases HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + w.client +
		"\r\nIdempotency-Key: k\r\nContent-Type: application/json\r\nContent-Length: 57\r\n\r\n" + body))
	if err != nil {
		t.Fatal(err)
	}
	waitFor(t, func() bool { return w.sandbox.Ledger("").Orders == 1 })
	conn.Close()
	waitFor(t, func() bool {
		return w.count("SELECT count(*) FROM transaction_history WHERE status <> 'PENDING'") == 1
	})
}

func TestServerBoundsWhatItReads(t *testing.T) {
	t.Parallel()
	w := setup(t)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := httpserver.New(api.New(w.params), slog.New(slog.DiscardHandler))
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	url := "http://" + listener.Addr().String()
	request := httptest.NewRequest(http.MethodGet, url+"/healthz", nil)
	request.RequestURI = ""
	request.Header.Set("X-Long", strings.Repeat("x", 64<<10))
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	if response.StatusCode != http.StatusRequestHeaderFieldsTooLarge {
		t.Errorf("status %d", response.StatusCode)
	}
	if err := server.Shutdown(t.Context()); err != nil {
		t.Error(err)
	}
	if err := <-served; err != nil {
		t.Error(err)
	}
}
