package auth

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/auth/db"
)

var (
	// ErrScope: an unknown scope, a client without an account, another scope with one.
	ErrScope = errors.New("a client key needs an account, other keys have none")
	// ErrAccountNotFound: a key for an account that does not exist.
	ErrAccountNotFound = errors.New("account not found")
	// ErrKeyNotFound: there is no key with this id.
	ErrKeyNotFound = errors.New("key not found")
	// ErrWeakSecret: a given secret that is too short to be one.
	ErrWeakSecret = fmt.Errorf("secret is shorter than %d characters", MinSecretLength)
)

// Key is a key as it may be shown: never its secret.
type Key struct {
	ID         string
	Prefix     string
	Scope      string
	AccountID  string
	CreatedAt  time.Time
	ExpiresAt  *time.Time
	LastUsedAt *time.Time
	RevokedAt  *time.Time
}

// CreateParams of a key.
type CreateParams struct {
	Scope string
	// AccountID is set for a client and empty for other scopes.
	AccountID string
	// Lifetime after which the key ends by itself; zero for never.
	Lifetime time.Duration
}

// Create makes a key and returns its secret, which is stored nowhere: it is seen now
// or never. ErrScope, ErrAccountNotFound.
func (s *Store) Create(ctx context.Context, params CreateParams) (Key, string, error) {
	if !validScope(params.Scope, params.AccountID) {
		return Key{}, "", ErrScope
	}
	secret := NewSecret(params.Scope)
	hash := digestOf(secret)
	row, err := s.queries.InsertKey(ctx, db.InsertKeyParams{
		ID: newKeyID(), Prefix: shown(secret, params.Scope), Hash: hash[:], Scope: params.Scope,
		AccountID: orNil(params.AccountID), Lifetime: seconds(params.Lifetime),
	})
	if err != nil {
		return Key{}, "", writeError("create key", err)
	}
	return keyOf(row), secret, nil
}

// EnsureKey makes sure that a key with a secret known beforehand exists, and returns
// it as it is: one that was revoked stays revoked. ErrScope, ErrAccountNotFound,
// ErrWeakSecret.
func (s *Store) EnsureKey(ctx context.Context, secret, scope, accountID string) (Key, error) {
	if !validScope(scope, accountID) {
		return Key{}, ErrScope
	}
	if len(secret) < MinSecretLength {
		return Key{}, ErrWeakSecret
	}
	hash := digestOf(secret)
	err := s.queries.EnsureKey(ctx, db.EnsureKeyParams{
		ID: newKeyID(), Prefix: shown(secret, scope), Hash: hash[:], Scope: scope, AccountID: orNil(accountID),
	})
	if err != nil {
		return Key{}, writeError("ensure key", err)
	}
	row, err := s.queries.KeyByHash(ctx, hash[:])
	if err != nil {
		return Key{}, fmt.Errorf("read key: %w", err)
	}
	return keyOf(row), nil
}

// maxListed bounds a listing.
const maxListed = 10_000

// List returns the keys, oldest first, revoked ones too.
func (s *Store) List(ctx context.Context) ([]Key, error) {
	rows, err := s.queries.ListKeys(ctx, maxListed)
	if err != nil {
		return nil, fmt.Errorf("list keys: %w", err)
	}
	keys := make([]Key, len(rows))
	for i, row := range rows {
		keys[i] = keyOf(row)
	}
	return keys, nil
}

// Revoke ends a key permanently: here at once, in every other process within five
// seconds. ErrKeyNotFound.
func (s *Store) Revoke(ctx context.Context, id string) (Key, error) {
	row, err := s.queries.RevokeKey(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Key{}, ErrKeyNotFound
	}
	if err != nil {
		return Key{}, fmt.Errorf("revoke key: %w", err)
	}
	s.byHash.drop(string(row.Hash))
	s.byID.drop(row.ID)
	return keyOf(row), nil
}

func validScope(scope, accountID string) bool {
	switch scope {
	case ScopeClient:
		return accountID != ""
	case ScopeOperator, ScopeBroker:
		return accountID == ""
	}
	return false
}

func keyOf(row db.ApiKey) Key {
	p := principalOf(row)
	return Key{
		ID: row.ID, Prefix: row.Prefix, Scope: row.Scope, AccountID: p.AccountID, CreatedAt: row.CreatedAt,
		ExpiresAt: row.ExpiresAt, LastUsedAt: row.LastUsedAt, RevokedAt: row.RevokedAt,
	}
}

func writeError(doing string, err error) error {
	var pg *pgconn.PgError
	if errors.As(err, &pg) && pg.Code == pgerrcode.ForeignKeyViolation {
		return ErrAccountNotFound
	}
	return fmt.Errorf("%s: %w", doing, err)
}

func orNil(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

func seconds(d time.Duration) *float64 {
	if d == 0 {
		return nil
	}
	s := d.Seconds()
	return &s
}
