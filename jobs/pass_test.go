package jobs

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"holdfast/broker"
	"holdfast/purchase"
)

func TestPassCompletesItsJob(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.Completed, p.ID)
	// In one transaction, so there is no waiting for it here.
	if job := w.job(t, p.ID); job.State != "completed" {
		t.Errorf("the purchase is settled, but its job is %s", job.State)
	}
}

// Five attempts mean five passes, snoozes in between, and then one alert; River's own
// count stays out of it.
func TestSnoozesEndWhereThePurchaseSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *purchase.Policy) { p.MaxAttempts = 5 })
	w.broker.lookup = func(context.Context, string) broker.Answer { return undecided() }
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.ManualReview, p.ID)

	if n := w.broker.lookups.Load(); n != 5 {
		t.Errorf("%d lookups, want 5", n)
	}
	if job := w.job(t, p.ID); job.State != "completed" || job.Attempt != 1 || job.Errors != "" {
		t.Errorf("job is %+v, want completed in its first attempt", job)
	}
	eventually(t, "one alert is delivered", func() bool {
		return w.count(t, "SELECT count(*) FROM alert WHERE type = 'purchase.manual_review' AND delivered_at IS NOT NULL") == 1
	})
}

// What a broken pass says must not reach River's table, and must not use up the purchase.
func TestPanicIsScrubbedAndCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	var calls atomic.Int64
	w.broker.lookup = func(_ context.Context, key string) broker.Answer {
		if calls.Add(1) == 1 {
			panic("card 4111-1111")
		}
		return completed(key)
	}
	w.start(t)
	p := w.submit(t)
	eventually(t, "the panic is reported", func() bool { return w.job(t, p.ID).Errors != "" })
	if job := w.job(t, p.ID); strings.Contains(job.Errors, "4111") || !strings.Contains(job.Errors, "see the log") {
		t.Errorf("River keeps %q", job.Errors)
	}
	if !strings.Contains(w.log.String(), "4111-1111") {
		t.Error("the log does not tell what happened")
	}
	w.await(t, purchase.Completed, p.ID)
	if got, err := w.service.Get(t.Context(), p.ID); err != nil || got.Attempts != 1 {
		t.Errorf("attempts %d, %v; want 1", got.Attempts, err)
	}
}

func TestJobThatNamesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `INSERT INTO river_job (kind, args, max_attempts) VALUES ('reconcile_purchase', '{"transaction_id": "none"}', 25),
		('reconcile_purchase', '{"transaction_id": "0198f2c4-0000-7000-8000-000000000000"}', 25)`)
	w.start(t)
	eventually(t, "both are over", func() bool {
		return w.count(t, "SELECT count(*) FROM river_job WHERE state = 'cancelled'") == 1 &&
			w.count(t, "SELECT count(*) FROM river_job WHERE state = 'completed'") == 1
	})
}

// Somebody's own insert, with the table's defaults, is worked like any other.
func TestJobInsertedByHand(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.submit(t)
	w.exec(t, "DELETE FROM river_job")
	w.exec(t, `INSERT INTO river_job (kind, args, max_attempts) VALUES ('reconcile_purchase', jsonb_build_object('transaction_id', $1::text), 25)`, p.ID.String())
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
}

func TestUnknownKindsAreLeftAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `INSERT INTO river_job (kind, args, max_attempts) VALUES ('of_tomorrow', '{}', 1)`)
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.Completed, p.ID)
	if n := w.count(t, "SELECT count(*) FROM river_job WHERE kind = 'of_tomorrow' AND state = 'available' AND attempt = 0"); n != 1 {
		t.Error("a job of an unknown kind was taken")
	}
}

func TestGuard(t *testing.T) {
	t.Parallel()
	world := newWorld(t)
	g := &guard{log: world.config.Log}
	interrupted, interrupt := context.WithCancel(t.Context())
	interrupt()
	fresh, worn := &rivertype.JobRow{}, &rivertype.JobRow{Errors: make([]rivertype.AttemptError, keptErrors)}
	fails := func(err error) func(context.Context) error {
		return func(context.Context) error { return err }
	}
	t.Run("Interrupted", func(t *testing.T) {
		t.Parallel()
		if err := g.Work(interrupted, fresh, fails(errors.New("secret"))); !errors.Is(err, context.Canceled) {
			t.Errorf("River is told %v", err)
		}
	})
	t.Run("Scrubbed", func(t *testing.T) {
		t.Parallel()
		if err := g.Work(t.Context(), fresh, fails(errors.New("secret"))); !errors.Is(err, errInternal) {
			t.Errorf("River is told %v", err)
		}
	})
	t.Run("TimedOut", func(t *testing.T) {
		t.Parallel()
		if err := g.Work(t.Context(), fresh, fails(context.DeadlineExceeded)); !errors.Is(err, errTimedOut) {
			t.Errorf("River is told %v", err)
		}
	})
	t.Run("EnoughKept", func(t *testing.T) {
		t.Parallel()
		var snooze *rivertype.JobSnoozeError
		if err := g.Work(t.Context(), worn, fails(errors.New("secret"))); !errors.As(err, &snooze) {
			t.Errorf("River is told %v", err)
		}
	})
	t.Run("Snooze", func(t *testing.T) {
		t.Parallel()
		var snooze *rivertype.JobSnoozeError
		err := g.Work(interrupted, fresh, fails(river.JobSnooze(time.Hour)))
		if !errors.As(err, &snooze) || snooze.Duration != time.Hour {
			t.Errorf("River is told %v", err)
		}
	})
}

// A deploy in the middle of a pass: the job goes back unharmed and the next process
// takes it up at once.
func TestShutdownGivesThePassBack(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(p *purchase.Policy) { p.RescueAfter = time.Minute })
	w.config.RescueAfter, w.config.StopTimeout = time.Minute, 50*time.Millisecond
	began := make(chan struct{}, 1)
	var calls atomic.Int64
	w.broker.lookup = func(ctx context.Context, key string) broker.Answer {
		if calls.Add(1) > 1 {
			return completed(key)
		}
		began <- struct{}{}
		<-ctx.Done()
		return broker.Answer{Evidence: broker.Uncertain, Reason: broker.Timeout}
	}
	first, err := NewWorkers(w.config)
	must(t, err)
	must(t, first.Start(t.Context()))
	p := w.submit(t)
	<-began
	stop(t, first)

	if job := w.job(t, p.ID); job.State != "available" || job.Attempt != 0 || job.Errors != "" {
		t.Errorf("after the stop the job is %+v, want available, untouched", job)
	}
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
	if got, err := w.service.Get(t.Context(), p.ID); err != nil || got.Attempts != 1 {
		t.Errorf("attempts %d, %v; want 1: the stopped pass is none", got.Attempts, err)
	}
}

// The process is told to stop and does not wait: Stop ends with its context.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.StopTimeout = time.Hour
	began := make(chan struct{}, 1)
	w.broker.lookup = func(ctx context.Context, _ string) broker.Answer {
		began <- struct{}{}
		<-ctx.Done()
		return undecided()
	}
	workers, err := NewWorkers(w.config)
	must(t, err)
	must(t, workers.Start(t.Context()))
	w.submit(t)
	<-began
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := workers.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop says %v", err)
	}
}

func TestConfigContradictsItself(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.PassTimeout = w.config.RescueAfter
	if _, err := NewWorkers(w.config); err == nil {
		t.Error("taken: passes that may be rescued while they run")
	}
}
