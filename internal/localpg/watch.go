package localpg

import (
	"context"
	"errors"
	"time"
)

const (
	// watchInterval is how soon a death is seen. One look is two system calls.
	watchInterval = 250 * time.Millisecond
	// A server that keeps dying is started again at these distances.
	restartWait    = 250 * time.Millisecond
	restartWaitMax = 10 * time.Second
	// steady is how long it must have run before a death counts as a first one.
	steady = time.Minute
)

// watch starts the server again when it dies, until endWatch.
func (s *Server) watch() {
	ctx, cancel := context.WithCancel(context.Background())
	s.unwatch = cancel
	s.watching.Go(func() { s.guard(ctx) })
}

func (s *Server) endWatch() {
	if s.unwatch != nil {
		s.unwatch()
		s.watching.Wait()
	}
}

func (s *Server) guard(ctx context.Context) {
	wait, since := restartWait, time.Now()
	for pause(ctx, watchInterval) {
		reapOrphans(s.PID())
		if alive(s.PID()) {
			continue
		}
		if time.Since(since) > steady {
			wait = restartWait
		}
		s.log.Error("postgres died: starting it again", "pid", s.PID(), "wait", wait, "said", s.place.lastWords())
		if !pause(ctx, wait) {
			return
		}
		wait, since = min(2*wait, restartWaitMax), time.Now()
		s.revive(ctx)
	}
}

// revive tries once; guard comes back for the next try.
func (s *Server) revive(ctx context.Context) {
	if err := s.restart(ctx); err != nil {
		s.log.Error("postgres does not start", "error", err)
		return
	}
	s.log.Info("postgres is back", "pid", s.PID())
}

func (s *Server) restart(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	gate, err := s.place.gate(ctx)
	if err != nil {
		return err
	}
	return errors.Join(s.ensure(ctx), gate.Unlock())
}
