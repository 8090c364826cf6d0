package outbox_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
)

// stragglers are purchases one change of which is committed long after others that began
// later, and when that was.
type stragglers struct {
	mu        sync.Mutex
	committed map[uuid.UUID]time.Time
}

// write makes the changes of one purchase; one of them, at random, stays open for longer
// than the mark lags.
func (s *stragglers) write(t *testing.T, pool *pgxpool.Pool, poke func()) {
	t.Helper()
	id, last := uuid.New(), 4
	late := 2 + rand.IntN(last-1)
	for version := 2; version <= last; version++ {
		open := rand.N(10 * time.Millisecond)
		if version == late {
			open = 2500*time.Millisecond + rand.N(time.Second)
		}
		err := pgx.BeginFunc(t.Context(), pool, func(tx pgx.Tx) error {
			if err := change(t.Context(), tx, id, "acct", version); err != nil {
				return err
			}
			sleepOr(t.Context(), open)
			return nil
		})
		if err != nil {
			t.Error(err)
			return
		}
		if version == late {
			s.mu.Lock()
			s.committed[id] = time.Now()
			s.mu.Unlock()
		}
		poke()
	}
}

// Many transactions are open for longer than the mark lags, among plenty that are not, and
// three relays share the work. Each event is there within a second of its commit, and no
// purchase's versions are out of order.
func TestManyStragglers(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	relays := [3]*outbox.Relay{}
	for i := range relays {
		relays[i] = outbox.NewRelay(outbox.RelayConfig{Pool: pool})
		start(t, relays[i].Run)
	}
	poke := func() { relays[rand.IntN(len(relays))].Wake() }
	busy := pgtest.Pool(t, pool.Config().ConnString())
	ctx, cancel := context.WithCancel(t.Context())
	var plain, late sync.WaitGroup
	plain.Go(func() {
		for ctx.Err() == nil {
			insist(ctx, busy, poke)
			sleepOr(ctx, 4*time.Millisecond)
		}
	})
	s := &stragglers{committed: map[uuid.UUID]time.Time{}}
	for range 10 {
		late.Go(func() {
			s.write(t, busy, poke)
			s.write(t, busy, poke)
		})
	}
	late.Wait()
	cancel()
	plain.Wait()
	eventually(t, "the outbox is empty", func() bool { return outboxIsEmpty(t, pool) })
	checkLog(t, logged(t, pool))
	s.checkLags(t, logged(t, pool))
}

// checkLags: nobody waits for a straggler's event much longer than a look takes to find
// it; the middle one, since a busy machine delays some.
func (s *stragglers) checkLags(t *testing.T, events []outbox.Event) {
	t.Helper()
	first := map[uuid.UUID]time.Time{}
	var lags []time.Duration
	for _, e := range events {
		at, straggler := s.committed[e.TransactionID]
		if _, seen := first[e.TransactionID]; straggler && !seen && e.LoggedAt.After(at.Add(-time.Millisecond)) {
			first[e.TransactionID] = e.LoggedAt
			lags = append(lags, e.LoggedAt.Sub(at))
		}
	}
	slices.Sort(lags)
	middle, most := lags[len(lags)/2], lags[len(lags)-1]
	t.Logf("%d of %d stragglers were found after %v, at most %v", len(lags), len(s.committed), middle, most)
	if middle > time.Second || most > 3*time.Second {
		t.Errorf("stragglers are found after %v, at most %v", middle, most)
	}
}
