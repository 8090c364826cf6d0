package jobs

import (
	"bufio"
	"context"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"

	"holdfast/broker"
	"holdfast/internal/pgtest"
	"holdfast/purchase"
)

// kill -9 in the middle of a lookup: another process takes the pass up after the
// rescue time, and nobody is asked to buy again.
func TestKilledPassRunsAgain(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	w := newWorldOn(t, pgtest.Pool(t, url))
	p := w.submit(t)
	killMidPass(t, url)
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
	if n := w.broker.places.Load(); n != 1 {
		t.Errorf("%d places, want the client's alone", n)
	}
}

// killMidPass runs a worker process, waits until it is in a lookup, and kills it.
func killMidPass(t *testing.T, url string) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	child := exec.CommandContext(t.Context(), self)
	child.Env = append(os.Environ(), doomedURL+"="+url)
	out, err := child.StdoutPipe()
	must(t, err)
	must(t, child.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || !strings.HasPrefix(line, "looking up") {
		t.Errorf("the child says %q, %v", line, err)
	}
	must(t, child.Process.Kill())
	_ = child.Wait()
}

// River does not fence a stale attempt. Here the first one ignores its deadline, is
// rescued, and comes back after its successor has settled the purchase otherwise.
func TestStaleAttemptChangesNothing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	release, returned := make(chan struct{}), make(chan struct{})
	var calls atomic.Int64
	w.broker.lookup = func(_ context.Context, key string) broker.Answer {
		if calls.Add(1) > 1 {
			return completed(key)
		}
		defer close(returned)
		<-release
		return broker.Answer{Evidence: broker.Rejected, Code: "stale", Answered: true, StatusCode: 200}
	}
	first, err := NewWorkers(w.config)
	must(t, err)
	must(t, first.Start(t.Context()))
	p := w.submit(t)
	eventually(t, "the first attempt is at the broker", func() bool { return calls.Load() == 1 })
	w.start(t)
	w.await(t, purchase.Completed, p.ID)
	close(release)
	<-returned
	stop(t, first)

	if got := w.status(t, p.ID); got != purchase.Completed {
		t.Errorf("the stale attempt made the purchase %s", got)
	}
	if job := w.job(t, p.ID); job.State != "completed" {
		t.Errorf("the stale attempt made the job %s", job.State)
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
	river.AddWorker(workers, &alertWorker{pool: w.pool, timeout: time.Second, log: w.config.Log})
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
