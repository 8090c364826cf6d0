package auth

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"time"
)

// The rhythm of the store's own upkeep, and the bound of what waits for it.
const (
	revalidateEvery = time.Second
	touchEvery      = 15 * time.Second
	clearEvery      = 10 * time.Minute
	usedMax         = 10_000
)

// Run asks which of the keys in use are active, so that they need not be asked for one by
// one; it records when keys were last used and deletes what has expired, until ctx ends.
// No request waits for it.
func (s *Store) Run(ctx context.Context) error {
	revalidate, touch, expire := time.NewTicker(revalidateEvery), time.NewTicker(touchEvery), time.NewTicker(clearEvery)
	defer revalidate.Stop()
	defer touch.Stop()
	defer expire.Stop()
	for {
		var err error
		select {
		case <-ctx.Done():
			return s.flush(context.WithoutCancel(ctx))
		case <-revalidate.C:
			err = s.byHash.revalidate(ctx, s.activeByHash)
		case <-touch.C:
			err = s.flush(ctx)
		case <-expire.C:
			err = s.clearExpired(ctx)
		}
		if err != nil && ctx.Err() == nil {
			s.log.WarnContext(ctx, "auth upkeep failed", "error", err)
		}
	}
}

func (s *Store) activeByHash(ctx context.Context, hashes []string) (map[string]Principal, error) {
	ctx, cancel := context.WithTimeout(ctx, cacheFor)
	defer cancel()
	asked := make([][]byte, len(hashes))
	for i, hash := range hashes {
		asked[i] = []byte(hash)
	}
	rows, err := s.queries.ActiveKeysByHash(ctx, asked)
	if err != nil {
		return nil, fmt.Errorf("read active keys: %w", err)
	}
	active := make(map[string]Principal, len(rows))
	for _, row := range rows {
		active[string(row.Hash)] = principalOf(row)
	}
	return active, nil
}

func (s *Store) touch(keyID string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.used) < usedMax {
		s.used[keyID] = struct{}{}
	}
}

func (s *Store) flush(ctx context.Context) error {
	s.mu.Lock()
	used := s.used
	s.used = map[string]struct{}{}
	s.mu.Unlock()
	if len(used) == 0 {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := s.queries.TouchKeys(ctx, slices.Collect(maps.Keys(used))); err != nil {
		return fmt.Errorf("touch keys: %w", err)
	}
	return nil
}

func (s *Store) clearExpired(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, loadTimeout)
	defer cancel()
	if err := s.queries.DeleteExpiredTickets(ctx); err != nil {
		return fmt.Errorf("clear tickets: %w", err)
	}
	if err := s.queries.DeleteExpiredSessions(ctx); err != nil {
		return fmt.Errorf("clear sessions: %w", err)
	}
	return nil
}
