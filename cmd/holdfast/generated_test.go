package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testkit/apicheck"
)

// The duration of the generated requests (HOLDFAST_TEST_FUZZ changes it) and the number of
// clients. HOLDFAST_TEST_SEED repeats the same requests.
const (
	fuzzFor     = 4 * time.Second
	fuzzClients = 4
	// minFuzzed is the minimum number of requests: on a busy machine the test continues until
	// then.
	minFuzzed = 1000
	// answerWithin is far above the maximum wait that a generated request asks for.
	answerWithin = 30 * time.Second
)

// Valid and invalid requests for every operation of the OpenAPI document, sent byte by byte: no
// internal error occurs, no response is undocumented, valid requests are accepted, and
// afterwards every invariant holds.
func TestGeneratedRequests(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_BREAKER_FAILURES=0", "HOLDFAST_LOG_LEVEL=info")
	must(t, w.settings, "account", "create", "--id", "acct-2", "--currency", "JPY", "--available", "10000")
	other := lastLine(must(t, w.settings, "key", "create", "--scope", "client", "--account", "acct-2"))
	broker := lastLine(must(t, w.settings, "key", "create", "--scope", "broker"))
	s := launch(t, w.settings)
	described, err := s.call(http.MethodGet, "/openapi.json", "", "")
	if err != nil {
		t.Fatal(err)
	}
	spec, err := apicheck.Load(t.Context(), []byte(described.body))
	if err != nil {
		t.Fatal(err)
	}
	seed, duration := fuzzSettings(t)
	t.Logf("HOLDFAST_TEST_SEED=%d for %s", seed, duration)
	run := &fuzzRun{t: t, spec: spec, until: time.Now().Add(duration), seen: map[string]int{}, problems: map[string]string{}}
	var clients sync.WaitGroup
	for i := range uint64(fuzzClients) {
		g := apicheck.NewGenerator(spec, rand.New(rand.NewPCG(seed, i)),
			apicheck.Keys{Client: w.client, Operator: w.operator, Broker: broker, Others: []string{other, "unknown", "hf_client_" + strings.Repeat("x", 9000)}},
			w.known(s))
		clients.Go(func() { run.run(g, s.addr) })
	}
	clients.Wait()
	run.report(s, apicheck.NewGenerator(spec, rand.New(rand.NewPCG(seed, 0)), apicheck.Keys{}, nil).Operations())
	for _, bad := range []string{"handler panicked", "request failed", "http: superfluous", "http: panic", `"reason":""`, `"evidence":""`} {
		if strings.Contains(s.err.String(), bad) {
			t.Errorf("the log says %q", bad)
		}
	}
	auditHolds(t, w.settings)
}

// known are values that exist in this world.
func (w *world) known(s *serving) map[string][]any {
	bought := func(symbol string) string {
		_, p := s.buy(w.client, "acct-1", symbol, "known-"+symbol)
		return p.ID
	}
	fresh := func(g *apicheck.Generator) any { return "gen-" + strconv.FormatUint(g.Uint64(), 36) }
	return map[string][]any{
		"createPurchase.account_id": {"acct-1"}, "listPurchases.account_id": {"acct-1"}, "streamEvents.account_id": {"acct-1"},
		"reconcileMany.account_id": {"acct-1", "acct-2"}, "getAccount.id": {"acct-1", "acct-2", "none"}, "createDeposit.id": {"acct-1"},
		"createAccount.id": {"acct-1", fresh}, "createAccount.available": {"0", "5"}, "createAccount.currency": {"USD", "JPY", "BHD"},
		"createPurchase.currency": {"USD"}, "createPurchase.Idempotency-Key": {"a", "b", "c", fresh, fresh, fresh},
		"symbol":   {"AAPL", "AAPL", "ERR500", "REJECT", "DROP-BOOKED", "PRICE-BELOW-LIMIT", "PRICE-ABOVE-LIMIT", "GARBAGE", "WRONG-QUANTITY", "REJECT-2XX", "ERR500-FOREVER"},
		"quantity": {"1", "0.5", "2.000", "0.000000001"}, "limit_price": {"1.00", "0.000001", "0025"}, "notional": {"1", "10.00", "0.1"},
		"valid_until": {nil, "2999-12-31T23:59:59Z", "2999-12-31T23:59:59.25+02:00"},
		"metadata":    {nil, map[string]any{}, map[string]any{"a": []any{1.5, nil, "ä"}}},
		"id":          {bought("AAPL"), bought("ERR500-FOREVER"), bought("REJECT"), bought("WRONG-QUANTITY"), "none"},
		"amount":      {"1.00", "5"}, "cost": {"1.00", "0"}, "resolvePurchase.outcome": {"completed", "completed"}, "note": {"n", "Ünïcode\n\"quoted\""},
		"order_id": {fresh}, "older_than": {"1h", "0s"}, "dry_run": {true, true, false}, "reason": {"timeout", "none"}, "paused": {false},
		"name": {"intake", "passes"}, "slug": {"not-found", "unavailable"}, "cursor": {"AZqLyq3lfPqyZx0hWZ8KNg"}, "purchase_id": {bought("AAPL")},
		"If-None-Match": {`"2"`, "*"}, "Prefer": {"wait=0", "wait=0", "respond-async"}, "last_event_id": {"0"}, "Last-Event-ID": {"0", ""},
		"available": {"1"}, "setSwitch.broker": {w.brokerName()},
		"createAccount.broker": {nil, w.brokerName()}, "updateAccount.broker": {nil, "", w.brokerName()},
		"updateAccount.id": {"acct-1", "acct-2", "none"}, "broker_account": {nil, "", "Kundin Nr. 7"},
	}
}

// brokerName is the default name of the world's broker.
func (w *world) brokerName() string {
	for _, setting := range w.settings {
		if host, ok := strings.CutPrefix(setting, "HOLDFAST_BROKER_URL=http://"); ok {
			return "http:" + host
		}
	}
	return ""
}

func fuzzSettings(t *testing.T) (seed uint64, duration time.Duration) {
	t.Helper()
	seed, duration = uint64(time.Now().UnixNano()), fuzzFor
	var err error
	if given := os.Getenv("HOLDFAST_TEST_FUZZ"); given != "" {
		if duration, err = time.ParseDuration(given); err != nil {
			t.Fatal(err)
		}
	}
	if given := os.Getenv("HOLDFAST_TEST_SEED"); given != "" {
		if seed, err = strconv.ParseUint(given, 10, 64); err != nil {
			t.Fatal(err)
		}
	}
	return seed, duration
}

// fuzzRun collects what all clients see.
type fuzzRun struct {
	t     *testing.T
	spec  *apicheck.Spec
	until time.Time

	mu       sync.Mutex
	seen     map[string]int    // counts: statuses, operations, mutations
	problems map[string]string // the types of problems, each with a response that had it
	faults   int
}

// maxFaults is how many are printed.
const maxFaults = 10

func (f *fuzzRun) run(g *apicheck.Generator, addr string) {
	wire := &wire{addr: addr}
	defer wire.close()
	for f.goesOn() {
		r := g.Request()
		x, err := wire.exchange(r)
		if err != nil {
			f.fault(r, x, fmt.Errorf("no answer: %w", err))
			continue
		}
		f.note(r, x)
		for _, fault := range f.spec.Check(f.t.Context(), x) {
			f.fault(r, x, fault)
		}
		if x.OwnFault() {
			f.fault(r, x, errors.New("our own fault"))
		}
		if p, problem := x.Problem(); problem && len(r.Mutations) == 0 && malformed(x.Status, p) {
			f.fault(r, x, errors.New("what is sound was refused"))
		}
	}
}

// malformed reports whether a problem is about the request's form, not about the state of the
// data.
func malformed(status int, p apicheck.Problem) bool {
	switch p.Slug() {
	case "insufficient-funds", "not-found", "account-not-found", "idempotency-key-reused", "unavailable":
		return false
	}
	return status != http.StatusConflict
}

func (f *fuzzRun) note(r apicheck.Request, x apicheck.Exchange) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.seen[strconv.Itoa(x.Status)]++
	f.seen["sent"]++
	for _, name := range r.Mutations {
		f.seen[name]++
	}
	p, problem := x.Problem()
	if problem {
		f.problems[p.Type] = string(x.Answer)
	}
	if !problem || !malformed(x.Status, p) {
		f.seen[r.Operation]++
	}
}

func (f *fuzzRun) goesOn() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	wanted := time.Now().Before(f.until) || f.seen["sent"] < minFuzzed
	return wanted && f.faults < maxFaults
}

func (f *fuzzRun) fault(r apicheck.Request, x apicheck.Exchange, fault error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.faults++
	f.t.Errorf("%v\n%s %s %s, mutations %q\n%s\n%s\nanswered %d %v\n%s", fault, r.Operation, r.Method, clip(r.Target), r.Mutations,
		clip(fmt.Sprint(r.Header)), clip(string(r.Body)), x.Status, x.AnswerHeader, clip(string(x.Answer)))
}

func clip(s string) string {
	const most = 1500
	return s[:min(len(s), most)]
}

// report checks that the run was complete: every operation was accepted at least once, every
// mutation was used, and each problem's type links to its paragraph.
func (f *fuzzRun) report(s *serving, operations []string) {
	f.t.Logf("%v", f.seen)
	for _, name := range append(operations, apicheck.Spoilers()...) {
		if f.seen[name] == 0 {
			f.t.Errorf("never: %s", name)
		}
	}
	for kind, answer := range f.problems {
		r := apicheck.Request{Method: http.MethodGet, Target: kind, Header: []apicheck.Field{{Name: "Host", Value: "holdfast"}}}
		wire := &wire{addr: s.addr}
		if x, err := wire.exchange(r); err != nil || x.Status != http.StatusSeeOther {
			f.t.Errorf("%s is not documented: %d, %v: %s", kind, x.Status, err, answer)
		}
		wire.close()
	}
}

// wire sends requests byte by byte over one connection, as long as it stays open.
type wire struct {
	addr   string
	conn   net.Conn
	reader *bufio.Reader
}

func (w *wire) close() {
	if w.conn != nil {
		w.conn.Close()
		w.conn = nil
	}
}

func (w *wire) exchange(r apicheck.Request) (x apicheck.Exchange, err error) {
	x = apicheck.Exchange{Method: r.Method, Target: r.Target, Header: http.Header{}, Body: r.Body}
	for _, h := range r.Header {
		x.Header.Add(h.Name, h.Value)
	}
	if w.conn == nil {
		if w.conn, err = net.DialTimeout("tcp", w.addr, answerWithin); err != nil {
			return x, err
		}
		w.reader = bufio.NewReader(w.conn)
	}
	_ = w.conn.SetDeadline(time.Now().Add(answerWithin))
	if _, err = w.conn.Write(encode(r)); err != nil {
		w.close()
		return x, err
	}
	stays, err := w.read(&x)
	if !stays || err != nil {
		w.close()
	}
	return x, err
}

// read reads the response and reports whether the connection may be used again. A stream has no
// end: its beginning is enough.
func (w *wire) read(x *apicheck.Exchange) (stays bool, err error) {
	response, err := http.ReadResponse(w.reader, &http.Request{Method: x.Method})
	for err == nil && response.StatusCode == http.StatusContinue {
		response, err = http.ReadResponse(w.reader, &http.Request{Method: x.Method})
	}
	if err != nil {
		return false, err
	}
	defer response.Body.Close()
	x.Status, x.AnswerHeader = response.StatusCode, response.Header
	if response.Header.Get("Content-Type") == "text/event-stream" {
		return false, nil
	}
	x.Answer, err = io.ReadAll(response.Body)
	return !response.Close, err
}

func encode(r apicheck.Request) []byte {
	var out bytes.Buffer
	fmt.Fprintf(&out, "%s %s HTTP/1.1\r\n", r.Method, r.Target)
	for _, h := range r.Header {
		fmt.Fprintf(&out, "%s: %s\r\n", h.Name, h.Value)
	}
	if r.Chunked {
		fmt.Fprintf(&out, "Transfer-Encoding: chunked\r\n\r\n")
		for half := range 2 {
			part := r.Body[half*len(r.Body)/2 : (half+1)*len(r.Body)/2]
			if len(part) > 0 {
				fmt.Fprintf(&out, "%x\r\n%s\r\n", len(part), part)
			}
		}
		fmt.Fprintf(&out, "0\r\n\r\n")
		return out.Bytes()
	}
	fmt.Fprintf(&out, "Content-Length: %d\r\n\r\n%s", len(r.Body), r.Body)
	return out.Bytes()
}
