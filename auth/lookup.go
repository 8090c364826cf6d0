package auth

import (
	"context"
	"errors"
	"time"
)

const (
	// maxLookups is how many credentials are looked up at once. A lookup takes well under a
	// millisecond, and credentials in use are cached.
	maxLookups = 4
	// lookupWait is how long a lookup waits for its turn.
	lookupWait = 2 * time.Second
)

// ErrBusy says that a credential could not be checked because too many unknown ones are
// being checked; it says nothing about the credential.
var ErrBusy = errors.New("too many credentials are being checked")

// lookUp waits for a turn to query the database about a credential that is not known; the
// caller calls done afterwards. It returns ErrBusy if there is none in time.
func (s *Store) lookUp(ctx context.Context) (done func(), err error) {
	timer := time.NewTimer(lookupWait)
	defer timer.Stop()
	select {
	case s.lookups <- struct{}{}:
		return func() { <-s.lookups }, nil
	case <-timer.C:
		return nil, ErrBusy
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}
