package purchase

import (
	"context"
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
	b := newBatcher(time.Minute, func(_ context.Context, in []int) []int {
		if statements.Add(1) == 1 {
			<-all // so that the others have company
		}
		most.Store(max(most.Load(), int64(len(in))))
		out := make([]int, len(in))
		for i, n := range in {
			out[i] = -n
		}
		return out
	})
	var wg sync.WaitGroup
	for n := range callers {
		wg.Go(func() {
			if arrived.Add(1) == callers {
				close(all)
			}
			if got := b.do(n); got != -n {
				t.Errorf("caller %d got %d", n, got)
			}
		})
	}
	wg.Wait()
	if most.Load() > maxBatch {
		t.Errorf("a batch had %d, at most %d may", most.Load(), maxBatch)
	}
	if got := b.do(7); got != -7 {
		t.Errorf("a lone caller got %d", got)
	}
}
