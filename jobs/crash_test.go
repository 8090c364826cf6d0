package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"os"
	"os/exec"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"holdfast/internal/testkit/pgtest"
	"holdfast/purchase"
)

// kill -9 in the middle of a lookup: another process takes the pass up after the
// rescue time, and nobody is asked to buy again.
func TestKilledPassRunsAgain(t *testing.T) {
	t.Parallel()
	w, url := newWorldForTwo(t)
	p := w.submit(t)
	child := w.startMidPass(t, url)
	must(t, child.Process.Kill())
	_ = child.Wait()
	if job := w.job(t, p.ID); job.State != "running" {
		t.Fatalf("the killed process left its job %s", job.State)
	}
	killed := time.Now()
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
	took := time.Since(killed)
	t.Logf("settled %s after the kill; rescue after %s", took.Round(time.Millisecond), w.config.RescueAfter)
	if took > 15*time.Second {
		t.Error("River's own rescuer, which looks every 30 s, was faster")
	}
	if job := w.job(t, p.ID); job.State != "completed" || job.Attempt != 1 {
		t.Errorf("job is %+v, want completed, the lost run not counted", job)
	}
	if n := w.broker.places(); n != 1 {
		t.Errorf("%d places, want the client's alone", n)
	}
}

// newWorldForTwo returns a world and the address of its database.
func newWorldForTwo(t *testing.T) (*world, string) {
	t.Helper()
	url := pgtest.NewURL(t)
	return newWorldAt(t, url), url
}

// startMidPass starts a worker process and returns when it is in a lookup, which gets no
// answer. It ends with the test, however it stands then.
func (w *world) startMidPass(t *testing.T, url string) *exec.Cmd {
	t.Helper()
	began, _ := w.broker.hold(false)
	self, err := os.Executable()
	must(t, err)
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), doomedURL+"="+url, doomedBroker+"="+w.broker.url)
	child.Stderr = t.Output()
	must(t, child.Start())
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	received(t, "the child's lookup", began)
	return child
}

// A process that is frozen in the middle of a lookup, as with its virtual machine, loses
// its lease and wakes up when everything is over. It changes nothing and works on.
func TestFrozenProcessChangesNothing(t *testing.T) {
	t.Parallel()
	w, url := newWorldForTwo(t)
	p := w.submit(t)
	child := w.startMidPass(t, url)
	must(t, child.Process.Signal(syscall.SIGSTOP))
	workers, err := NewWorkers(w.config)
	must(t, err)
	must(t, workers.Start(t.Context()))
	w.await(t, purchase.Completed, p.ID)
	stop(t, workers)
	before, job := w.get(t, p.ID), w.job(t, p.ID)

	must(t, child.Process.Signal(syscall.SIGCONT))
	next := w.submit(t)
	w.await(t, purchase.Completed, next.ID) // by whom but the child?
	if after := w.get(t, p.ID); after.Version != before.Version || !after.UpdatedAt.Equal(before.UpdatedAt) {
		t.Errorf("the purchase was %+v and is %+v", before, after)
	}
	if again := w.job(t, p.ID); again != job {
		t.Errorf("the job was %+v and is %+v", job, again)
	}
	if n := w.broker.places(); n != 2 {
		t.Errorf("%d places, want one a purchase", n)
	}
}

// River does not fence a stale attempt. Here the first one has its answer, another than
// the next one gets, and cannot write it before it is rescued: its write waits for a lock,
// and then comes before its successor's.
func TestStaleAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(r *rules) { // a write may wait for 5 s, and must outlive its lease
		r.RescueAfter, r.timeout, r.lock = 1500*time.Millisecond, time.Second, 10*time.Second
	})
	arrived, locked := make(chan struct{}, 1000), make(chan struct{})
	var calls atomic.Int64
	w.broker.onLookup(func(rw http.ResponseWriter, r *http.Request, sandbox http.Handler) {
		first := calls.Add(1) == 1
		arrived <- struct{}{}
		if !first {
			sandbox.ServeHTTP(rw, r)
			return
		}
		<-locked
		_, _ = fmt.Fprintf(rw, `{"order_id":"stale","client_order_id":%q,"status":"rejected","code":"stale"}`, r.PathValue("key"))
	})
	stale, err := NewWorkers(w.config)
	must(t, err)
	must(t, stale.Start(t.Context()))
	p := w.submit(t)
	received(t, "the first lookup", arrived)
	unlock := lockTable(t, w, "broker_attempt", "SHARE")
	close(locked)
	w.start(t)
	received(t, "the second lookup", arrived)
	unlock()
	w.await(t, purchase.Completed, p.ID)
	stop(t, stale)

	if got := w.get(t, p.ID); got.Status != purchase.Completed || *got.Evidence != purchase.ByLookup {
		t.Errorf("the stale attempt made the purchase %s by %s", got.Status, *got.Evidence)
	}
	eventually(t, "the job is over", func() bool { return w.job(t, p.ID).State == "completed" })
	if n := w.count(t, "SELECT count(*) FROM outbox"); n != 2 {
		t.Errorf("%d events, want UNKNOWN and COMPLETED", n)
	}
}

// A stale attempt can still move the job itself: here it snoozes its running successor
// for an hour. The purchase is due all the same, and the sweep sees to it.
func TestStrayedJobIsHurried(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.submit(t)
	setState(t, w, w.job(t, p.ID).ID, "scheduled", time.Now().Add(time.Hour))
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
}

// A leader of another version that knows half the kinds discards what it rescues and
// does not know, without a word.
func TestLeaderThatKnowsHalfTheKinds(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := w.submit(t)
	w.exec(t, "UPDATE river_job SET state = 'running', attempt = 1, attempted_at = now() - interval '1 hour'")
	startHalfLeader(t, w)
	eventually(t, "the leader discards the job", func() bool { return w.job(t, p.ID).State == "discarded" })
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
}

func startHalfLeader(t *testing.T, w *world) {
	t.Helper()
	workers := river.NewWorkers()
	river.AddWorker(workers, &alertWorker{pool: w.config.Pool, timeout: time.Second})
	leader, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{
		Queues:  map[string]river.QueueConfig{"other": {MaxWorkers: 1}},
		Workers: workers, JobTimeout: time.Second, RescueStuckJobsAfter: 10 * time.Second,
		Logger: slog.New(slog.DiscardHandler),
	})
	must(t, err)
	must(t, leader.Start(context.WithoutCancel(t.Context())))
	t.Cleanup(func() {
		if err := leader.Stop(context.WithoutCancel(t.Context())); err != nil {
			t.Errorf("stop leader: %v", err)
		}
	})
}
