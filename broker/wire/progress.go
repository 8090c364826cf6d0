package wire

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"sync"
	"syscall"
	"time"

	"holdfast/broker"
)

// progress records how far an exchange got, to find what an error means, and decides
// whether a byte of its request may still be sent.
type progress struct {
	ctx        context.Context // the exchange's own
	sendBefore time.Time       // zero: the context's deadline

	mu        sync.Mutex
	connected bool
	writing   bool // a byte of the request may have been sent
	refusing  error
	answering bool
	early     bool // bytes came before the request was sent
	status    statusLine
}

type progressKey struct{}

func withProgress(ctx context.Context, p *progress) context.Context {
	return context.WithValue(ctx, progressKey{}, p)
}

// withDialDeadline bounds a dial by what its exchange allows: net/http keeps the values
// of the exchange's context for a dial, but not its deadline.
func withDialDeadline(ctx context.Context) (context.Context, context.CancelFunc) {
	seen, ok := ctx.Value(progressKey{}).(*progress)
	if !ok {
		return context.WithCancel(ctx)
	}
	deadline, ok := seen.sendDeadline()
	if !ok {
		return context.WithCancel(ctx)
	}
	return context.WithDeadline(ctx, deadline)
}

// sendDeadline is when the last byte must have been sent.
func (p *progress) sendDeadline() (time.Time, bool) {
	deadline, ok := p.ctx.Deadline()
	if !p.sendBefore.IsZero() && (!ok || p.sendBefore.Before(deadline)) {
		return p.sendBefore, true
	}
	return deadline, ok
}

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              p.gotConn,
		GotFirstResponseByte: p.gotFirstByte,
	}
}

func (p *progress) gotConn(info httptrace.GotConnInfo) {
	p.mu.Lock()
	p.connected = true
	p.mu.Unlock()
	used, ok := info.Conn.(*conn)
	if !ok {
		return
	}
	used.use(p)
	if deadline, ok := p.sendDeadline(); ok && used.reset {
		used.giveUpAt(deadline)
	}
}

// giveUpAt ends writes at the deadline, the kernel's retransmissions included.
func (c *conn) giveUpAt(deadline time.Time) {
	_ = c.SetWriteDeadline(deadline)
	if c.tcp != nil {
		// Without it, only the reset at the end of the exchange ends retransmissions.
		_ = setUserTimeout(c.tcp, max(time.Until(deadline), time.Millisecond))
	}
}

func (p *progress) gotFirstByte() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answering = true
}

// sawRead looks for the status line. What comes before the request was written answers
// something else, and what follows it cannot be attributed any more.
func (p *progress) sawRead(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.writing {
		p.early, p.status.over = true, true
	}
	p.status.feed(b)
}

// unrequested reports whether bytes came before the request was sent.
func (p *progress) unrequested() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.early
}

var (
	// errLate refuses a write. It is no error of the connection's.
	errLate = fmt.Errorf("write request: %w", context.DeadlineExceeded)
	// errUnrequested refuses a write to a connection that already carries an answer.
	errUnrequested = errors.New("write request: the connection carries an answer that was not requested")
	// errOver refuses a write for an exchange that was already judged.
	errOver = errors.New("write request: the exchange is over")
)

// allowWrite is the last check before bytes are sent: net/http looks at the context only
// while it waits, and a process that was stopped must not send an order too late.
func (p *progress) allowWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.refusing != nil:
	case p.ctx.Err() != nil || p.tooLate(time.Now()):
		p.refusing = errLate
	case p.early && !p.writing:
		p.refusing = errUnrequested
	default:
		p.writing = true
	}
	return p.refusing
}

// tooLate reports whether the exchange must not send any more, at now.
func (p *progress) tooLate(now time.Time) bool {
	deadline, ok := p.ctx.Deadline()
	return (ok && past(deadline, now)) || (!p.sendBefore.IsZero() && past(p.sendBefore, now))
}

// past reports whether deadline has passed by either clock: the monotonic one stops while
// a machine is suspended, and a timer fires some time after its deadline.
func past(deadline, now time.Time) bool {
	return !now.Before(deadline) || !now.Round(0).Before(deadline.Round(0))
}

// refused is the code of a 4xx whose status line was read, whatever became of the rest;
// zero if there was none.
func (p *progress) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.code/100 != 4 {
		return 0
	}
	return p.status.code
}

// failed judges an exchange that brought no whole header. If nothing was written by now,
// nothing will be: the exchange certainly was not sent.
func (p *progress) failed(ctx context.Context, err error) Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	reply := Reply{NotSent: !p.writing, Fault: p.fault(ctx, err)}
	if p.refusing == nil {
		p.refusing = errOver
	}
	return reply
}

func (p *progress) fault(ctx context.Context, err error) broker.Reason {
	switch {
	case errors.Is(p.refusing, errLate), timedOut(ctx, err):
		return broker.Timeout
	case !p.connected:
		return broker.ConnectionFailed
	case p.early, !closed(err) && p.answering:
		return broker.UnreadableResponse
	}
	return broker.ConnectionClosed
}

// timedOut is true for our own cancellation too: it says as little about the broker.
func timedOut(ctx context.Context, err error) bool {
	var slow net.Error
	return ctx.Err() != nil || errors.Is(err, context.DeadlineExceeded) ||
		errors.Is(err, os.ErrDeadlineExceeded) || (errors.As(err, &slow) && slow.Timeout())
}

func closed(err error) bool {
	return errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || reset(err)
}

func reset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE) ||
		errors.Is(err, syscall.ECONNABORTED) || errors.Is(err, net.ErrClosed)
}
