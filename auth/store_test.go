package auth_test

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/lestrrat-go/jwx/v3/jwa"
	"go.uber.org/goleak"

	"holdfast/auth"
	"holdfast/internal/testkit/pgtest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func setup(t *testing.T) (*auth.Store, *pgxpool.Pool) {
	t.Helper()
	pool := pgtest.New(t)
	exec(t, pool, "INSERT INTO account (id, currency) VALUES ('acct-1', 'USD')")
	return auth.New(auth.Config{Pool: pool, OperatorKey: "the-environments-key"}), pool
}

func exec(t *testing.T, pool *pgxpool.Pool, sql string, args ...any) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), sql, args...); err != nil {
		t.Fatal(err)
	}
}

func create(t *testing.T, s *auth.Store, p auth.CreateParams) (auth.Key, string) {
	t.Helper()
	key, secret, err := s.Create(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	return key, secret
}

func client() auth.CreateParams {
	return auth.CreateParams{Scope: auth.ScopeClient, AccountID: "acct-1"}
}

func operator() auth.CreateParams { return auth.CreateParams{Scope: auth.ScopeOperator} }

func wantUnauthorized(t *testing.T, who string, err error) {
	t.Helper()
	if !errors.Is(err, auth.ErrUnauthorized) {
		t.Errorf("%s: %v, want ErrUnauthorized", who, err)
	}
}

func TestKeyIsKnownByItsSecretAlone(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	key, secret := create(t, s, client())
	if !strings.HasPrefix(secret, "hf_client_") || len(secret) < 60 || !strings.HasPrefix(secret, key.Prefix) || len(key.Prefix) > 20 {
		t.Errorf("secret %q, prefix %q", secret, key.Prefix)
	}
	p, err := s.Authenticate(t.Context(), secret)
	if err != nil || p.KeyID != key.ID || p.Scope != auth.ScopeClient || p.AccountID != "acct-1" {
		t.Fatalf("principal %+v, %v", p, err)
	}
	for _, wrong := range []string{"", key.ID, key.Prefix, secret + "x", secret[:len(secret)-1], strings.ToUpper(secret)} {
		_, err := s.Authenticate(t.Context(), wrong)
		wantUnauthorized(t, wrong, err)
	}
	var kept int
	row := pool.QueryRow(t.Context(), "SELECT count(*) FROM api_key k WHERE k::text LIKE '%' || $1 || '%'", secret[len("hf_client_"):])
	if err := row.Scan(&kept); err != nil || kept != 0 {
		t.Errorf("the secret is kept: %d, %v", kept, err)
	}
}

func TestCreateRefuses(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	for name, c := range map[string]struct {
		params auth.CreateParams
		want   error
	}{
		"ClientWithoutAccount": {auth.CreateParams{Scope: auth.ScopeClient}, auth.ErrScope},
		"OperatorWithAccount":  {auth.CreateParams{Scope: auth.ScopeOperator, AccountID: "acct-1"}, auth.ErrScope},
		"NoScope":              {auth.CreateParams{Scope: "root"}, auth.ErrScope},
		"NoSuchAccount":        {auth.CreateParams{Scope: auth.ScopeClient, AccountID: "none"}, auth.ErrAccountNotFound},
	} {
		if _, _, err := s.Create(t.Context(), c.params); !errors.Is(err, c.want) {
			t.Errorf("%s: %v, want %v", name, err, c.want)
		}
	}
}

func TestEnvironmentKey(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	p, err := s.Authenticate(t.Context(), "the-environments-key")
	if err != nil || p.KeyID != auth.EnvironmentKeyID || !p.Operator() || p.Actor() != "operator:env" {
		t.Fatalf("principal %+v, %v", p, err)
	}
	without := auth.New(auth.Config{Pool: pool})
	_, err = without.Authenticate(t.Context(), "the-environments-key")
	wantUnauthorized(t, "without it", err)
	_, err = without.Authenticate(t.Context(), "")
	wantUnauthorized(t, "nothing", err)
}

// TestRevokedKeyIsDeadEverywhereWithinSeconds uses a second store for a second process.
func TestRevokedKeyIsDeadEverywhereWithinSeconds(t *testing.T) {
	t.Parallel()
	t.Run("WithUpkeep", func(t *testing.T) {
		t.Parallel()
		s, pool := setup(t)
		elsewhere := auth.New(auth.Config{Pool: pool})
		ctx, stop := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- elsewhere.Run(ctx) }()
		revokedElsewhere(t, s, elsewhere)
		stop()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Run("WithoutUpkeep", func(t *testing.T) {
		t.Parallel()
		s, pool := setup(t)
		revokedElsewhere(t, s, auth.New(auth.Config{Pool: pool}))
	})
}

func revokedElsewhere(t *testing.T, s, elsewhere *auth.Store) {
	t.Helper()
	key, secret := create(t, s, operator())
	session, _, err := elsewhere.Login(t.Context(), secret, "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	p, err := elsewhere.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := elsewhere.Session(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	if alive, err := elsewhere.Active(t.Context(), p); err != nil || !alive {
		t.Fatalf("alive %v, %v", alive, err)
	}
	ticket, _, err := elsewhere.IssueTicket(t.Context(), p)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Revoke(t.Context(), key.ID); err != nil {
		t.Fatal(err)
	}
	_, err = s.Authenticate(t.Context(), secret)
	wantUnauthorized(t, "here, at once", err)
	deadline := time.Now().Add(5 * time.Second)
	dead := func() bool {
		_, byKey := elsewhere.Authenticate(t.Context(), secret)
		_, bySession := elsewhere.Session(t.Context(), session)
		alive, _ := elsewhere.Active(t.Context(), p)
		return errors.Is(byKey, auth.ErrUnauthorized) && errors.Is(bySession, auth.ErrUnauthorized) && !alive
	}
	for !dead() {
		if time.Now().After(deadline) {
			t.Fatal("alive after five seconds")
		}
		<-time.After(20 * time.Millisecond)
	}
	_, err = elsewhere.RedeemTicket(t.Context(), ticket)
	wantUnauthorized(t, "its ticket", err)
}

func TestRevokeIsRememberedOnce(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	key, _ := create(t, s, client())
	first, err := s.Revoke(t.Context(), key.ID)
	if err != nil || first.RevokedAt == nil {
		t.Fatalf("revoke: %+v, %v", first, err)
	}
	second, err := s.Revoke(t.Context(), key.ID)
	if err != nil || !second.RevokedAt.Equal(*first.RevokedAt) {
		t.Errorf("again: %v, want %v (%v)", second.RevokedAt, first.RevokedAt, err)
	}
	if _, err := s.Revoke(t.Context(), "none"); !errors.Is(err, auth.ErrKeyNotFound) {
		t.Errorf("unknown: %v", err)
	}
	list, err := s.List(t.Context())
	if err != nil || len(list) != 1 || list[0].RevokedAt == nil {
		t.Errorf("list %+v, %v", list, err)
	}
}

func TestExpiredKeyIsUnknown(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	params := client()
	params.Lifetime = time.Hour
	key, secret := create(t, s, params)
	if key.ExpiresAt == nil {
		t.Fatal("no expiry")
	}
	exec(t, pool, "UPDATE api_key SET expires_at = now()")
	_, err := s.Authenticate(t.Context(), secret)
	wantUnauthorized(t, "expired", err)
	if alive, _ := s.Active(t.Context(), auth.Principal{KeyID: key.ID}); alive {
		t.Error("an expired key is alive")
	}
	if alive, _ := s.Active(t.Context(), auth.Principal{KeyID: "jwt:x", ExpiresAt: time.Now()}); alive {
		t.Error("an expired token is alive")
	}
}

func TestLivingAmongMany(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	good, _ := create(t, s, client())
	revoked, _ := create(t, s, client())
	expired, _ := create(t, s, operator())
	if _, err := s.Revoke(t.Context(), revoked.ID); err != nil {
		t.Fatal(err)
	}
	exec(t, pool, "UPDATE api_key SET expires_at = now() WHERE id = $1", expired.ID)
	want := map[auth.Principal]bool{
		{KeyID: good.ID}: true,
		{KeyID: good.ID, ExpiresAt: time.Now().Add(time.Hour)}: true,
		{KeyID: good.ID, ExpiresAt: time.Now()}:                false,
		{KeyID: revoked.ID}:                                    false,
		{KeyID: expired.ID}:                                    false,
		{KeyID: "none"}:                                        false,
		{}:                                                     false,
		{KeyID: "jwt:x", ExpiresAt: time.Now().Add(time.Hour)}: true,
		{KeyID: "jwt:x", ExpiresAt: time.Now()}:                false,
		{KeyID: auth.EnvironmentKeyID}:                         true,
	}
	got, err := s.ActivePrincipals(t.Context(), slices.Collect(maps.Keys(want)))
	if err != nil || !maps.Equal(got, want) {
		t.Errorf("living: %v, want %v (%v)", got, want, err)
	}
	if got, err := s.ActivePrincipals(t.Context(), nil); err != nil || len(got) != 0 {
		t.Errorf("of none: %v, %v", got, err)
	}
}

func TestEnsureKey(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	secret := auth.NewSecret(auth.ScopeClient)
	first, err := s.EnsureKey(t.Context(), secret, auth.ScopeClient, "acct-1")
	if err != nil {
		t.Fatal(err)
	}
	again, err := s.EnsureKey(t.Context(), secret, auth.ScopeClient, "acct-1")
	if err != nil || again.ID != first.ID {
		t.Errorf("again %+v, %v", again, err)
	}
	if p, err := s.Authenticate(t.Context(), secret); err != nil || p.KeyID != first.ID {
		t.Errorf("principal %+v, %v", p, err)
	}
	if _, err := s.Revoke(t.Context(), first.ID); err != nil {
		t.Fatal(err)
	}
	if after, err := s.EnsureKey(t.Context(), secret, auth.ScopeClient, "acct-1"); err != nil || after.RevokedAt == nil {
		t.Errorf("a revoked key came back: %+v, %v", after, err)
	}
	if _, err := s.EnsureKey(t.Context(), "short", auth.ScopeOperator, ""); !errors.Is(err, auth.ErrWeakSecret) {
		t.Errorf("short: %v", err)
	}
}

func TestTicketIsForOneUseWithinAMinute(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	_, secret := create(t, s, client())
	p, err := s.Authenticate(t.Context(), secret)
	if err != nil {
		t.Fatal(err)
	}
	issue := func() string {
		t.Helper()
		ticket, expiresAt, err := s.IssueTicket(t.Context(), p)
		if err != nil || time.Until(expiresAt) > time.Minute {
			t.Fatalf("expires %v, %v", expiresAt, err)
		}
		return ticket
	}
	ticket := issue()
	results := make(chan error)
	for range 8 {
		go func() {
			got, err := s.RedeemTicket(t.Context(), ticket)
			if err == nil && (got.AccountID != "acct-1" || got.KeyID != p.KeyID) {
				err = errors.New("another's")
			}
			results <- err
		}()
	}
	used := 0
	for range 8 {
		if err := <-results; err == nil {
			used++
		} else {
			wantUnauthorized(t, "again", err)
		}
	}
	if used != 1 {
		t.Errorf("used %d times", used)
	}
	late := issue()
	exec(t, pool, "UPDATE stream_ticket SET expires_at = now()")
	_, err = s.RedeemTicket(t.Context(), late)
	wantUnauthorized(t, "late", err)
}

func TestSessions(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	_, clientSecret := create(t, s, client())
	for _, wrong := range []string{"", "nothing", clientSecret} {
		_, _, err := s.Login(t.Context(), wrong, "192.0.2.1")
		wantUnauthorized(t, "login with "+wrong, err)
	}
	session, _, err := s.Login(t.Context(), "the-environments-key", "192.0.2.1")
	if err != nil {
		t.Fatal(err)
	}
	if p, err := s.Session(t.Context(), session); err != nil || !p.Operator() {
		t.Fatalf("session %+v, %v", p, err)
	}
	changed := auth.New(auth.Config{Pool: pool, OperatorKey: "another-environments-key"})
	_, err = changed.Session(t.Context(), session)
	wantUnauthorized(t, "after the environment's key changed", err)
	if err := s.Logout(t.Context(), session); err != nil {
		t.Fatal(err)
	}
	_, err = s.Session(t.Context(), session)
	wantUnauthorized(t, "after logout", err)
}

func TestDatabaseAwayBlamesNoKey(t *testing.T) {
	t.Parallel()
	s, pool := setup(t)
	_, secret := create(t, s, client())
	pool.Close()
	_, err := s.Authenticate(t.Context(), secret)
	if err == nil || errors.Is(err, auth.ErrUnauthorized) {
		t.Errorf("Authenticate = %v, want an error that does not blame the key", err)
	}
}

func TestRunKeepsLastUseAndClearsAway(t *testing.T) {
	t.Parallel()
	s, _ := setup(t)
	_, secret := create(t, s, client())
	if _, err := s.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	stopped, stop := context.WithCancel(t.Context())
	stop()
	if err := s.Run(stopped); err != nil {
		t.Fatal(err)
	}
	list, err := s.List(t.Context())
	if err != nil || list[0].LastUsedAt == nil {
		t.Errorf("list %+v, %v", list, err)
	}
}

// TestTokensStandInForClientKeys: a token goes to the provider's checker, a key never.
func TestTokensStandInForClientKeys(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	s := auth.New(auth.Config{Pool: pgtest.New(t), OperatorKey: "an.operator.key.with.dots", Tokens: p.checker})
	got, err := s.Authenticate(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa))
	if err != nil || got.AccountID != "acct-1" || got.Operator() {
		t.Fatalf("principal %+v, %v", got, err)
	}
	if alive, err := s.Active(t.Context(), got); err != nil || !alive {
		t.Errorf("alive %v, %v", alive, err)
	}
	ticket, _, err := s.IssueTicket(t.Context(), got)
	if err != nil {
		t.Fatal(err)
	}
	if by, err := s.RedeemTicket(t.Context(), ticket); err != nil || by.KeyID != got.KeyID || by.ExpiresAt.IsZero() {
		t.Errorf("ticket's %+v, %v", by, err)
	}
	_, err = s.Authenticate(t.Context(), "a.b.c")
	wantUnauthorized(t, "no token", err)
	_, _, err = s.Login(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa), "192.0.2.1")
	wantUnauthorized(t, "login with a token", err)
	if by, err := s.Authenticate(t.Context(), "an.operator.key.with.dots"); err != nil || !by.Operator() {
		t.Errorf("environment's key with dots: %+v, %v", by, err)
	}
	_, err = auth.New(auth.Config{Pool: pgtest.New(t)}).Authenticate(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa))
	wantUnauthorized(t, "a token where there is no provider", err)
}
