package app

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// forceExitDelay is how long a command may take to end after the second signal, for instance
// to stop a private Postgres. After it, or at the third signal, the process exits.
const forceExitDelay = 10 * time.Second

// forcedError is the cause with which the context of a shutdown ends at the second signal.
type forcedError struct{}

func (forcedError) Error() string { return "a second signal" }

type forceKey struct{}

// StopOnSignal returns a context that ends at the first SIGINT, SIGTERM or SIGHUP: the command shuts
// down. The second signal ends what forced returns: the command stops immediately.
func StopOnSignal(parent context.Context) (context.Context, func()) {
	hard, force := context.WithCancelCause(parent)
	soft, cancel := context.WithCancel(context.WithValue(hard, forceKey{}, hard))
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	go func() {
		<-signals
		cancel()
		<-signals
		force(forcedError{})
		select {
		case <-signals:
		case <-time.After(forceExitDelay):
		}
		os.Exit(1)
	}()
	return soft, cancel
}

// forced returns the context of a shutdown: it outlives ctx, and ends at the second signal.
func forced(ctx context.Context) context.Context {
	if hard, ok := ctx.Value(forceKey{}).(context.Context); ok {
		return hard
	}
	return context.WithoutCancel(ctx)
}
