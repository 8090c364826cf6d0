package account

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/account/db"
)

// Terms are what a purchase must know of its account before it is recorded.
type Terms struct {
	Currency string
	// Broker and BrokerAccount are as in [Account].
	Broker, BrokerAccount string
	// ReadAt is when they were read: the currency never changes, the broker may.
	ReadAt time.Time
}

// Terms returns an account's terms, from memory after the first time. Whoever records a
// purchase must compare the broker with the account's row and, if it has changed, [Store.Forget].
func (s *Store) Terms(ctx context.Context, id string) (Terms, error) {
	if terms, ok := s.terms.Load(id); ok {
		return terms.(Terms), nil
	}
	readAt := time.Now()
	row, err := db.New(s.pool).AccountTerms(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Terms{}, ErrNotFound
	}
	if err != nil {
		return Terms{}, fmt.Errorf("read account terms: %w", err)
	}
	terms := Terms{Currency: row.Currency, Broker: row.Broker, BrokerAccount: row.BrokerAccount, ReadAt: readAt}
	s.terms.Store(id, terms)
	return terms, nil
}

// Forget makes the next Terms of an account read them again.
func (s *Store) Forget(id string) { s.terms.Delete(id) }

// Currency returns an account's currency, from memory after the first time.
func (s *Store) Currency(ctx context.Context, id string) (string, error) {
	terms, err := s.Terms(ctx, id)
	return terms.Currency, err
}

// SetBroker changes which broker takes an account's purchases and what it is called there;
// nil leaves either as it is. Purchases that are recorded already keep theirs. It returns
// ErrNotFound if there is no such account.
func (s *Store) SetBroker(ctx context.Context, id string, broker, brokerAccount *string) (Account, error) {
	row, err := db.New(s.pool).SetAccountBroker(ctx, broker, brokerAccount, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return Account{}, ErrNotFound
	}
	if err != nil {
		return Account{}, fmt.Errorf("set account broker: %w", err)
	}
	s.Forget(id)
	return fromRow(row), nil
}
