package jobs

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"holdfast/purchase"
	"holdfast/sandbox"
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

// Whoever makes a purchase due while River has not yet noticed that its pass was deferred
// finds a job that runs now, not one that is about to sleep.
func TestDeferredJobCanBeRunNowAtOnce(t *testing.T) {
	t.Parallel()
	for name, wait := range map[string]time.Duration{"Scheduled": time.Minute, "Available": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, func(r *rules) { r.RetryBase, r.RetryCap, r.Jitter = wait, wait, 0 })
			w.broker.script(t, sandbox.Response{Call: "lookup", Status: http.StatusServiceUnavailable})
			p := w.submit(t)
			running := w.job(t, p.ID)
			w.exec(t, "UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() WHERE id = $1", running.ID)
			outcome, err := w.service.Pass(t.Context(), p.ID, running.ID)
			must(t, err)

			deferred, next := w.job(t, p.ID), w.get(t, p.ID).NextRetry
			if outcome.Again != wait || deferred.State != strings.ToLower(name) || deferred.Attempt != 0 {
				t.Errorf("outcome %+v, job %+v", outcome, deferred)
			}
			if drift := deferred.ScheduledAt.Sub(*next).Abs(); drift > time.Millisecond {
				t.Errorf("the job is due %s apart from its purchase", drift)
			}
			_, err = w.service.Reconcile(t.Context(), p.ID, "operator:test")
			must(t, err)
			if w.count(t, "SELECT count(*) FROM river_job WHERE id = $1 AND state = 'available' AND scheduled_at <= now()", running.ID) != 1 {
				t.Errorf("job is %+v, want one that runs now", w.job(t, p.ID))
			}
		})
	}
}

// Five attempts mean five passes, snoozes in between, and then one alert; River's own
// count stays out of it.
func TestSnoozesEndWhereThePurchaseSays(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(r *rules) { r.MaxAttempts = 5 })
	w.broker.script(t, sandbox.Response{Call: "lookup", Status: http.StatusServiceUnavailable, Times: 1000})
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.ManualReview, p.ID)

	if n := w.broker.lookups.Load(); n != 5 {
		t.Errorf("%d lookups, want 5", n)
	}
	w.attempts(t, p.ID, 5)
	if job := w.job(t, p.ID); job.State != "completed" || job.Attempt != 1 || job.Errors != "" {
		t.Errorf("job is %+v, want completed in its first attempt", job)
	}
	eventually(t, "one alert is delivered", func() bool {
		return w.count(t, "SELECT count(*) FROM alert WHERE type = 'purchase.manual_review' AND delivered_at IS NOT NULL") == 1
	})
}

// A pause is a loop of snoozes. It costs no attempt, no call and none of River's, and ends
// with the pause.
func TestPausedPassesOnlySnooze(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	must(t, w.switches.Set(t.Context(), purchase.SwitchPasses, true, "test", "operator:test"))
	w.start(t)
	p := w.submit(t)
	eventually(t, "its job has been put off, and again", func() bool {
		return w.count(t, "SELECT count(*) FROM river_job WHERE (metadata ->> 'snoozes')::integer > 1") == 1
	})
	w.attempts(t, p.ID, 0)
	if job := w.job(t, p.ID); job.Attempt > 1 || job.Errors != "" || w.broker.lookups.Load() != 0 {
		t.Errorf("after %d lookups the job is %+v, want it untouched", w.broker.lookups.Load(), job)
	}
	must(t, w.switches.Set(t.Context(), purchase.SwitchPasses, false, "test", "operator:test"))
	w.await(t, purchase.Completed, p.ID)
	w.attempts(t, p.ID, 1)
}

// What a broken pass says must not reach River's table, and must not use up the purchase.
// Here the log breaks it, for any part of a process may.
func TestPanicIsScrubbedAndCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	broken := false
	w.log.onLine(func(line []byte) {
		if !broken && bytes.Contains(line, []byte(`"call":"lookup"`)) {
			broken = true
			panic("card 4111-1111")
		}
	})
	w.start(t)
	p := w.submit(t)
	eventually(t, "the panic is reported", func() bool { return w.job(t, p.ID).Errors != "" })
	w.scrubbed(t, w.job(t, p.ID), "4111-1111")
	w.await(t, purchase.Completed, p.ID)
	w.attempts(t, p.ID, 1)
}

// So with an error: the database's, say, may repeat what it was told.
func TestErrorIsScrubbedAndCostsNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.exec(t, `CREATE FUNCTION complain() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'card 4111-1111'; END $$`)
	w.exec(t, `CREATE TRIGGER complain BEFORE INSERT ON broker_attempt FOR EACH ROW EXECUTE FUNCTION complain()`)
	w.start(t)
	p := w.submit(t)
	eventually(t, "the error is reported", func() bool { return w.job(t, p.ID).Errors != "" })
	w.exec(t, "DROP TRIGGER complain ON broker_attempt")
	w.scrubbed(t, w.job(t, p.ID), "4111-1111")
	w.await(t, purchase.Completed, p.ID)
	w.attempts(t, p.ID, 1)
}

// scrubbed: River keeps nothing of secret, and the log does.
func (w *world) scrubbed(t *testing.T, job job, secret string) {
	t.Helper()
	if strings.Contains(job.Errors, secret) || !strings.Contains(job.Errors, "see the log") {
		t.Errorf("River keeps %q", job.Errors)
	}
	if !strings.Contains(w.log.String(), secret) {
		t.Error("the log does not tell what happened")
	}
}

func (w *world) attempts(t *testing.T, id uuid.UUID, want int) {
	t.Helper()
	if got, err := w.service.Get(t.Context(), id); err != nil || got.Attempts != want {
		t.Errorf("attempts %d, %v; want %d", got.Attempts, err, want)
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
	g := &guard{log: slog.New(slog.DiscardHandler)}
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
	w := newWorld(t, unhurried)
	w.config.StopTimeout = 50 * time.Millisecond
	began, _ := w.broker.hold(false)
	first, err := NewWorkers(w.config)
	must(t, err)
	must(t, first.Start(t.Context()))
	p := w.submit(t)
	received(t, "a lookup", began)
	stop(t, first)

	if job := w.job(t, p.ID); job.State != "available" || job.Attempt != 0 || job.Errors != "" {
		t.Errorf("after the stop the job is %+v, want available, untouched", job)
	}
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
	w.attempts(t, p.ID, 1) // the stopped pass is none
}

// The process is told to stop and does not wait: Stop ends with its context.
func TestStopIsBounded(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unhurried)
	w.config.StopTimeout = time.Hour
	began, _ := w.broker.hold(true)
	workers, err := NewWorkers(w.config)
	must(t, err)
	must(t, workers.Start(t.Context()))
	w.submit(t)
	received(t, "a lookup", began)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if err := workers.Stop(ctx); !errors.Is(err, context.Canceled) {
		t.Errorf("Stop says %v", err)
	}
}

func TestConfigContradictsItself(t *testing.T) {
	t.Parallel()
	if _, err := NewWorkers(Config{PassTimeout: time.Minute, RescueAfter: time.Minute}); err == nil {
		t.Error("taken: passes that may be rescued while they run")
	}
}
