package auth

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"holdfast/auth/db"
)

// ticketLifetime: long enough to open a stream with it, too short to be worth finding
// in a proxy's log, where a URL may end up.
const ticketLifetime = time.Minute

// IssueTicket returns a ticket that opens one stream as p within a minute.
func (s *Store) IssueTicket(ctx context.Context, p Principal) (string, time.Time, error) {
	ticket := ticketPrefix + random()
	hash := digestOf(ticket)
	expiresAt, err := s.queries.InsertTicket(ctx, db.InsertTicketParams{
		Hash: hash[:], KeyID: p.KeyID, KeyHash: s.environmentHash(p), Scope: p.Scope, AccountID: orNil(p.AccountID),
		PrincipalExpiresAt: timeOrNil(p.ExpiresAt), Lifetime: ticketLifetime.Seconds(),
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue ticket: %w", err)
	}
	return ticket, expiresAt, nil
}

// environmentHash is what a ticket of the environment's operator key remembers of it.
func (s *Store) environmentHash(p Principal) []byte {
	if p.KeyID != EnvironmentKeyID || s.environment == nil {
		return nil
	}
	return s.environment[:]
}

// RedeemTicket uses a ticket up and returns its principal. It returns [ErrUnauthorized] for
// a ticket whose key was revoked or replaced since.
func (s *Store) RedeemTicket(ctx context.Context, ticket string) (Principal, error) {
	if !formed(ticket, ticketPrefix) {
		return Principal{}, ErrUnauthorized
	}
	row, err := s.takeTicket(ctx, digestOf(ticket))
	if err != nil {
		return Principal{}, err
	}
	p := Principal{KeyID: row.KeyID, Scope: row.Scope}
	if !bytes.Equal(row.KeyHash, s.environmentHash(p)) {
		return Principal{}, ErrUnauthorized
	}
	if row.AccountID != nil {
		p.AccountID = *row.AccountID
	}
	if row.PrincipalExpiresAt != nil {
		p.ExpiresAt = *row.PrincipalExpiresAt
	}
	alive, err := s.Active(ctx, p)
	if err == nil && !alive {
		err = ErrUnauthorized
	}
	if err != nil {
		return Principal{}, err
	}
	return p, nil
}

func (s *Store) takeTicket(ctx context.Context, hash digest) (db.StreamTicket, error) {
	done, err := s.lookUp(ctx)
	if err != nil {
		return db.StreamTicket{}, err
	}
	defer done()
	row, err := s.queries.RedeemTicket(ctx, hash[:])
	if err != nil {
		return db.StreamTicket{}, readError("redeem ticket", err)
	}
	return row, nil
}

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
