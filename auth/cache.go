package auth

import (
	"context"
	"sync"
	"time"

	"golang.org/x/sync/singleflight"
)

// cacheFor is the maximum age of every cached entry, counted from the start of the last
// query that found its key active. Revocation must take effect everywhere within five
// seconds: this, and as much again for a stream that asks in turn.
const cacheFor = 2 * time.Second

// cacheMax bounds the memory of one cache, at some 300 bytes an entry.
const cacheMax = 20_000

// idleFor is how long an entry that nobody asks for is revalidated.
const idleFor = time.Minute

// loadTimeout bounds the query behind a miss; it is shared by all who wait for it, so
// it must not end with the first one's request.
const loadTimeout = 5 * time.Second

// cache remembers briefly who is known, never who is not: a key works from the moment it
// is created.
type cache[V any] struct {
	mu      sync.Mutex
	entries map[string]*cached[V]
	flight  singleflight.Group
	now     func() time.Time
}

type cached[V any] struct {
	value V
	// asked is when the query began that last found the key active.
	asked time.Time
	used  time.Time
}

func newCache[V any]() *cache[V] {
	return &cache[V]{entries: map[string]*cached[V]{}, now: time.Now}
}

// get returns what load returns, or what a query within [cacheFor] did. The age counts from
// the start of the query, so that a slow one makes no old result look recent.
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
	e.used = c.now()
	return e.value, true
}

func (c *cache[V]) stale(e *cached[V]) bool { return c.now().Sub(e.asked) > cacheFor }

func (c *cache[V]) keep(key string, value V, asked time.Time) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.entries) >= cacheMax {
		c.evict()
	}
	c.entries[key] = &cached[V]{value, asked, c.now()}
}

// revalidate asks for all entries in use at once, so that each request need not ask for
// its own. load returns those that are active, as they are now; the others leave the cache.
func (c *cache[V]) revalidate(ctx context.Context, load func(ctx context.Context, keys []string) (map[string]V, error)) error {
	began := c.now()
	keys := c.inUse()
	if len(keys) == 0 {
		return nil
	}
	active, err := load(ctx, keys)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, key := range keys {
		c.update(key, active, began)
	}
	return nil
}

// update leaves alone what was dropped, or loaded by a later query, in the meantime.
func (c *cache[V]) update(key string, active map[string]V, began time.Time) {
	e, ok := c.entries[key]
	if !ok || e.asked.After(began) {
		return
	}
	value, ok := active[key]
	if !ok {
		delete(c.entries, key)
		return
	}
	e.value, e.asked = value, began
}

// inUse returns the keys asked for lately, and forgets the others.
func (c *cache[V]) inUse() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	keys := make([]string, 0, len(c.entries))
	for key, e := range c.entries {
		if c.now().Sub(e.used) > idleFor {
			delete(c.entries, key)
			continue
		}
		keys = append(keys, key)
	}
	return keys
}

// evict drops what is stale, or everything if nothing is.
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
