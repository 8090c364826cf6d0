package auth

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/auth/db"
)

// sessionLifetime is a working day: an operator logs in once a shift.
const sessionLifetime = 12 * time.Hour

// Login opens a session for an operator's key and returns the token for the cookie. addr
// is the client's address, without a port. Anything but an operator's key is
// [ErrUnauthorized], a provider's tokens too: they are clients'. After too many failures
// from one address it returns a [*TooManyAttemptsError], whatever the key.
func (s *Store) Login(ctx context.Context, key, addr string) (token string, expiresAt time.Time, err error) {
	if key == "" {
		return "", time.Time{}, ErrUnauthorized // no attempt at a key
	}
	if err := s.logins.check(addr); err != nil {
		return "", time.Time{}, err
	}
	p, err := s.Authenticate(ctx, key)
	if err == nil && !p.Operator() {
		err = ErrUnauthorized
	}
	if errors.Is(err, ErrUnauthorized) {
		s.logins.failed(addr)
	}
	if err != nil {
		return "", time.Time{}, err
	}
	token = sessionPrefix + random()
	hash, keyHash := digestOf(token), digestOf(key)
	expiresAt, err = s.queries.InsertSession(ctx, db.InsertSessionParams{
		Hash: hash[:], KeyID: p.KeyID, KeyHash: keyHash[:], Lifetime: sessionLifetime.Seconds(),
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("open session: %w", err)
	}
	return token, expiresAt, nil
}

// Session returns the operator whose session a cookie's token is. It ends with its key.
func (s *Store) Session(ctx context.Context, token string) (Principal, error) {
	if !formed(token, sessionPrefix) {
		return Principal{}, ErrUnauthorized
	}
	hash := digestOf(token)
	return s.sessions.get(ctx, string(hash[:]), func(ctx context.Context) (Principal, error) {
		return s.loadSession(ctx, hash)
	})
}

func (s *Store) loadSession(ctx context.Context, hash digest) (Principal, error) {
	done, err := s.lookUp(ctx)
	if err != nil {
		return Principal{}, err
	}
	defer done()
	row, err := s.queries.ActiveSession(ctx, hash[:])
	if err != nil {
		return Principal{}, readError("read session", err)
	}
	if row.KeyID != EnvironmentKeyID {
		return s.liveOperator(ctx, row.KeyID)
	}
	if s.environment == nil || !bytes.Equal(s.environment[:], row.KeyHash) {
		return Principal{}, ErrUnauthorized
	}
	return environmentPrincipal(), nil
}

func (s *Store) liveOperator(ctx context.Context, keyID string) (Principal, error) {
	row, err := s.queries.ActiveKeyByID(ctx, keyID)
	if err != nil {
		return Principal{}, readError("read api key", err)
	}
	p := principalOf(row)
	if !p.Operator() {
		return Principal{}, ErrUnauthorized
	}
	return p, nil
}

// Logout ends a session; one that does not exist has ended already.
func (s *Store) Logout(ctx context.Context, token string) error {
	if !formed(token, sessionPrefix) {
		return nil
	}
	done, err := s.lookUp(ctx)
	if err != nil {
		return err
	}
	defer done()
	hash := digestOf(token)
	if err := s.queries.DeleteSession(ctx, hash[:]); err != nil {
		return fmt.Errorf("end session: %w", err)
	}
	s.sessions.drop(string(hash[:]))
	return nil
}
