package auth_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/auth"
)

// run keeps the store's cache valid until the test ends.
func run(t *testing.T, s *auth.Store) {
	t.Helper()
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- s.Run(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// However a key stops being active, and whenever that was committed, it stops working
// within five seconds, also while it is in constant use.
func TestAKeyInUseStopsWorkingHoweverItEnded(t *testing.T) {
	t.Parallel()
	for name, end := range map[string]func(t *testing.T, s *auth.Store, pool *pgxpool.Pool, id string){
		"RevokeWaits":      revokeWaits,
		"RevokedLongAgo":   ends("UPDATE api_key SET revoked_at = now() - interval '1 hour' WHERE id = $1"),
		"Deleted":          ends("DELETE FROM api_key WHERE id = $1"),
		"ExpiryShortened":  ends("UPDATE api_key SET expires_at = now() - interval '1 hour' WHERE id = $1"),
		"OfAnotherAccount": ends("UPDATE api_key SET scope = 'client', account_id = 'acct-1' WHERE id = $1"),
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s, pool := setup(t)
			elsewhere := auth.New(auth.Config{Pool: pool})
			run(t, elsewhere)
			key, secret := create(t, s, operator())
			if _, err := elsewhere.Authenticate(t.Context(), secret); err != nil {
				t.Fatal(err)
			}
			end(t, s, pool, key.ID)
			works := func() bool {
				p, err := elsewhere.Authenticate(t.Context(), secret)
				return err == nil && p.Operator()
			}
			for deadline := time.Now().Add(5 * time.Second); works(); {
				if time.Now().After(deadline) {
					t.Fatal("it works after five seconds")
				}
				<-time.After(20 * time.Millisecond)
			}
		})
	}
}

func ends(sql string) func(*testing.T, *auth.Store, *pgxpool.Pool, string) {
	return func(t *testing.T, _ *auth.Store, pool *pgxpool.Pool, id string) {
		t.Helper()
		exec(t, pool, sql, id)
	}
}

// revokeWaits lets the revocation wait for a row lock: its time is from before it commits.
func revokeWaits(t *testing.T, s *auth.Store, pool *pgxpool.Pool, id string) {
	t.Helper()
	tx, err := pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "SELECT 1 FROM api_key WHERE id = $1 FOR UPDATE", id); err != nil {
		t.Fatal(err)
	}
	revoked := make(chan error, 1)
	go func() {
		_, err := s.Revoke(t.Context(), id)
		revoked <- err
	}()
	for waiting := 0; waiting == 0; {
		err := pool.QueryRow(t.Context(), "SELECT count(*) FROM pg_stat_activity WHERE wait_event_type = 'Lock' AND query LIKE '%RevokeKey%'").Scan(&waiting)
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := <-revoked; err != nil {
		t.Fatal(err)
	}
}

func TestTicketsOfAReplacedEnvironmentKeyAreRefused(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	p, err := s.Authenticate(t.Context(), "the-environments-key")
	if err != nil {
		t.Fatal(err)
	}
	ticket, _, err := s.IssueTicket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	_, err = auth.New(auth.Config{Pool: pool, OperatorKey: "another-environments-key"}).RedeemTicket(t.Context(), ticket)
	wantUnauthorized(t, "after the key was replaced", err)
}

func TestAShortOperatorKeyIsNotAccepted(t *testing.T) {
	t.Parallel()
	_, pool := setup(t)
	short := "nineteen-characters"
	_, err := auth.New(auth.Config{Pool: pool, OperatorKey: short}).Authenticate(t.Context(), short)
	wantUnauthorized(t, "a short key", err)
}

// After ten failed logins from one address the next must wait, also with the right key;
// other addresses, and the API, need not.
func TestLoginsAreLimited(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	const right = "the-environments-key"
	for i := range 10 {
		_, _, err := s.Login(t.Context(), "wrong", fmt.Sprintf("2001:db8::%d", i)) // one network
		wantUnauthorized(t, "wrong", err)
	}
	_, _, err := s.Login(t.Context(), right, "2001:db8::99")
	var tooMany *auth.TooManyAttemptsError
	if !errors.As(err, &tooMany) || tooMany.RetryAfter <= 0 || tooMany.RetryAfter > 6*time.Second {
		t.Errorf("the eleventh: %v", err)
	}
	if _, _, err := s.Login(t.Context(), right, "192.0.2.1"); err != nil {
		t.Errorf("from elsewhere: %v", err)
	}
	if _, err := s.Authenticate(t.Context(), right); err != nil {
		t.Errorf("the API: %v", err)
	}
}
