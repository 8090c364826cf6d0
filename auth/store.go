package auth

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/auth/db"
)

// Tokens checks tokens of an identity provider; [JWT] is one.
type Tokens interface {
	// Verify returns [ErrUnauthorized] for a token that is not good, and another
	// error where the provider's keys could not be had.
	Verify(ctx context.Context, token string) (Principal, error)
}

// Config of a [Store].
type Config struct {
	Pool *pgxpool.Pool
	// OperatorKey is the environment's operator key, empty for none. One that is shorter
	// than [MinSecretLength] is not accepted.
	OperatorKey string
	// Tokens is nil where no identity provider is used.
	Tokens Tokens
	Log    *slog.Logger
}

// Store knows keys, tickets and sessions. It is safe for concurrent use.
type Store struct {
	queries     *db.Queries
	tokens      Tokens
	environment *digest
	log         *slog.Logger

	// lookups bounds the queries about credentials that are not known: no flood of invalid
	// ones may take the connections that purchases need.
	lookups chan struct{}
	logins  *attempts

	byHash   *cache[Principal]
	byID     *cache[Principal]
	sessions *cache[Principal]

	mu   sync.Mutex
	used map[string]struct{}
}

// New returns a store. [Store.Run] keeps its table of last uses and clears away what
// has expired; without it the store works all the same.
func New(c Config) *Store {
	s := &Store{
		queries: db.New(c.Pool), tokens: c.Tokens, log: c.Log,
		lookups: make(chan struct{}, maxLookups), logins: newAttempts(),
		byHash: newCache[Principal](), byID: newCache[Principal](), sessions: newCache[Principal](),
		used: map[string]struct{}{},
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	switch {
	case len(c.OperatorKey) >= MinSecretLength:
		d := digestOf(c.OperatorKey)
		s.environment = &d
	case c.OperatorKey != "":
		s.log.Error("the environment's operator key is too short and is not accepted", "min_length", MinSecretLength)
	}
	return s
}

// Authenticate tells who presents a secret: an API key or a provider's token.
func (s *Store) Authenticate(ctx context.Context, secret string) (Principal, error) {
	if secret == "" {
		return Principal{}, ErrUnauthorized
	}
	hash := digestOf(secret)
	if s.isEnvironment(hash) {
		return environmentPrincipal(), nil
	}
	if s.tokens != nil && strings.Count(secret, ".") == 2 {
		return s.tokens.Verify(ctx, secret)
	}
	p, err := s.byHash.get(ctx, string(hash[:]), func(ctx context.Context) (Principal, error) {
		return s.loadByHash(ctx, hash)
	})
	if err != nil {
		return Principal{}, err
	}
	if p.ended() {
		return Principal{}, ErrUnauthorized
	}
	s.touch(p.KeyID)
	return p, nil
}

func (s *Store) isEnvironment(hash digest) bool {
	return s.environment != nil && subtle.ConstantTimeCompare(s.environment[:], hash[:]) == 1
}

func environmentPrincipal() Principal {
	return Principal{KeyID: EnvironmentKeyID, Scope: ScopeOperator}
}

// loadByHash finds the row by an index on the hash, whose timing tells an attacker
// nothing: he cannot choose the hash. The comparison repeats it in constant time.
func (s *Store) loadByHash(ctx context.Context, hash digest) (Principal, error) {
	done, err := s.lookUp(ctx)
	if err != nil {
		return Principal{}, err
	}
	defer done()
	row, err := s.queries.ActiveKeyByHash(ctx, hash[:])
	if err != nil {
		return Principal{}, readError("read api key", err)
	}
	if subtle.ConstantTimeCompare(row.Hash, hash[:]) != 1 {
		return Principal{}, ErrUnauthorized
	}
	return principalOf(row), nil
}

// Active reports whether p's credential is still good. The answer is as old as two seconds at
// most.
func (s *Store) Active(ctx context.Context, p Principal) (bool, error) {
	if good, known := s.activeLocally(p); known {
		return good, nil
	}
	_, err := s.byID.get(ctx, p.KeyID, func(ctx context.Context) (Principal, error) {
		row, err := s.queries.ActiveKeyByID(ctx, p.KeyID)
		if err != nil {
			return Principal{}, readError("read api key", err)
		}
		return principalOf(row), nil
	})
	if errors.Is(err, ErrUnauthorized) {
		return false, nil
	}
	return err == nil, err
}

// aliveByItself answers where that takes no question to the database.
func (s *Store) activeLocally(p Principal) (good, known bool) {
	switch {
	case p.KeyID == "", p.ended():
		return false, true
	case p.KeyID == EnvironmentKeyID:
		return s.environment != nil, true
	}
	return true, strings.HasPrefix(p.KeyID, tokenPrefix)
}

// ActivePrincipals returns which credentials are still good, by one question for all of them: the
// streams of a process may have ten thousand keys, and ask every other second.
func (s *Store) ActivePrincipals(ctx context.Context, all []Principal) (map[Principal]bool, error) {
	living := make(map[Principal]bool, len(all))
	var ask []string
	for _, p := range all {
		good, known := s.activeLocally(p)
		if living[p] = good; !known {
			ask = append(ask, p.KeyID)
		}
	}
	if len(ask) == 0 {
		return living, nil
	}
	ids, err := s.queries.ActiveKeysAmong(ctx, ask)
	if err != nil {
		return nil, fmt.Errorf("read live api keys: %w", err)
	}
	found := make(map[string]bool, len(ids))
	for _, id := range ids {
		found[id] = true
	}
	for p := range living {
		if _, known := s.activeLocally(p); !known {
			living[p] = found[p.KeyID]
		}
	}
	return living, nil
}

func principalOf(row db.ApiKey) Principal {
	p := Principal{KeyID: row.ID, Scope: row.Scope}
	if row.AccountID != nil {
		p.AccountID = *row.AccountID
	}
	if row.ExpiresAt != nil {
		p.ExpiresAt = *row.ExpiresAt
	}
	return p
}

func readError(doing string, err error) error {
	if errors.Is(err, pgx.ErrNoRows) {
		return ErrUnauthorized
	}
	return fmt.Errorf("%s: %w", doing, err)
}
