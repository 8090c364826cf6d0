package client_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/client"
)

// follow collects ids of events until it has n, then ends.
func follow(t *testing.T, c *client.Client, p client.EventsParams, n int) <-chan []string {
	t.Helper()
	done := make(chan []string, 1)
	ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
	t.Cleanup(cancel)
	go func() {
		var ids []string
		for event, err := range c.Events(ctx, p) {
			if err != nil {
				t.Errorf("events: %v", err)
				break
			}
			if ids = append(ids, event.ID); len(ids) == n {
				break
			}
		}
		done <- ids
	}()
	return done
}

func checkIDs(t *testing.T, ids []string, first, n int) {
	t.Helper()
	if len(ids) != n {
		t.Fatalf("%d events, want %d", len(ids), n)
	}
	for i, id := range ids {
		if id != strconv.Itoa(first+i) {
			t.Fatalf("event %d has id %s, want %d", i, id, first+i)
		}
	}
}

// eventually polls until ok.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !ok() {
		select {
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		case <-time.After(2 * time.Millisecond):
		}
	}
}

func (h *holdfast) subscribed(t *testing.T, n int) {
	t.Helper()
	eventually(t, "so many are subscribed", func() bool { return h.box.Subscribers() == n })
}

// Connections are cut again and again; each event comes once all the same.
func TestEventsOverBrokenConnections(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, _ := h.client(t, "operator", "")
	var broken atomic.Int64
	done := follow(t, c, client.EventsParams{
		After: "0", OnReconnect: func(error, time.Duration) { broken.Add(1) },
	}, 300)
	for range 3 {
		h.subscribed(t, 1)
		h.happen(t, 100)
		h.conns.cut()
	}
	checkIDs(t, <-done, 1, 300)
	if broken.Load() == 0 {
		t.Error("no connection was broken: the test shows nothing")
	}
}

// A stream from now that breaks before its first event has missed nothing when it is back.
func TestEventsFromNowBreakingEarly(t *testing.T) {
	t.Parallel()
	h := setup(t)
	h.happen(t, 5)
	eventually(t, "the events are delivered", func() bool { return h.box.Hub.Position() == 5 })
	c, _ := h.client(t, "client", "acct-1")
	done := follow(t, c, client.EventsParams{}, 2)
	h.subscribed(t, 1)
	eventually(t, "the client knows where it begins", func() bool { return h.answers.Load() == 1 })
	h.conns.cut()
	h.happen(t, 2)
	checkIDs(t, <-done, 6, 2)
}

func TestEventsTellOfAResync(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, _ := h.client(t, "operator", "")
	reasons := make(chan string, 1)
	done := follow(t, c, client.EventsParams{After: "77", OnResync: func(reason string) { reasons <- reason }}, 1)
	if reason := <-reasons; reason != "ahead" {
		t.Errorf("resync because of %q", reason)
	}
	h.subscribed(t, 1)
	h.happen(t, 1)
	checkIDs(t, <-done, 1, 1)
}

func TestEventsEndWithTheKey(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, id := h.client(t, "client", "acct-1")
	ended := make(chan error, 1)
	go func() {
		for _, err := range c.Events(t.Context(), client.EventsParams{}) {
			ended <- err
		}
	}()
	h.subscribed(t, 1)
	if _, err := h.keys.Revoke(t.Context(), id); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; slug(err) != "unauthorized" {
		t.Errorf("ended by %v", err)
	}
}

func TestEventsOfAnothersPurchase(t *testing.T) {
	t.Parallel()
	h := setup(t)
	c, _ := h.client(t, "client", "acct-1")
	n := 0
	for _, err := range c.Events(t.Context(), client.EventsParams{AccountID: "acct-2"}) {
		n++
		if slug(err) != "account-not-found" {
			t.Errorf("got %v", err)
		}
	}
	if n != 1 {
		t.Errorf("%d errors, want 1", n)
	}
}

// While there is no server the client keeps trying, until it may not any more.
func TestEventsWithoutAServer(t *testing.T) {
	t.Parallel()
	server := httptest.NewServer(nil)
	server.Close()
	c, err := client.New(client.Config{URL: server.URL, Key: "k"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	tries := 0
	for _, err := range c.Events(ctx, client.EventsParams{OnReconnect: func(err error, wait time.Duration) {
		if err == nil || wait <= 0 {
			t.Errorf("waits %v after %v", wait, err)
		}
		if tries++; tries == 2 {
			cancel()
		}
	}}) {
		t.Errorf("got %v", err)
	}
	if tries != 2 || !errors.Is(ctx.Err(), context.Canceled) {
		t.Errorf("%d tries", tries)
	}
}

// What stands between may answer for Holdfast, in its own words: that is no stream and no
// reason to give up.
func TestEventsThroughAProxyThatSpeaksForItself(t *testing.T) {
	t.Parallel()
	const event = "id: 3\nevent: purchase.completed\ndata: {\"id\":\"3\"}\n\n"
	answers := []http.HandlerFunc{
		func(w http.ResponseWriter, _ *http.Request) {
			answerAs(w, 503, "application/json", `{"error":"maintenance"}`)
		},
		func(w http.ResponseWriter, _ *http.Request) { answerAs(w, 200, "application/json", `{}`) },
		func(w http.ResponseWriter, _ *http.Request) { answerAs(w, 200, "text/html", "<p>Sign in</p>") },
		func(w http.ResponseWriter, _ *http.Request) { answerAs(w, 502, "text/html", "<p>Bad gateway</p>") },
		func(w http.ResponseWriter, r *http.Request) {
			if last := r.Header.Get("Last-Event-ID"); last != "77" {
				t.Errorf("resumes behind %q", last)
			}
			answerAs(w, 200, "text/event-stream; charset=utf-8", "event: resync\ndata: {\"reason\":\"ahead\"}\n\n"+event)
		},
	}
	var calls atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answers[calls.Add(1)-1](w, r)
	}))
	t.Cleanup(server.Close)
	transport := &http.Transport{}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := client.New(client.Config{URL: server.URL, Key: "k", HTTP: &http.Client{Transport: transport}})
	if err != nil {
		t.Fatal(err)
	}
	checkIDs(t, <-follow(t, c, client.EventsParams{After: "77"}, 1), 3, 1)
	if n := calls.Load(); n != int64(len(answers)) {
		t.Errorf("%d connections, want %d", n, len(answers))
	}
}

func answerAs(w http.ResponseWriter, code int, kind, body string) {
	w.Header().Set("Content-Type", kind)
	w.WriteHeader(code)
	_, _ = io.WriteString(w, body)
}
