package wire

import (
	"context"
	"io"
	"net/http"
	"strings"
	"time"

	"holdfast/broker"
)

// bodyTimeout is how long the body of an answer is waited for whose status line has
// already decided that it proves nothing: it is wanted for the history only.
const bodyTimeout = time.Second

// Reply is what one exchange brought back.
type Reply struct {
	// Status is the status line's code, zero if none was read. Of a header that did
	// not come whole only a place call's 4xx is given, with a Fault.
	Status int
	// Body is the body as received, at most [broker.MaxBody] bytes.
	Body []byte
	// Fault is empty if the whole answer was read: its status line, and its body to
	// the end, within the bound and not encoded.
	Fault broker.Reason
	// NotSent: no byte of the request can have left.
	NotSent bool
	// Header is the answer's, nil if it was not read whole.
	Header http.Header
	// RetryAfter is the wait asked for, zero if none was.
	RetryAfter time.Duration
	// Duration is the time the whole exchange took.
	Duration time.Duration
}

// read reads the rest of an answer whose status line is there. Only on a 2xx and a 4xx
// can the body change what is proved; theirs gets all the time that is left.
func read(ctx context.Context, cancel context.CancelFunc, response *http.Response) Reply {
	reply := Reply{
		Status:     response.StatusCode,
		Header:     response.Header,
		RetryAfter: RetryAfter(response.Header, time.Now()),
	}
	if response.StatusCode == http.StatusSwitchingProtocols {
		reply.Fault = broker.UnreadableResponse // the body is the raw connection
		return reply
	}
	if class := reply.class(); class != 2 && class != 4 {
		defer time.AfterFunc(bodyTimeout, cancel).Stop()
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, broker.MaxBody+1))
	reply.Body = body[:min(len(body), broker.MaxBody)]
	reply.Fault = bodyFault(ctx, response, len(body), err)
	return reply
}

func bodyFault(ctx context.Context, response *http.Response, size int, err error) broker.Reason {
	encoding := response.Header.Get("Content-Encoding")
	switch {
	case err != nil && timedOut(ctx, err):
		return broker.Timeout
	case err != nil && reset(err):
		return broker.ConnectionClosed
	case err != nil, size > broker.MaxBody:
		return broker.UnreadableResponse // cut, badly framed, oversized
	case encoding != "" && !strings.EqualFold(encoding, "identity"):
		return broker.UnreadableResponse
	}
	return ""
}

func (r Reply) class() int { return r.Status / 100 }

// Success reports whether the status line is a 2xx.
func (r Reply) Success() bool { return r.class() == 2 }

// Refused reports whether the status line is a 4xx.
func (r Reply) Refused() bool { return r.class() == 4 }

// Answer is the reply as evidence of nothing: uncertain, or certainly not sent. An
// adapter that can read more out of it changes Verdict.
func (r Reply) Answer() broker.Answer {
	answer := broker.Answer{
		Verdict:    broker.Uncertain,
		Reason:     r.reason(),
		Answered:   r.Status > 0 && r.Status < 500,
		RetryAfter: r.RetryAfter,
		StatusCode: r.Status,
		Body:       r.Body,
		Duration:   r.Duration,
	}
	if r.NotSent {
		answer.Verdict = broker.NotSent
	}
	return answer
}

func (r Reply) reason() broker.Reason {
	switch {
	case r.class() == 3:
		return broker.Redirect
	case r.class() == 5:
		return broker.Broker5xx
	case r.Status == http.StatusRequestTimeout:
		return broker.Timeout
	case r.class() == 4:
		return broker.Broker4xx
	case r.Fault != "":
		return r.Fault
	}
	return broker.UnreadableResponse
}
