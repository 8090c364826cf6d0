package jobs

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river/rivertype"

	"holdfast/purchase"
)

func schedule(t *testing.T, w *world, work purchase.Work) error {
	t.Helper()
	scheduler, err := NewScheduler(w.pool)
	must(t, err)
	return pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		return scheduler.ScheduleTx(t.Context(), tx, work)
	})
}

func TestScheduleInsertsOneJobEach(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id, alert := uuid.New(), uuid.New()
	must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{id, uuid.New(), id}, Alerts: []uuid.UUID{alert, alert}}))

	if n := w.count(t, "SELECT count(*) FROM river_job"); n != 3 {
		t.Fatalf("%d jobs, want 3", n)
	}
	got := w.job(t, id)
	if want := `{"transaction_id": "` + id.String() + `"}`; got.Args != want || got.Kind != "reconcile_purchase" || got.State != "available" {
		t.Errorf("job is %+v, want available args %s", got, want)
	}
	if got, want := w.job(t, alert).Args, `{"alert_id": "`+alert.String()+`"}`; got != want {
		t.Errorf("alert's args are %s, want %s", got, want)
	}
}

func TestScheduleAgain(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, test := range []struct {
		state     string
		wantState string
		wantNew   bool
	}{
		{"available", "available", false},
		{"scheduled", "available", false},
		{"retryable", "available", false},
		{"pending", "available", false},
		{"running", "running", false},
		{"completed", "completed", true},
		{"cancelled", "cancelled", true},
		{"discarded", "discarded", true},
	} {
		t.Run(test.state, func(t *testing.T) {
			t.Parallel()
			id := uuid.New()
			must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{id}}))
			setState(t, w, w.job(t, id).ID, test.state, time.Now().Add(time.Hour))
			must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{id}}))

			jobs := w.jobs(t, id)
			if (len(jobs) == 2) != test.wantNew {
				t.Fatalf("jobs are %+v, a new one: want %t", jobs, test.wantNew)
			}
			if jobs[0].State != test.wantState {
				t.Errorf("first job is %s, want %s", jobs[0].State, test.wantState)
			}
			if late := time.Until(jobs[0].ScheduledAt) > 0; late && test.wantState == "available" {
				t.Errorf("first job waits until %s", jobs[0].ScheduledAt)
			}
		})
	}
}

// setState puts a job into a state as if River had.
func setState(t *testing.T, w *world, id int64, state string, scheduledAt time.Time) {
	t.Helper()
	ended := state == string(rivertype.JobStateCompleted) || state == string(rivertype.JobStateCancelled) ||
		state == string(rivertype.JobStateDiscarded)
	w.exec(t, `UPDATE river_job SET state = $2::text::river_job_state, scheduled_at = $3, attempted_at = now(),
		finalized_at = CASE WHEN $4 THEN now() END WHERE id = $1`, id, state, scheduledAt, ended)
}

func TestScheduleMoreThanOneStatementTakes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := make([]uuid.UUID, 2*maxInsert+1)
	for i := range ids {
		ids[i] = uuid.New()
	}
	must(t, schedule(t, w, purchase.Work{Purchases: ids}))
	must(t, schedule(t, w, purchase.Work{Purchases: ids}))
	if n := w.count(t, "SELECT count(*) FROM river_job"); n != len(ids) {
		t.Errorf("%d jobs, want %d", n, len(ids))
	}
}

func TestScheduleGoesWithItsTransaction(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	scheduler, err := NewScheduler(w.pool)
	must(t, err)
	undone := errors.New("undone")
	err = pgx.BeginFunc(t.Context(), w.pool, func(tx pgx.Tx) error {
		must(t, scheduler.ScheduleTx(t.Context(), tx, purchase.Work{Purchases: []uuid.UUID{uuid.New()}}))
		return undone
	})
	if !errors.Is(err, undone) {
		t.Fatal(err)
	}
	if n := w.count(t, "SELECT count(*) FROM river_job"); n != 0 {
		t.Errorf("%d jobs after a rollback", n)
	}
}

func TestScheduleRefused(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	refuseJobs(t, w, "%")
	if err := schedule(t, w, purchase.Work{Purchases: []uuid.UUID{uuid.New()}}); err == nil {
		t.Error("no error although River's table refuses rows")
	}
}

// refuseJobs lets River's table refuse jobs of a kind, a pattern as of LIKE.
func refuseJobs(t *testing.T, w *world, kind string) {
	t.Helper()
	w.exec(t, `CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'refused'; END $$`)
	w.exec(t, `CREATE TRIGGER refuse BEFORE INSERT ON river_job FOR EACH ROW
		WHEN (NEW.kind LIKE '`+kind+`') EXECUTE FUNCTION refuse()`)
}

// A waiting job that somebody asked to cancel during an earlier attempt must run to its
// end when it is hurried.
func TestScheduleForgetsAnEarlierCancel(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	id := uuid.New()
	must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{id}}))
	w.exec(t, `UPDATE river_job SET state = 'scheduled', scheduled_at = now() + interval '1 hour',
		metadata = '{"cancel_attempted_at": "2020-01-01T00:00:00Z"}'`)
	must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{id}}))
	if n := w.count(t, "SELECT count(*) FROM river_job WHERE metadata ? 'cancel_attempted_at'"); n != 0 {
		t.Error("the job still has its cancel")
	}
}

// Two transactions that schedule the same work in opposite orders wait for each other
// in one order, and neither fails.
func TestScheduleConcurrently(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := make([]uuid.UUID, 50)
	back := make([]uuid.UUID, len(ids))
	for i := range ids {
		ids[i] = uuid.New()
		back[len(ids)-1-i] = ids[i]
	}
	scheduler, err := NewScheduler(w.pool)
	must(t, err)
	failed := make(chan error, 20)
	for i := range cap(failed) {
		order := ids
		if i%2 == 1 {
			order = back
		}
		go func() {
			failed <- pgx.BeginFunc(context.WithoutCancel(t.Context()), w.pool, func(tx pgx.Tx) error {
				return scheduler.ScheduleTx(t.Context(), tx, purchase.Work{Purchases: order})
			})
		}()
	}
	for range cap(failed) {
		if err := <-failed; err != nil {
			t.Error(err)
		}
	}
	if n := w.count(t, "SELECT count(*) FROM river_job"); n != len(ids) {
		t.Errorf("%d jobs, want %d", n, len(ids))
	}
}
