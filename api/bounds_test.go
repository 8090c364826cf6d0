package api_test

import (
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"holdfast/api"
)

// open sends the beginning of something over a connection of its own.
func (w *world) open(text string) net.Conn {
	w.t.Helper()
	conn, err := net.Dial("tcp", w.server.Listener.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	w.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		w.t.Fatal(err)
	}
	return conn
}

// halfSent is a request whose body does not come.
func halfSent(path, key string) string {
	return fmt.Sprintf("POST %s HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nContent-Type: application/json\r\nContent-Length: 1000\r\n\r\n{", path, key)
}

func TestHalfSentRequestsHoldNoSlot(t *testing.T) {
	t.Parallel()
	w := setup(t, func(p *api.Params) { p.Limits.InFlight, p.Limits.KeyInFlight = 1, 1 })
	for _, sent := range []string{
		halfSent("/v1/purchases", w.client), halfSent("/v1/accounts", w.operator), halfSent("/console/login", ""), halfSent("/river/api/jobs/cancel", ""),
	} {
		for range 3 * 8 { // more than the console has slots
			w.open(sent)
		}
	}
	w.do(request{method: "POST", path: "/v1/purchases", key: w.other, header: withKey("k"), body: order(fields{"account_id": "acct-2"})}).wantStatus(201)
	w.get("/console/login", "").wantStatus(200)
}

// A key beyond its limit is refused, and nobody else is.
func TestRequestsOfOneKeyAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, func(p *api.Params) { p.Limits.KeyInFlight = 1 })
	inProgress, goOn := make(chan struct{}), make(chan struct{})
	w.called = func() { close(inProgress); <-goOn }
	bought := make(chan *answer)
	go func() { bought <- w.buy(order(nil)) }()
	<-inProgress
	w.get("/v1/accounts/acct-1", w.client).wantProblem(429, "rate-limited").wantRetryAfter()
	w.get("/v1/accounts/acct-2", w.other).wantStatus(200)
	w.get("/v1/accounts/acct-1", w.operator).wantStatus(200)
	close(goOn)
	(<-bought).wantStatus(201)
	w.get("/v1/accounts/acct-1", w.client).wantStatus(200)
}

// A key may have only so many bodies on their way.
func TestBodiesOfOneKeyAreBounded(t *testing.T) {
	t.Parallel()
	w := setup(t, func(p *api.Params) { p.Limits.KeyInFlight = 1 })
	for range 4 {
		w.open(halfSent("/v1/purchases", w.client))
	}
	waitFor(t, func() bool { return w.buy(order(nil)).status == http.StatusTooManyRequests })
	conn := w.open(halfSent("/v1/purchases", w.client))
	_ = conn.SetReadDeadline(time.Now().Add(20 * time.Second))
	head := make([]byte, 12)
	if _, err := io.ReadFull(conn, head); err != nil || !strings.HasSuffix(string(head), "429") {
		t.Errorf("answered %q, %v", head, err)
	}
}
