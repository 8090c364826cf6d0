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

// progress notes how far an exchange got, to tell what an error means.
type progress struct {
	ctx context.Context // the exchange's own

	mu        sync.Mutex
	connected bool
	writing   bool // a byte of the request may have left
	late      bool // a write was refused
	answering bool
	status    statusLine
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
	if used, ok := info.Conn.(*conn); ok {
		used.use(p)
	}
}

func (p *progress) gotFirstByte() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answering = true
}

// sawRead looks for the status line. What comes before the request was written answers
// something else, and nothing behind it can be told apart any more.
func (p *progress) sawRead(b []byte) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.writing {
		p.status.over = true
	}
	p.status.feed(b)
}

// errLate refuses a write. It is no error of the connection's.
var errLate = fmt.Errorf("write request: %w", context.DeadlineExceeded)

// allowWrite refuses to write for an exchange that is over: net/http looks for that
// only while it waits, and a process that was stopped must not send an order when
// nobody waits for it any more.
func (p *progress) allowWrite() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.ctx.Err() != nil || past(p.ctx, time.Now()) {
		p.late = true
		return errLate
	}
	p.writing = true
	return nil
}

// past reports whether ctx's deadline has passed, by either clock: the monotonic one
// stands still while a machine sleeps, and a timer fires some time after its hour.
func past(ctx context.Context, now time.Time) bool {
	deadline, ok := ctx.Deadline()
	return ok && (!now.Before(deadline) || !now.Round(0).Before(deadline.Round(0)))
}

// refused is the code of a 4xx whose status line was read, whatever became of the rest;
// zero where there was none.
func (p *progress) refused() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.status.code/100 != 4 {
		return 0
	}
	return p.status.code
}

// failed judges an exchange that brought no whole header. Only one of which nothing was
// written (no connection, or too late) is certainly not sent; any other timeout is
// certain of nothing.
func (p *progress) failed(ctx context.Context, err error) Reply {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case p.late && !p.writing:
		return Reply{NotSent: true, Fault: broker.Timeout}
	case timedOut(ctx, err):
		return Reply{Fault: broker.Timeout}
	case !p.connected:
		return Reply{NotSent: true, Fault: broker.ConnectionFailed}
	case !closed(err) && p.answering:
		return Reply{Fault: broker.UnreadableResponse}
	}
	return Reply{Fault: broker.ConnectionClosed}
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
