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
	// disk the next is made. More of them are smaller, and cost more per purchase.
	maxStatements = 2
)

// batcher lets callers that arrive while statements are in progress share the next one: one
// commit, one wait for the disk, one lock of an account they have in common. Nobody waits
// for others to arrive: a lone caller's batch of one starts at once. What a batch fails
// with may be another member's fault, so its members run again, each alone.
type batcher[In, Out any] struct {
	// run makes one statement of many; it returns one result for each In.
	run func(ctx context.Context, in []In) []result[Out]
	// alone reports whether a member of a failed batch may run again.
	alone func(error) bool
	// timeout bounds each statement, width how many are in progress at once.
	timeout time.Duration
	width   int

	mu      sync.Mutex
	waiting []*seat[In, Out]
	running int
}

// result is what a statement did for one member of its batch.
type result[Out any] struct {
	out Out
	err error
}

// seat is one caller's place in a batch.
type seat[In, Out any] struct {
	in     In
	out    result[Out]
	shared bool
	done   chan struct{}
}

func newBatcher[In, Out any](
	timeout time.Duration, width int, alone func(error) bool, run func(context.Context, []In) []result[Out],
) *batcher[In, Out] {
	return &batcher[In, Out]{run: run, alone: alone, timeout: timeout, width: width}
}

// do returns what came of in, when its batch has ended. The timeout bounds each statement.
func (b *batcher[In, Out]) do(in In) (Out, error) {
	own := &seat[In, Out]{in: in, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, own)
	if b.running < b.width {
		b.running++
		go b.work()
	}
	b.mu.Unlock()
	<-own.done
	if own.shared && own.out.err != nil && b.alone(own.out.err) {
		own.out = b.statement([]In{in})[0]
	}
	return own.out.out, own.out.err
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
	in := make([]In, len(batch))
	for i, s := range batch {
		in[i] = s.in
	}
	for i, out := range b.statement(in) {
		batch[i].out, batch[i].shared = out, len(batch) > 1
		close(batch[i].done)
	}
}

func (b *batcher[In, Out]) statement(in []In) []result[Out] {
	ctx, cancel := context.WithTimeout(context.Background(), b.timeout)
	defer cancel()
	return b.run(ctx, in)
}
