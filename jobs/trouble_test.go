package jobs

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/purchase"
	"holdfast/sandbox"
)

// River's table may refuse, hang or be gone. Then no purchase may become UNKNOWN, for none
// could have its job, and once it is back everything is found and settled. The trouble
// lasts for as long as a purchase tries, at least HOLDFAST_TEST_TROUBLE seconds.
func TestRiverTableInTrouble(t *testing.T) {
	t.Parallel()
	lasts := time.Duration(fromEnvironment(t, "HOLDFAST_TEST_TROUBLE", 1)) * time.Second
	for name, trouble := range map[string]struct {
		begin func(*testing.T, *world) (end func())
	}{
		"Refuses": {func(t *testing.T, w *world) func() {
			refuseJobs(t, w, "%")
			return func() { w.exec(t, "DROP TRIGGER refuse ON river_job") }
		}},
		"IsGone": {func(t *testing.T, w *world) func() {
			w.exec(t, "ALTER TABLE river_job RENAME TO elsewhere")
			return func() { w.exec(t, "ALTER TABLE elsewhere RENAME TO river_job") }
		}},
		"IsLocked": {lockJobs},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			w := newWorld(t)
			w.start(t)
			waiting := w.waiting(t)
			end := trouble.begin(t, w)
			over := time.After(lasts)
			p := w.submit(t)
			if p.Status != purchase.Pending || w.get(t, p.ID).Status != purchase.Pending {
				t.Errorf("the purchase is %s, want PENDING: it could have no job", p.Status)
			}
			<-over
			end()
			w.await(t, purchase.Completed, p.ID)
			w.release(t, waiting)
			w.await(t, purchase.Completed, waiting)
			if n := w.broker.places(); n != 2 {
				t.Errorf("%d places, want one a purchase", n)
			}
		})
	}
}

// waiting makes a purchase that is UNKNOWN and not due before release.
func (w *world) waiting(t *testing.T) uuid.UUID {
	t.Helper()
	booked := true
	w.broker.script(t, sandbox.Response{
		Call: "place", Book: &booked, Status: http.StatusServiceUnavailable, Header: map[string]string{"Retry-After": "1200"},
	})
	p := w.submit(t)
	eventually(t, "the job waits", func() bool { return w.job(t, p.ID).State == "scheduled" })
	return p.ID
}

func (w *world) release(t *testing.T, id uuid.UUID) {
	t.Helper()
	w.exec(t, "UPDATE transaction_history SET next_retry = now() WHERE id = $1", id)
}

func lockJobs(t *testing.T, w *world) func() {
	t.Helper()
	return lockTable(t, w, "river_job", "ACCESS EXCLUSIVE")
}

func lockTable(t *testing.T, w *world, table, mode string) (end func()) {
	t.Helper()
	tx, err := w.pool.Begin(t.Context())
	must(t, err)
	end = sync.OnceFunc(func() { must(t, tx.Rollback(context.WithoutCancel(t.Context()))) })
	t.Cleanup(end)
	_, err = tx.Exec(t.Context(), "LOCK TABLE "+table+" IN "+mode+" MODE")
	must(t, err)
	return end
}

func TestRiverTableEmptied(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ids := make([]uuid.UUID, 20)
	for i := range ids {
		ids[i] = w.submit(t).ID
	}
	w.exec(t, "TRUNCATE river_job")
	w.start(t)
	w.await(t, purchase.Completed, ids...)
	eventually(t, "the repair is told of", func() bool {
		return w.count(t, "SELECT count(*) FROM alert WHERE type = $1 AND delivered_at IS NOT NULL", alertRepaired) == 1
	})
}

// A table emptied under running passes costs none of them its result.
func TestRiverTableEmptiedMeanwhile(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.start(t)
	ids := make([]uuid.UUID, 40)
	for i := range ids {
		ids[i] = w.submit(t).ID
		if i%10 == 0 {
			w.exec(t, "DELETE FROM river_job")
		}
	}
	w.await(t, purchase.Completed, ids...)
	if n := w.broker.overlaps.Load(); n != 0 {
		t.Errorf("%d lookups beside another of the same purchase", n)
	}
}

// Everything a sweep does is tried, however much of it fails.
func TestSweepStepsAreIndependent(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Prune = func(context.Context) error { return errors.New("no pruning today") }
	p := w.submit(t)
	w.exec(t, "DELETE FROM river_job")
	refuseJobs(t, w, "deliver_alert")
	w.alert(t, "0", false)
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
	eventually(t, "the failures are logged", func() bool {
		log := w.log.String()
		return strings.Contains(log, `"step":"sweep alerts"`) && strings.Contains(log, "no pruning today")
	})
}

func TestSweepSurvivesAPanic(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.config.Prune = func(context.Context) error { panic("pruned too much") }
	w.start(t)
	eventually(t, "the panic is logged", func() bool { return strings.Contains(w.log.String(), "pruned too much") })
	p := w.submit(t)
	w.exec(t, "DELETE FROM river_job")
	w.await(t, purchase.Completed, p.ID)
}

func TestReleaseTakesOnlyTheDead(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	dead, alive, foreign := uuid.New(), uuid.New(), uuid.New()
	must(t, schedule(t, w, purchase.Work{Purchases: []uuid.UUID{dead, alive}}))
	w.exec(t, "UPDATE river_job SET state = 'running', attempt = 3, attempted_at = now() - interval '1 minute' WHERE args ->> 'transaction_id' = $1", dead.String())
	w.exec(t, "UPDATE river_job SET state = 'running', attempt = 3, attempted_at = now() WHERE args ->> 'transaction_id' = $1", alive.String())
	w.exec(t, `INSERT INTO river_job (kind, args, max_attempts, state, attempted_at) VALUES ('other', jsonb_build_object('id', $1::text), 1, 'running', now() - interval '1 hour')`, foreign.String())
	s := w.sweeper(t)
	must(t, s.release(t.Context()))

	if job := w.job(t, dead); job.State != "available" || job.Attempt != 2 {
		t.Errorf("the dead process's job is %+v, want available at attempt 2", job)
	}
	for _, id := range []uuid.UUID{alive, foreign} {
		if job := w.job(t, id); job.State != "running" {
			t.Errorf("job %+v was released", job)
		}
	}
}

func (w *world) sweeper(t *testing.T) *sweeper {
	t.Helper()
	scheduler, err := NewScheduler(w.pool)
	must(t, err)
	return newSweeper(w.config, scheduler)
}

func TestHurryLeavesWaitingJobsAlone(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for name, test := range map[string]struct {
		due, scheduled time.Duration
		expediting     bool
	}{
		"NotDue":       {time.Hour, time.Hour, false},
		"Near":         {0, 5 * time.Second, false},
		"FarOff":       {0, time.Hour, true},
		"LongPast":     {-time.Minute, -time.Minute, true},
		"JustNotTaken": {-time.Second, -time.Second, false},
	} {
		t.Run(name, func(t *testing.T) {
			p := w.submit(t)
			w.exec(t, "UPDATE transaction_history SET next_retry = now() + make_interval(secs => $2) WHERE id = $1", p.ID, test.due.Seconds())
			setState(t, w, w.job(t, p.ID).ID, "scheduled", time.Now().Add(test.scheduled))
			must(t, w.sweeper(t).expedite(t.Context()))
			if expediting := w.job(t, p.ID).State == "available"; expediting != test.expediting {
				t.Errorf("hurried: %t, want %t", expediting, test.expediting)
			}
		})
	}
}

func TestPruneDropsWhatHasExpired(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, age := range []string{"-1 minute", "1 minute"} {
		w.exec(t, `INSERT INTO stream_ticket (hash, key_id, scope, expires_at) VALUES (convert_to($1, 'UTF8'), 'k', 'operator', now() + $1::text::interval)`, age)
	}
	must(t, w.sweeper(t).pruneOld(t.Context()))
	if n := w.count(t, "SELECT count(*) FROM stream_ticket"); n != 1 {
		t.Errorf("%d tickets left, want 1", n)
	}
}

// due makes n purchases of as many accounts that are UNKNOWN, due and without a job. The
// broker knows them all.
func (w *world) due(t *testing.T, n int) []uuid.UUID {
	t.Helper()
	w.broker.onLookup(confirm)
	w.exec(t, `INSERT INTO account (id, currency, reserved, deposited)
		SELECT 'due-' || i, 'USD', 1, 1 FROM generate_series(1, $1::integer) i`, n)
	rows, err := w.pool.Query(t.Context(), `
		INSERT INTO transaction_history (id, account_id, idempotency_key, fingerprint, status, version, symbol,
			quantity, limit_price, currency, hold, reason, broker, broker_key, broker_request, request_hash,
			next_retry, unknown_since)
		SELECT gen_random_uuid(), 'due-' || i, 'k', '', 'UNKNOWN', 2, 'AAPL', 1, 1, 'USD', 1, 'timeout', 'http', 'b' || i, '', '',
			now(), now()
		FROM generate_series(1, $1::integer) i
		RETURNING id`, n)
	must(t, err)
	ids, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	must(t, err)
	return ids
}

// Ten thousand purchases fall due in one moment: the workers' bound holds, nobody is asked
// twice, and an alert does not wait behind them. The suite follows the first of them;
// HOLDFAST_TEST_DUE=10000 all.
func TestTenThousandDueAtOnce(t *testing.T) {
	t.Parallel()
	const n = 10_000
	follow := min(n, fromEnvironment(t, "HOLDFAST_TEST_DUE", 1000))
	w := newWorld(t, unhurried, quiet)
	w.config.Concurrency, w.config.SweepInterval = 20, time.Hour
	must(t, schedule(t, w, purchase.Work{Purchases: w.due(t, n)}))
	w.broker.onLookup(func(rw http.ResponseWriter, r *http.Request, sandbox http.Handler) {
		<-time.After(30 * time.Millisecond) // or twenty would never be there at once
		confirm(rw, r, sandbox)
	})
	workers, err := NewWorkers(w.config)
	must(t, err)
	began := time.Now()
	must(t, workers.Start(t.Context()))
	told := w.alert(t, "0", true)
	eventually(t, "an alert is delivered", func() bool { return w.delivered(t, told) })
	if w.settled(t) == n {
		t.Error("the alert came last")
	}
	w.awaitSettled(t, follow)
	stop(t, workers)
	settled := w.settled(t)
	t.Logf("%d passes in %s", settled, time.Since(began).Round(time.Millisecond))
	if most := w.broker.most.Load(); most > 20 {
		t.Errorf("%d lookups at once, want at most 20", most)
	}
	if got := w.broker.lookups.Load(); got != int64(settled) {
		t.Errorf("%d lookups for %d purchases", got, settled)
	}
}

// fromEnvironment reads the size of a test.
func fromEnvironment(t *testing.T, name string, usual int) int {
	t.Helper()
	text := os.Getenv(name)
	if text == "" {
		return usual
	}
	n, err := strconv.Atoi(text)
	if err != nil || n <= 0 {
		t.Fatalf("%s=%q: %v", name, text, err)
	}
	return n
}

// quiet logs nothing of what goes well.
func quiet(r *rules) { r.level = slog.LevelWarn }

func (w *world) settled(t *testing.T) int {
	t.Helper()
	return w.count(t, "SELECT count(*) FROM transaction_history WHERE status = 'COMPLETED'")
}

// awaitSettled waits until n are settled, for as long as they become more. It looks
// seldom: to count thousands is work.
func (w *world) awaitSettled(t *testing.T, n int) {
	t.Helper()
	look := time.NewTicker(250 * time.Millisecond)
	defer look.Stop()
	for last, moved := -1, time.Now(); ; <-look.C {
		now := w.settled(t)
		if now >= n {
			return
		}
		if now > last {
			last, moved = now, time.Now()
		} else if time.Since(moved) > patience {
			t.Fatalf("%d of %d are settled and no more in %s", now, n, patience)
		}
	}
}

// More orphans than one batch of the sweep takes.
func TestManyOrphans(t *testing.T) {
	t.Parallel()
	const n = 2*sweepBatch + 1
	w := newWorld(t, quiet)
	w.due(t, n)
	for range 2 {
		w.sweeper(t).sweep(t.Context())
	}
	if got := w.count(t, "SELECT count(DISTINCT args) FROM river_job WHERE kind = $1", kindReconcile); got != n {
		t.Errorf("%d jobs, want %d", got, n)
	}
	if got := w.count(t, "SELECT (data::jsonb ->> 'jobs')::integer FROM alert WHERE type = $1", alertRepaired); got != n {
		t.Errorf("the alert tells of %d, want %d", got, n)
	}
	if got := w.count(t, "SELECT count(*) FROM alert WHERE type = $1", alertRepaired); got != 1 {
		t.Errorf("%d alerts of the repairs, want 1", got)
	}
}

func TestManyUndeliveredAlerts(t *testing.T) {
	t.Parallel()
	const n = sweepBatch + 1
	w := newWorld(t)
	w.exec(t, `INSERT INTO alert (id, type, data) SELECT gen_random_uuid(), 'broker.recovered', '{}' FROM generate_series(1, $1::integer)`, n)
	for range 2 {
		w.sweeper(t).sweep(t.Context())
	}
	if got := w.count(t, "SELECT count(DISTINCT args) FROM river_job WHERE kind = $1", kindAlert); got != n {
		t.Errorf("%d jobs, want %d", got, n)
	}
}
