package main

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testkit/apicheck"
)

// The console and River UI handle generated requests, as the API does: no internal error
// occurs, no page is shown without a session, and afterwards every invariant holds.
func TestGeneratedPageRequests(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	var ids []string
	for _, symbol := range []string{"AAPL", "REJECT", "ERR500-FOREVER"} {
		_, p := s.buy(w.client, "acct-1", symbol, "known-"+symbol)
		ids = append(ids, p.ID)
	}
	session := operatorSession(t, w, s)
	seed, duration := fuzzSettings(t)
	t.Logf("HOLDFAST_TEST_SEED=%d for %s", seed, duration)
	run := &pagesRun{t: t, until: time.Now().Add(duration), seen: map[string]int{}}
	var clients sync.WaitGroup
	for i := range uint64(fuzzClients) {
		pages := &apicheck.Pages{Rand: rand.New(rand.NewPCG(seed, i)), Session: session, Purchases: ids}
		clients.Go(func() { run.run(pages, s.addr) })
	}
	clients.Wait()
	t.Logf("%v", run.seen)
	for _, bad := range []string{"handler panicked", "request failed", "console page failed", "http: superfluous", "http: panic"} {
		if strings.Contains(s.err.String(), bad) {
			t.Errorf("the log says %q", bad)
		}
	}
	s.stop() // a job that River UI has deleted is recreated by the next sweep
	next := launch(t, w.settings)
	eventually(t, "the audit holds", func() error {
		if r := command(t, w.settings, "audit"); r.code != exitDone {
			return errors.New(r.out + r.err)
		}
		return nil
	})
	next.stop()
}

func operatorSession(t *testing.T, w *world, s *serving) string {
	t.Helper()
	form := strings.NewReader(url.Values{"key": {w.operator}}.Encode())
	request, err := http.NewRequest(http.MethodPost, "http://"+s.addr+"/console/login", form)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(request)
	if err != nil {
		t.Fatal(err)
	}
	response.Body.Close()
	for _, cookie := range response.Cookies() {
		if cookie.Name == "holdfast_session" {
			return cookie.Value
		}
	}
	t.Fatalf("no session: %s", response.Status)
	return ""
}

type pagesRun struct {
	t     *testing.T
	until time.Time

	mu     sync.Mutex
	seen   map[string]int
	faults int
}

func (p *pagesRun) run(pages *apicheck.Pages, addr string) {
	wire := &wire{addr: addr}
	defer wire.close()
	for p.goesOn() {
		r := pages.Request()
		x, err := wire.exchange(r)
		if err != nil {
			p.fault(r, x, fmt.Errorf("no answer: %w", err))
			continue
		}
		p.note(r, x)
		for _, fault := range apicheck.CheckPage(x) {
			p.fault(r, x, fault)
		}
	}
}

func (p *pagesRun) goesOn() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	wanted := time.Now().Before(p.until) || p.seen["sent"] < minFuzzed
	return wanted && p.faults < maxFaults
}

// note requires a session for every response that shows something.
func (p *pagesRun) note(r apicheck.Request, x apicheck.Exchange) {
	session := false
	for _, h := range r.Header {
		session = session || h.Name == "Cookie" && len(h.Value) > 70 && !strings.Contains(h.Value, "aaaa")
	}
	open := r.Operation == "/console/login" || r.Operation == "/console/style.css"
	if x.Status == http.StatusOK && !session && !open {
		p.fault(r, x, errors.New("shown without a session"))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.seen["sent"]++
	p.seen[strconv.Itoa(x.Status)]++
}

func (p *pagesRun) fault(r apicheck.Request, x apicheck.Exchange, fault error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.faults++
	p.t.Errorf("%v\n%s %s\n%s\n%s\nanswered %d %v\n%s", fault, r.Method, clip(r.Target), clip(fmt.Sprintf("%q", r.Header)),
		clip(fmt.Sprintf("%q", r.Body)), x.Status, x.AnswerHeader, clip(string(x.Answer)))
}
