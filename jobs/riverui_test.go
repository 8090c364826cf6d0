package jobs

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/rivertype"

	"holdfast/purchase"
)

type riverAction func(*river.Client[pgx.Tx], context.Context, int64) (*rivertype.JobRow, error)

// What River UI can do to a job, and River itself, at every state: the purchase ends
// as it would have, with no call more than its passes need.
func TestWhateverHappensToTheJob(t *testing.T) {
	t.Parallel()
	actions := map[string]riverAction{
		"Cancel": (*river.Client[pgx.Tx]).JobCancel,
		"Delete": (*river.Client[pgx.Tx]).JobDelete,
		"Retry":  (*river.Client[pgx.Tx]).JobRetry,
		"Leave":  func(*river.Client[pgx.Tx], context.Context, int64) (*rivertype.JobRow, error) { return nil, nil },
	}
	states := []string{"available", "scheduled", "retryable", "pending", "cancelled", "completed", "discarded"}
	w := newWorld(t)
	ids := map[string]uuid.UUID{}
	for name, act := range actions {
		for _, state := range states {
			p := w.submit(t)
			id := w.job(t, p.ID).ID
			setState(t, w, id, state, time.Now().Add(time.Hour))
			if _, err := act(w.river(t), t.Context(), id); err != nil {
				t.Fatalf("%s a job that is %s: %v", name, state, err)
			}
			ids[fmt.Sprintf("%s/%s", name, state)] = p.ID
		}
	}
	w.start(t)
	for name, id := range ids {
		w.await(t, purchase.Completed, id)
		if n := w.count(t, "SELECT count(*) FROM broker_attempt WHERE transaction_id = $1", id); n != 1 {
			t.Errorf("%s: %d exchanges with the broker, want 1", name, n)
		}
	}
}

// The same while the job runs: a cancel ends the attempt and the sweep starts another;
// delete and re-run are refused by River.
func TestWhateverHappensToARunningJob(t *testing.T) {
	t.Parallel()
	for name, act := range map[string]riverAction{
		"Cancel": (*river.Client[pgx.Tx]).JobCancel,
		"Delete": (*river.Client[pgx.Tx]).JobDelete,
		"Retry":  (*river.Client[pgx.Tx]).JobRetry,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, unhurried)
			began, release := w.broker.hold(true)
			w.start(t)
			p := w.submit(t)
			received(t, "a lookup", began)
			first := w.job(t, p.ID).ID
			// River refuses to delete a running job and leaves one alone that it should retry.
			_, err := act(w.river(t), t.Context(), first)
			if (err != nil) != (name == "Delete") {
				t.Errorf("%s: %v", name, err)
			}
			if name == "Cancel" {
				eventually(t, "the attempt is over", func() bool { return w.jobs(t, p.ID)[0].State == "cancelled" })
			} else if state := w.job(t, p.ID).State; state != "running" {
				t.Errorf("the job is %s, want running", state)
			}
			close(release)
			w.await(t, purchase.Completed, p.ID)
			if n := w.broker.overlaps.Load(); n != 0 {
				t.Errorf("%d lookups at the same time as another of the same purchase", n)
			}
		})
	}
}

// A job whose row is gone does not keep its pass from storing what it found.
func TestRunningJobVanishes(t *testing.T) {
	t.Parallel()
	w := newWorld(t, unhurried)
	began, release := w.broker.hold(true)
	w.config.SweepInterval = time.Hour
	w.start(t)
	p := w.submit(t)
	received(t, "a lookup", began)
	w.exec(t, "DELETE FROM river_job")
	close(release)
	w.await(t, purchase.Completed, p.ID)
	if n := w.broker.lookups.Load(); n != 1 {
		t.Errorf("%d lookups, want 1", n)
	}
}

// A completed job that somebody runs again finds the purchase settled.
func TestCompletedJobIsRunAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	p := w.submit(t)
	w.await(t, purchase.Completed, p.ID)
	before := w.get(t, p.ID)
	first := w.job(t, p.ID)
	_, err := w.river(t).JobRetry(t.Context(), first.ID)
	must(t, err)
	eventually(t, "the job has run again", func() bool {
		again := w.job(t, p.ID)
		return again.State == "completed" && again.Attempt > first.Attempt
	})
	after := w.get(t, p.ID)
	if after.Version != before.Version || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("the purchase changed: %+v", after)
	}
	if n := w.broker.lookups.Load(); n != 1 {
		t.Errorf("%d lookups, want 1", n)
	}
}

// A cancelled job cannot come back beside its successor.
func TestRerunBesideALiveTwin(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.submit(t)
	first := w.job(t, p.ID).ID
	_, err := w.river(t).JobCancel(t.Context(), first)
	must(t, err)
	must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{p.ID}}))
	if _, err := w.river(t).JobRetry(t.Context(), first); err == nil {
		t.Error("two live jobs of one purchase")
	}
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
}

func TestPausedQueue(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	// The alert's delivery, over its own queue, shows that the workers are at work.
	id := w.alert(t, "0", true)
	eventually(t, "the workers are up", func() bool { return w.delivered(t, id) })
	must(t, w.river(t).QueuePause(t.Context(), queuePasses, nil))
	awaitPaused(t, w)

	p := w.submit(t)
	told := w.alert(t, "0", true)
	eventually(t, "alerts go on", func() bool { return w.delivered(t, told) })
	if job := w.job(t, p.ID); job.State != "available" {
		t.Errorf("the queue is paused and the job is %s", job.State)
	}
	queues, err := Queues(t.Context(), w.pool)
	must(t, err)
	if !queues[queuePasses] || queues[queueAlerts] {
		t.Errorf("paused queues are %v, want only %s", queues, queuePasses)
	}
	must(t, w.river(t).QueueResume(t.Context(), queuePasses, nil))
	w.await(t, purchase.Completed, p.ID)
}

// Limits and alerts do not depend on the queue of passes.
func TestPausedQueueIsNoticed(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.submit(t)
	overdue := w.submit(t)
	w.exec(t, "UPDATE transaction_history SET unknown_since = now() - interval '2 hours' WHERE id = $1", p.ID)
	w.exec(t, "UPDATE transaction_history SET next_retry = now() - interval '6 minutes' WHERE id = $1", overdue.ID)
	must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{p.ID}}))
	w.exec(t, "INSERT INTO river_queue (name, metadata, created_at, updated_at, paused_at) VALUES ('default', '{}', now(), now(), now())")
	w.start(t)
	w.await(t, purchase.ManualReview, p.ID)
	for _, alert := range []string{"purchase.manual_review", "purchases.overdue"} {
		eventually(t, "the alert "+alert, func() bool {
			return w.count(t, "SELECT count(*) FROM alert WHERE type = $1", alert) == 1
		})
	}
}

// awaitPaused submits and withdraws probes until one is left alone: the pause travels
// by notification.
func awaitPaused(t *testing.T, w *world) {
	t.Helper()
	eventually(t, "the pause has arrived", func() bool {
		probe := uuid.New()
		must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{probe}}))
		told := w.alert(t, "0", true)
		eventually(t, "the alert after it is delivered", func() bool { return w.delivered(t, told) })
		taken := w.job(t, probe).State != "available"
		w.exec(t, "DELETE FROM river_job WHERE args ->> 'transaction_id' = $1", probe.String())
		return !taken
	})
}
