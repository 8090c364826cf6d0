package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"runtime/debug"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/jobs/db"
	"holdfast/purchase"
)

const (
	// sweepBatch is what one transaction of the sweep takes on, and sweepRounds how
	// many of them one sweep makes; what is left waits for the next.
	sweepBatch  = 500
	sweepRounds = 200
	// stepTimeout ends a step that waits for a lock, so that the others get their turn.
	stepTimeout = 30 * time.Second
	// slack is how far a job's time may be from its due purchase's before the job
	// counts as strayed. River makes a job ready up to 5 s ahead and runs it within
	// one; a pass put off by a pause or the breaker waits about as long.
	slack = 20 * time.Second
	// pruneEvery is how often what is too old goes; nothing but space depends on it.
	pruneEvery = 10 * time.Minute
	// releaseEvery bounds, from below, how often dead processes' jobs are looked for.
	releaseEvery = time.Second

	alertRepaired = "purchase.orphans_repaired"
)

// sweeper finds what no job and no process looks after. Every worker process runs one;
// they take different rows, and doing anything twice does no harm.
type sweeper struct {
	pool      *pgxpool.Pool
	service   *purchase.Service
	raise     func(ctx context.Context, kind string, data map[string]any) error
	scheduler *Scheduler
	prune     func(context.Context) error
	rescue    time.Duration
	interval  time.Duration
	log       *slog.Logger
	pruned    time.Time
	// hurried: the first sweep of this process has passed.
	expediting bool
}

func newSweeper(cfg Config, scheduler *Scheduler) *sweeper {
	return &sweeper{
		pool: cfg.Pool, service: cfg.Service, raise: cfg.Alerts.Raise, scheduler: scheduler, prune: cfg.Prune,
		rescue: cfg.RescueAfter, interval: cfg.SweepInterval, log: cfg.Log,
	}
}

// run sweeps, at once and then again and again, until ctx ends.
func (s *sweeper) run(ctx context.Context) {
	var loops sync.WaitGroup
	loops.Go(func() { repeat(ctx, s.interval, s.sweep) })
	// A job that died is found within a fourth of the rescue time after it, however
	// seldom the sweep runs.
	release := min(s.interval, max(s.rescue/4, releaseEvery))
	loops.Go(func() { repeat(ctx, release, func(ctx context.Context) { s.step(ctx, "release jobs", s.release) }) })
	loops.Wait()
}

// repeat calls f at once and then after waits of up to interval, a fourth of it left
// to chance, so that processes started together do not sweep together.
func repeat(ctx context.Context, interval time.Duration, f func(context.Context)) {
	for {
		f(ctx)
		select {
		case <-ctx.Done():
			return
		case <-time.After(interval - rand.N(interval/4+1)):
		}
	}
}

func (s *sweeper) sweep(ctx context.Context) {
	var pending, jobs int
	s.step(ctx, "sweep pending purchases", func(ctx context.Context) (err error) {
		pending, err = s.service.SweepPending(ctx)
		return err
	})
	s.step(ctx, "sweep limits", func(ctx context.Context) error {
		n, err := s.service.SweepLimits(ctx)
		if n > 0 {
			s.log.WarnContext(ctx, "purchases reached a limit without a pass", "purchases", n)
		}
		return err
	})
	s.step(ctx, "sweep orphans", func(ctx context.Context) (err error) {
		jobs, err = s.service.SweepOrphans(ctx)
		return err
	})
	s.step(ctx, "hurry strayed jobs", s.expedite)
	s.step(ctx, "tell of repairs", func(ctx context.Context) error { return s.tell(ctx, pending, jobs) })
	s.step(ctx, "alert on overdue purchases", s.service.AlertOverdue)
	s.step(ctx, "alert on unserved brokers", s.service.AlertUnserved)
	s.step(ctx, "sweep alerts", func(ctx context.Context) error {
		_, err := drain(ctx, s.alerts)
		return err
	})
	s.step(ctx, "prune", s.pruneOld)
}

// step runs one part of a sweep on its own: its failure, a panic too, is logged and
// keeps no other part from running.
func (s *sweeper) step(ctx context.Context, name string, f func(context.Context) error) {
	if ctx.Err() != nil {
		return
	}
	bounded, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	defer func() {
		if value := recover(); value != nil {
			s.log.ErrorContext(ctx, "sweep panicked", "step", name, "panic", fmt.Sprint(value), "stack", string(debug.Stack()))
		}
	}()
	if err := f(bounded); err != nil && ctx.Err() == nil {
		s.log.ErrorContext(ctx, "sweep failed", "step", name, "error", err)
	}
}

// drain calls f until a batch is not full and returns the sum.
func drain(ctx context.Context, f func(context.Context, int) (int, error)) (int, error) {
	sum := 0
	for range sweepRounds {
		n, err := f(ctx, sweepBatch)
		sum += n
		if err != nil || n < sweepBatch {
			return sum, err
		}
	}
	return sum, nil
}

// release makes the jobs of dead processes available again. River's rescuer does so
// too, but waits for its leader and discards kinds the leader does not know.
func (s *sweeper) release(ctx context.Context) error {
	n, err := drain(ctx, func(ctx context.Context, batch int) (int, error) {
		n, err := db.New(s.pool).ReleaseDeadJobs(ctx, s.rescue.Seconds(), int32(batch))
		return int(n), err
	})
	if n > 0 {
		s.log.WarnContext(ctx, "released the jobs of a dead process", "jobs", n)
	}
	return err
}

func (s *sweeper) expedite(ctx context.Context) error {
	n, err := drain(ctx, func(ctx context.Context, batch int) (int, error) {
		n, err := db.New(s.pool).RescheduleDriftedJobs(ctx, slack.Seconds(), int32(batch))
		return int(n), err
	})
	level := slog.LevelWarn
	if !s.expediting { // nobody ran what fell due while every process was down
		level = slog.LevelInfo
	}
	s.expediting = true
	if n > 0 {
		s.log.Log(ctx, level, "hurried jobs that strayed from their purchase's time", "jobs", n)
	}
	return err
}

// tell raises an alert where the sweep had something to repair.
func (s *sweeper) tell(ctx context.Context, pending, jobs int) error {
	if pending == 0 && jobs == 0 {
		return nil
	}
	s.log.WarnContext(ctx, "sweep repaired purchases", "pending", pending, "jobs", jobs)
	return s.raise(ctx, alertRepaired, map[string]any{"pending": pending, "jobs": jobs})
}

// alerts gives a job to alerts that have none.
func (s *sweeper) alerts(ctx context.Context, batch int) (int, error) {
	found := 0
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		ids, err := db.New(tx).UndeliveredAlerts(ctx, int32(batch))
		if err != nil {
			return fmt.Errorf("find alerts: %w", err)
		}
		found = len(ids)
		return s.scheduler.ScheduleAlertsTx(ctx, tx, ids)
	})
	return found, err
}

func (s *sweeper) pruneOld(ctx context.Context) error {
	if time.Since(s.pruned) < pruneEvery {
		return nil
	}
	queries := db.New(s.pool)
	_, tickets := queries.PruneTickets(ctx)
	_, sessions := queries.PruneSessions(ctx)
	var events error
	if s.prune != nil {
		events = s.prune(ctx)
	}
	s.pruned = time.Now()
	return errors.Join(tickets, sessions, events)
}
