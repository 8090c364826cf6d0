package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"math/rand/v2"
	"mime"
	"net/http"
	"strconv"
	"time"

	"github.com/tmaxmax/go-sse"
)

const (
	// The wait before coming back doubles up to the cap, each a random part of it: the
	// streams of a process that goes are all cut off at once.
	backoffBase = 500 * time.Millisecond
	backoffCap  = 30 * time.Second
	// silence that means that a connection is dead: the server says something at least
	// every 15 seconds.
	silence = 40 * time.Second
	// maxEvent bounds one event; they have well under a kilobyte.
	maxEvent = 64 << 10
	// positionHeader tells after which event a stream begins.
	positionHeader = "Holdfast-Stream-Position"
	eventStream    = "text/event-stream"
)

// Event is one status change of one purchase.
type Event struct {
	// ID rises from event to event.
	ID             string    `json:"id"`
	PurchaseID     string    `json:"purchase_id"`
	AccountID      string    `json:"account_id"`
	Status         string    `json:"status"`
	PreviousStatus string    `json:"previous_status"`
	Outcome        string    `json:"outcome"`
	Version        int       `json:"version"`
	Reason         *string   `json:"reason"`
	OccurredAt     time.Time `json:"occurred_at"`
}

// EventsParams chooses events.
type EventsParams struct {
	// AccountID and PurchaseID narrow what the key may see; empty does not.
	AccountID  string
	PurchaseID string
	// After is the id of the last event seen; "0" for all that are kept, empty for those
	// from now on.
	After string
	// OnResync, if not nil, is told that events may have been missed, and why: the
	// purchases should be read afresh. The events go on from now.
	OnResync func(reason string)
	// OnReconnect, if not nil, is told of each broken connection and the wait before the
	// next.
	OnReconnect func(err error, wait time.Duration)
}

// Events returns the events as they happen, each once and in order, over as many
// connections as that takes. It ends with ctx, or after an error that no reconnect can
// mend, such as a key that is not good.
func (c *Client) Events(ctx context.Context, p EventsParams) iter.Seq2[Event, error] {
	return func(yield func(Event, error) bool) {
		f := &follower{client: c, params: p, after: p.After, yield: yield}
		for failures := 0; ; failures++ {
			before, began := f.after, time.Now()
			err := f.connect(ctx)
			if ctx.Err() != nil || errors.Is(err, errEnough) {
				return
			}
			if hopeless(err) {
				yield(Event{}, err)
				return
			}
			if f.after != before || time.Since(began) > backoffCap {
				failures = 0 // it was good for something, or for long
			}
			wait := backoff(failures, err)
			if p.OnReconnect != nil {
				p.OnReconnect(err, wait)
			}
			select {
			case <-ctx.Done():
				return
			case <-time.After(wait):
			}
		}
	}
}

// errEnough: the caller wants no more.
var errEnough = errors.New("enough")

// errEnded: the server has ended the stream, as it does when it stops.
var errEnded = errors.New("the stream has ended")

// errSilent: the connection is open and dead.
var errSilent = errors.New("stream has gone silent")

// hopeless reports whether the same request would be refused again.
func hopeless(err error) bool {
	var problem *Problem
	if !errors.As(err, &problem) {
		return false
	}
	switch problem.Status {
	case http.StatusBadRequest, http.StatusUnauthorized, http.StatusForbidden, http.StatusNotFound:
		return problem.Slug() != "unexpected"
	}
	return false
}

func backoff(failures int, err error) time.Duration {
	most := min(backoffCap, backoffBase<<min(failures, 10))
	wait := most/2 + rand.N(most/2)
	var problem *Problem
	if errors.As(err, &problem) {
		wait = max(wait, problem.RetryAfter)
	}
	return wait
}

// follower knows how far the events have been handed out.
type follower struct {
	client *Client
	params EventsParams
	after  string
	// position is where the present stream began, empty where a proxy has kept that back.
	position string
	yield    func(Event, error) bool
}

// connect reads one connection to its end; it always returns an error.
func (f *follower) connect(ctx context.Context) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	watchdog := time.AfterFunc(silence, func() { cancel(errSilent) })
	defer watchdog.Stop()
	response, err := f.open(ctx)
	if err != nil {
		return because(ctx, err)
	}
	defer response.Body.Close()
	body := watched{response.Body, func() { watchdog.Reset(silence) }}
	for event, err := range sse.Read(body, &sse.ReadConfig{MaxEventSize: maxEvent}) {
		if err != nil {
			return because(ctx, err)
		}
		if err := f.hand(event); err != nil {
			return err
		}
	}
	return because(ctx, errEnded)
}

// because prefers the reason why ctx ended.
func because(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return fmt.Errorf("read events: %w", err)
}

func (f *follower) open(ctx context.Context) (*http.Response, error) {
	header := map[string]string{"Accept": eventStream}
	if f.after != "" {
		header["Last-Event-ID"] = f.after
	}
	request, err := f.client.request(ctx, call{
		method: http.MethodGet, path: "/v1/events", header: header,
		query: values("account_id", f.params.AccountID, "purchase_id", f.params.PurchaseID),
	})
	if err != nil {
		return nil, err
	}
	response, err := f.client.send(request)
	if err != nil {
		return nil, err
	}
	kind, _, _ := mime.ParseMediaType(response.Header.Get("Content-Type"))
	if response.StatusCode == http.StatusOK && kind == eventStream {
		f.begin(response.Header)
		return response, nil
	}
	defer response.Body.Close()
	body, _ := io.ReadAll(io.LimitReader(response.Body, maxEvent))
	if err := problemIn(response, body); err != nil {
		return nil, err
	}
	return nil, fmt.Errorf("%s is no stream of events", response.Status)
}

// begin remembers where a stream from now begins, so that a connection that breaks before
// its first event loses none.
func (f *follower) begin(header http.Header) {
	f.position = header.Get(positionHeader)
	if f.position != "" {
		f.after = f.position
	}
}

// hand gives one event to the caller, unless it has had it.
func (f *follower) hand(event sse.Event) error {
	if event.Type == "resync" {
		return f.resync(event.Data)
	}
	var e Event
	if err := json.Unmarshal([]byte(event.Data), &e); err != nil {
		return fmt.Errorf("decode event: %w", err)
	}
	if number(e.ID) <= number(f.after) {
		return nil
	}
	f.after = e.ID
	if !f.yield(e, nil) {
		return errEnough
	}
	return nil
}

func (f *follower) resync(data string) error {
	var why struct {
		Reason string `json:"reason"`
	}
	if err := json.Unmarshal([]byte(data), &why); err != nil {
		return fmt.Errorf("decode resync: %w", err)
	}
	if f.position == "" {
		f.after = "" // what follows may be below an id that was never given
	}
	if f.params.OnResync != nil {
		f.params.OnResync(why.Reason)
	}
	return nil
}

// number is below every event's where the text is none.
func number(id string) int64 {
	n, err := strconv.ParseInt(id, 10, 64)
	if err != nil {
		return -1
	}
	return n
}

// watched tells of every read that brings something.
type watched struct {
	io.Reader
	heard func()
}

func (w watched) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if n > 0 {
		w.heard()
	}
	return n, err
}
