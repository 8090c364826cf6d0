package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"testing"
	"time"
)

// ticket requests a ticket.
func (s *serving) ticket(key string) string {
	s.t.Helper()
	a, err := s.call(http.MethodPost, "/v1/stream-tickets", key, "")
	if err != nil || a.status != http.StatusCreated {
		s.t.Fatalf("ticket: %d, %v: %s", a.status, err, a.body)
	}
	var issued struct {
		Ticket    string    `json:"ticket"`
		ExpiresAt time.Time `json:"expires_at"`
	}
	if err := json.Unmarshal([]byte(a.body), &issued); err != nil {
		s.t.Fatal(err)
	}
	if left := time.Until(issued.ExpiresAt); left <= 0 || left > time.Minute+busy {
		s.t.Errorf("a ticket for %v, want a minute", left)
	}
	return issued.Ticket
}

// byTicket opens a stream as a browser does, without an Authorization header. The channel is
// closed when the stream ends.
func (s *serving) byTicket(ticket string, query url.Values) (status int, events <-chan event) {
	s.t.Helper()
	query.Set("ticket", ticket)
	ctx, cancel := context.WithCancel(context.Background())
	s.t.Cleanup(cancel)
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/v1/events?"+query.Encode(), nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Accept", "text/event-stream")
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil {
		s.t.Fatal(err)
	}
	seen := make(chan event, 100)
	go func() {
		defer close(seen)
		defer got.Body.Close()
		readEvents(got.Body, func(e event) { seen <- e })
	}()
	return got.StatusCode, seen
}

// A ticket opens one stream, which has the access of its key and ends with its key.
func TestStreamByTicket(t *testing.T) {
	t.Parallel()
	w := setup(t)
	must(t, w.settings, "account", "create", "--id", "acct-2", "--currency", "USD", "--available", "10000.00")
	other := lastLine(must(t, w.settings, "key", "create", "--scope", "client", "--account", "acct-2"))
	s := launch(t, w.settings)
	_, theirs := s.buy(other, "acct-2", "AAPL", "theirs")
	_, ours := s.buy(w.client, "acct-1", "AAPL", "ours")
	ticket := s.ticket(w.client)
	status, events := s.byTicket(ticket, url.Values{"last_event_id": {"0"}})
	if e := <-events; status != http.StatusOK || e.PurchaseID != ours.ID {
		t.Fatalf("status %d, event %+v, want %s and not %s", status, e, ours.ID, theirs.ID)
	}
	if status, _ := s.byTicket(ticket, url.Values{}); status != http.StatusUnauthorized {
		t.Errorf("a ticket used again: %d", status)
	}
	if status, _ := s.byTicket(s.ticket(w.client), url.Values{"account_id": {"acct-2"}}); status != http.StatusNotFound {
		t.Errorf("another's account: %d", status)
	}
	must(t, w.settings, "key", "revoke", keyID(t, w.settings, "acct-1"))
	began := time.Now()
	select {
	case _, more := <-events:
		if took := time.Since(began); more || took > busy {
			t.Errorf("the stream of a revoked key: more %v after %v", more, took)
		}
	case <-time.After(waitTimeout):
		t.Error("the stream of a revoked key continues")
	}
}

// keyID returns the id of an account's key.
func keyID(t *testing.T, settings []string, account string) string {
	t.Helper()
	var list struct {
		Data []struct {
			ID        string  `json:"id"`
			AccountID *string `json:"account_id"`
		} `json:"data"`
	}
	if err := json.Unmarshal([]byte(must(t, settings, "key", "list", "--json")), &list); err != nil {
		t.Fatal(err)
	}
	for _, key := range list.Data {
		if text(key.AccountID) == account {
			return key.ID
		}
	}
	t.Fatalf("%s has no key", account)
	return ""
}

// The metric counts streams, but not the requests that wait for a purchase.
func TestStreamsAreCounted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	_, p := s.buy(w.client, "acct-1", "ERR500-FOREVER", "k")
	s.awaitStatus(w.client, p.ID, "MANUAL_REVIEW")
	ctx, hangUp := context.WithCancel(t.Context())
	defer hangUp()
	waiting, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/v1/purchases/"+p.ID, nil)
	if err != nil {
		t.Fatal(err)
	}
	waiting.Header.Set("Authorization", "Bearer "+w.client)
	waiting.Header.Set("Prefer", "wait=30")
	answered := make(chan struct{})
	go func() {
		defer close(answered)
		if got, err := web.Do(waiting); err == nil {
			got.Body.Close()
		}
	}()
	for want := 1; want <= 3; want++ {
		s.openStream(w.client)
		if n := s.streams(); n != want {
			t.Errorf("%d streams are counted, want %d", n, want)
		}
	}
	s.openStream(w.operator)
	hangUp()
	<-answered
	must(t, w.settings, "key", "revoke", keyID(t, w.settings, "acct-1"))
	eventually(t, "the operator's stream is left", func() error {
		if n := s.streams(); n != 1 {
			return fmt.Errorf("%d streams", n)
		}
		return nil
	})
}

var streamsLine = regexp.MustCompile(`(?m)^holdfast_stream_subscribers (\d+)$`)

// streams reads the metric.
func (s *serving) streams() int {
	s.t.Helper()
	a, err := s.call(http.MethodGet, "/metrics", "", "")
	match := streamsLine.FindStringSubmatch(a.body)
	if err != nil || match == nil {
		s.t.Fatalf("metrics: %v\n%s", err, a.body)
	}
	n, err := strconv.Atoi(match[1])
	if err != nil {
		s.t.Fatal(err)
	}
	return n
}
