package auth

import (
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
	ticket := "hf_ticket_" + random()
	hash := digestOf(ticket)
	expiresAt, err := s.queries.InsertTicket(ctx, db.InsertTicketParams{
		Hash: hash[:], KeyID: p.KeyID, Scope: p.Scope, AccountID: orNil(p.AccountID),
		PrincipalExpiresAt: timeOrNil(p.ExpiresAt), Lifetime: ticketLifetime.Seconds(),
	})
	if err != nil {
		return "", time.Time{}, fmt.Errorf("issue ticket: %w", err)
	}
	return ticket, expiresAt, nil
}

// RedeemTicket uses a ticket up and tells whose it is. A ticket of a key that was
// revoked since is worth nothing.
func (s *Store) RedeemTicket(ctx context.Context, ticket string) (Principal, error) {
	hash := digestOf(ticket)
	row, err := s.queries.RedeemTicket(ctx, hash[:])
	if err != nil {
		return Principal{}, readError("redeem ticket", err)
	}
	p := Principal{KeyID: row.KeyID, Scope: row.Scope}
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

func timeOrNil(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	return &t
}
