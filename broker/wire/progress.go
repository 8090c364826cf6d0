package wire

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http/httptrace"
	"os"
	"sync/atomic"
	"syscall"

	"holdfast/broker"
)

// progress notes how far an exchange got, to tell what an error means.
type progress struct {
	connected atomic.Bool
	answering atomic.Bool
}

func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              func(httptrace.GotConnInfo) { p.connected.Store(true) },
		GotFirstResponseByte: func() { p.answering.Store(true) },
	}
}

// failed judges an exchange that brought no status line. Only one that never had a
// connection is certainly not sent, and a timeout is never certain of anything.
func (p *progress) failed(ctx context.Context, err error) Reply {
	switch {
	case timedOut(ctx, err):
		return Reply{Fault: broker.Timeout}
	case !p.connected.Load():
		return Reply{NotSent: true, Fault: broker.ConnectionFailed}
	case !closed(err) && p.answering.Load():
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
