package purchase

import (
	"context"
	"sync"
	"time"
)

const (
	// maxBatch bounds the purchases that share a statement, and with it how long their
	// accounts stay locked.
	maxBatch = 64
	// maxStatements is how many batches are in progress at once: while one waits for the
	// disk the next is made. More of them are smaller, and dearer by the purchase.
	maxStatements = 2
)

// batcher lets callers that come while statements are in progress share the next one: one
// commit, one wait for the disk, one lock of an account they have in common. Nobody
// lingers for company: a lone caller's batch of one starts at once.
type batcher[In, Out any] struct {
	// run makes one statement of many; it returns one Out for each In.
	run     func(ctx context.Context, in []In) []Out
	timeout time.Duration

	mu      sync.Mutex
	waiting []*seat[In, Out]
	running int
}

// seat is one caller's place in a batch.
type seat[In, Out any] struct {
	in   In
	out  Out
	done chan struct{}
}

func newBatcher[In, Out any](timeout time.Duration, run func(context.Context, []In) []Out) *batcher[In, Out] {
	return &batcher[In, Out]{run: run, timeout: timeout}
}

// do returns what came of in, when its batch has ended; the batch's own timeout bounds it.
func (b *batcher[In, Out]) do(in In) Out {
	own := &seat[In, Out]{in: in, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, own)
	if b.running < maxStatements {
		b.running++
		go b.work()
	}
	b.mu.Unlock()
	<-own.done
	return own.out
}

// work runs batches until nobody waits.
func (b *batcher[In, Out]) work() {
	for {
		batch := b.take()
		if len(batch) == 0 {
			return
		}
		b.serve(batch)
	}
}

func (b *batcher[In, Out]) take() []*seat[In, Out] {
	b.mu.Lock()
	defer b.mu.Unlock()
	n := min(len(b.waiting), maxBatch)
	if n == 0 {
		b.running--
		return nil
	}
	batch := b.waiting[:n:n]
	b.waiting = b.waiting[n:]
	return batch
}

func (b *batcher[In, Out]) serve(batch []*seat[In, Out]) {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	in := make([]In, len(batch))
	for i, s := range batch {
		in[i] = s.in
	}
	for i, out := range b.run(ctx, in) {
		batch[i].out = out
		close(batch[i].done)
	}
}
