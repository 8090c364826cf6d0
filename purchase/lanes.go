package purchase

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

const (
	// sharedLockTimeout is how long a statement that several accounts share waits for a
	// locked row: longer than a commit, too short for the other accounts to feel it.
	sharedLockTimeout = 50 * time.Millisecond
	// laneLockTimeout is how long one account's own statement waits. Below recordTimeout and
	// settleTimeout, so that the database says what happened before its client gives up.
	laneLockTimeout = 4 * time.Second
	// maxLanes bounds the connections that wait for locked accounts.
	maxLanes = 8
	// laneCooldown is how long an account whose row stayed locked keeps its lane.
	laneCooldown = 10 * time.Second
)

// lanes is a batcher for many accounts: whatever waits for an account whose row is locked
// for longer than a commit does so in a lane of that account's own, with up to maxLanes
// statements waiting at once, and does not delay the other accounts.
type lanes[In, Out any] struct {
	shared  *batcher[In, Out]
	lane    func() *batcher[In, Out]
	account func(In) string

	mu   sync.Mutex
	busy map[string]*lane[In, Out]
}

// lane is one account's batcher and how many callers use it.
type lane[In, Out any] struct {
	*batcher[In, Out]
	users int
}

// statement is what a batch runs; lockTimeout bounds its wait for a locked row.
type statement[In, Out any] func(ctx context.Context, in []In, lockTimeout time.Duration) []result[Out]

func newLanes[In, Out any](
	timeout time.Duration, alone func(error) bool, account func(In) string, run statement[In, Out],
) *lanes[In, Out] {
	slots := make(chan struct{}, maxLanes)
	inSlot := func(ctx context.Context, in []In) []result[Out] {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
			return run(ctx, in, laneLockTimeout)
		case <-ctx.Done():
			return failed[Out](len(in), &notSentError{ctx.Err()})
		}
	}
	shared := func(ctx context.Context, in []In) []result[Out] { return run(ctx, in, sharedLockTimeout) }
	return &lanes[In, Out]{
		shared:  newBatcher(timeout, maxStatements, func(err error) bool { return alone(err) && !lockTimedOut(err) }, shared),
		lane:    func() *batcher[In, Out] { return newBatcher(timeout, 1, alone, inSlot) },
		account: account, busy: map[string]*lane[In, Out]{},
	}
}

// do returns what came of in.
func (l *lanes[In, Out]) do(in In) (Out, error) {
	account := l.account(in)
	own := l.enter(account, false)
	if own == nil {
		out, err := l.shared.do(in)
		if !lockTimedOut(err) {
			return out, err
		}
		own = l.enter(account, true)
	}
	out, err := own.do(in)
	l.leave(account, own, lockTimedOut(err))
	return out, err
}

// enter returns the account's lane. If it has none it makes one, or returns nil.
func (l *lanes[In, Out]) enter(account string, create bool) *lane[In, Out] {
	l.mu.Lock()
	defer l.mu.Unlock()
	own := l.busy[account]
	if own == nil && create {
		own = &lane[In, Out]{batcher: l.lane()}
		l.busy[account] = own
	}
	if own != nil {
		own.users++
	}
	return own
}

// leave closes the lane behind its last user: at once, or, if the row is still locked,
// after a while, so that the next purchase on it does not delay the others either.
func (l *lanes[In, Out]) leave(account string, own *lane[In, Out], locked bool) {
	if locked {
		time.AfterFunc(laneCooldown, func() { l.leave(account, own, false) })
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	own.users--
	if own.users == 0 {
		delete(l.busy, account)
	}
}

// failed is the result of a statement that failed for all its members.
func failed[Out any](n int, err error) []result[Out] {
	results := make([]result[Out], n)
	for i := range results {
		results[i].err = err
	}
	return results
}

// lockTimedOut reports whether a statement gave up waiting for a locked row.
func lockTimedOut(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == pgerrcode.LockNotAvailable
}
