package alert

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// maxRest bounds what a receiver can ask for: an alert waits no longer than it would
// between its last attempts.
const maxRest = waitMax

// RefusedError is an answer that took no message.
type RefusedError struct {
	Status int
	// Rest is how long the receiver wants no message at all; zero where it did not say.
	Rest time.Duration
}

func (e *RefusedError) Error() string {
	said := fmt.Sprintf("webhook answered %d", e.Status)
	if e.Status == http.StatusGone {
		// The specification has such an endpoint disabled. Nobody else would tell the
		// people of this one, so it is asked again now and then.
		said += ": it wants no messages any more; is HOLDFAST_ALERT_WEBHOOK_URL right?"
	}
	return said
}

func refusal(answer *http.Response, now time.Time) *RefusedError {
	if answer.StatusCode == http.StatusGone {
		return &RefusedError{Status: answer.StatusCode, Rest: maxRest}
	}
	return &RefusedError{Status: answer.StatusCode, Rest: retryAfter(answer.Header.Get("Retry-After"), now)}
}

// retryAfter reads whole seconds or an HTTP date; what cannot be read, or is over, asks
// for nothing.
func retryAfter(value string, now time.Time) time.Duration {
	value = strings.TrimSpace(value)
	if seconds, err := strconv.ParseUint(value, 10, 31); err == nil {
		return min(time.Duration(seconds)*time.Second, maxRest)
	}
	at, err := http.ParseTime(value)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxRest)
}

// rest is the last rest a receiver asked for. Until it is over this process sends it
// nothing: it asked for all messages, not for one.
type rest struct {
	mu     sync.Mutex
	until  time.Time
	status int
}

func (r *rest) begin(refused *RefusedError, now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if until := now.Add(refused.Rest); until.After(r.until) {
		r.until, r.status = until, refused.Status
	}
}

// left is the refusal that still stands, nil where none does.
func (r *rest) left(now time.Time) *RefusedError {
	r.mu.Lock()
	defer r.mu.Unlock()
	if left := r.until.Sub(now); left > 0 {
		return &RefusedError{Status: r.status, Rest: left}
	}
	return nil
}
