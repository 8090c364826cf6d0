package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

func main() {
	ctx, stop := stopOnSignal(context.Background())
	defer stop()
	code := run(ctx, process(), os.Args[1:])
	stop()
	os.Exit(code)
}

// lastWord is how long a command has to leave after the second signal, which a private
// Postgres that must be stopped uses well. The third signal, or its end, kills.
const lastWord = 10 * time.Second

// errForced is the cause of the context that force derives: the second signal.
type forcedError struct{}

func (forcedError) Error() string { return "a second signal" }

type forceKey struct{}

// stopOnSignal ends the context at the first SIGINT or SIGTERM: the command stops in
// good order. The second ends what forced returns: the command stops at once.
func stopOnSignal(parent context.Context) (context.Context, func()) {
	hard, force := context.WithCancelCause(parent)
	soft, cancel := context.WithCancel(context.WithValue(hard, forceKey{}, hard))
	signals := make(chan os.Signal, 3)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() {
		<-signals
		cancel()
		<-signals
		force(forcedError{})
		select {
		case <-signals:
		case <-time.After(lastWord):
		}
		os.Exit(exitFailed)
	}()
	return soft, cancel
}

// forced returns the context that a stop works under: it outlives ctx, and ends at the
// second signal.
func forced(ctx context.Context) context.Context {
	if hard, ok := ctx.Value(forceKey{}).(context.Context); ok {
		return hard
	}
	return context.WithoutCancel(ctx)
}
