package auth

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// cacheFor is how long an answer of the database is believed. Revocation must be felt
// everywhere within five seconds: this, and as much again for a stream that asks in turn.
const cacheFor = 2 * time.Second

// cacheMax bounds the memory of one cache, at some 300 bytes an entry.
const cacheMax = 20_000

// vouchWindow is how far back a vouching looks: over the seconds since the one before, and
// over any transaction that revokes, from its start to its commit.
const revalidateWindow = 2 * time.Minute

// loadTimeout bounds the query behind a miss; it is shared by all who wait for it, so
// it must not end with the first one's request.
const loadTimeout = 5 * time.Second

// cache remembers for a moment who is known, never who is not: a key works from the
// moment it is made.
type cache[V any] struct {
	mu      sync.Mutex
	entries map[string]cached[V]
	flight  singleflight.Group
	now     func() time.Time
	// vouched is when the database was last asked which entries are good no more; at
	// first, when there were none.
	revalidatedAt time.Time
}

type cached[V any] struct {
	value V
	// asked is from before the question, kept from after the answer.
	asked, kept time.Time
}

func newCache[V any]() *cache[V] {
	return &cache[V]{entries: map[string]cached[V]{}, now: time.Now, revalidatedAt: time.Now()}
}

// get returns what load says, or what it said within [cacheFor]. The age counts from
// before the question, so that no slow query makes an old answer young.
func (c *cache[V]) get(ctx context.Context, key string, load func(context.Context) (V, error)) (V, error) {
	if value, ok := c.fresh(key); ok {
		return value, nil
	}
	result := c.flight.DoChan(key, func() (any, error) {
		asked := c.now()
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		value, err := load(ctx)
		if err == nil {
			c.keep(key, value, asked)
		}
		return value, err
	})
	select {
	case <-ctx.Done():
		var none V
		return none, ctx.Err()
	case r := <-result:
		return r.Val.(V), r.Err
	}
}

func (c *cache[V]) fresh(key string) (V, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	e, ok := c.entries[key]
	if !ok || c.stale(e) {
		var none V
		return none, false
	}
	return e.value, true
}

// stale: what stood here when a vouching began is as young as that.
func (c *cache[V]) stale(e cached[V]) bool {
	known := e.asked
	if !e.kept.After(c.revalidatedAt) {
		known = c.revalidatedAt
	}
	return c.now().Sub(known) > cacheFor
}

func (c *cache[V]) keep(key string, value V, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= cacheMax {
		c.evict()
	}
	c.entries[key] = cached[V]{value, asked, c.now()}
}

// vouch makes all entries young again but those that load names. load must name what went
// bad within [vouchWindow]: after a longer silence the cache starts again.
func (c *cache[V]) revalidate(ctx context.Context, load func(context.Context) ([]string, error)) error {
	began := c.now()
	bad, err := load(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if began.Sub(c.revalidatedAt) > revalidateWindow/2 {
		clear(c.entries)
	}
	for _, key := range bad {
		delete(c.entries, key)
	}
	c.revalidatedAt = began
	return nil
}

// evict drops what is stale, or everything where nothing is.
func (c *cache[V]) evict() {
	for key, e := range c.entries {
		if c.stale(e) {
			delete(c.entries, key)
		}
	}
	if len(c.entries) >= cacheMax {
		clear(c.entries)
	}
}

func (c *cache[V]) drop(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.entries, key)
}
