package purchase

import (
	"context"
	"errors"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"
)

func TestBatcherGivesEachCallerItsOwn(t *testing.T) {
	t.Parallel()
	const callers = 500
	var statements, most atomic.Int64
	all := make(chan struct{})
	var arrived atomic.Int64
	b := newBatcher(time.Minute, maxStatements, func(error) bool { return true }, func(_ context.Context, in []int) []result[int] {
		if statements.Add(1) == 1 {
			<-all // so that the others share a statement
		}
		most.Store(max(most.Load(), int64(len(in))))
		out := make([]result[int], len(in))
		for i, n := range in {
			out[i].out = -n
		}
		return out
	})
	var wg sync.WaitGroup
	for n := range callers {
		wg.Go(func() {
			if arrived.Add(1) == callers {
				close(all)
			}
			if got, err := b.do(n); got != -n || err != nil {
				t.Errorf("caller %d got %d", n, got)
			}
		})
	}
	wg.Wait()
	if most.Load() > maxBatch {
		t.Errorf("a batch had %d, at most %d may", most.Load(), maxBatch)
	}
	if got, _ := b.do(7); got != -7 {
		t.Errorf("a lone caller got %d", got)
	}
}

// What a batch fails with is one member's fault: the others must not share it.
func TestBatcherRunsMembersOfAFailedBatchAlone(t *testing.T) {
	t.Parallel()
	refused := errors.New("refused")
	first := make(chan struct{})
	var statements atomic.Int64
	b := newBatcher(time.Minute, maxStatements, func(err error) bool { return errors.Is(err, refused) }, func(_ context.Context, in []int) []result[int] {
		if statements.Add(1) <= maxStatements {
			<-first // so that the others share a statement
		}
		out := make([]result[int], len(in))
		for i := range in {
			if slices.Contains(in, 13) {
				out[i].err = refused
			}
		}
		return out
	})
	var wg sync.WaitGroup
	call := func(n int) {
		if _, err := b.do(n); (err != nil) != (n == 13) {
			t.Errorf("caller %d got %v", n, err)
		}
	}
	for n := range maxStatements + 20 {
		wg.Go(func() { call(n) })
		// Each of the first has a statement of its own.
		for statements.Load() < min(int64(n+1), maxStatements) {
			runtime.Gosched()
		}
	}
	for b.queued() < 20 {
		runtime.Gosched()
	}
	close(first)
	wg.Wait()
}

func (b *batcher[In, Out]) queued() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.waiting)
}
