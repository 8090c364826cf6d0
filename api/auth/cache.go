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

// cacheMax bounds the memory of one cache.
const cacheMax = 10_000

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
}

type cached[V any] struct {
	value V
	asked time.Time
}

func newCache[V any]() *cache[V] {
	return &cache[V]{entries: map[string]cached[V]{}, now: time.Now}
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
			c.keep(key, cached[V]{value, asked})
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
	if !ok || c.now().Sub(e.asked) > cacheFor {
		var none V
		return none, false
	}
	return e.value, true
}

func (c *cache[V]) keep(key string, e cached[V]) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= cacheMax {
		c.evict()
	}
	c.entries[key] = e
}

// evict drops what is stale, or everything where nothing is.
func (c *cache[V]) evict() {
	for key, e := range c.entries {
		if c.now().Sub(e.asked) > cacheFor {
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
