package purchase

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/broker"
	"holdfast/internal/money"
)

// draft is a submission on its way to being recorded.
type draft struct {
	submission  Submission
	terms       account.Terms
	order       broker.Order
	hold        decimal.Decimal
	fingerprint []byte

	// via is the broker that the account names, nil if it is not served. What follows is
	// known once the draft is addressed to it.
	via     *member
	id      uuid.UUID
	ttl     time.Duration
	request broker.Request
	hash    [sha256.Size]byte
}

func (d draft) accountID() string { return d.submission.AccountID }

// draft works out what the submission means for its account.
func (s *Service) draft(ctx context.Context, sub Submission) (draft, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	terms, err := s.accounts.Terms(ctx, sub.AccountID)
	if errors.Is(err, account.ErrNotFound) {
		return draft{}, ErrAccountNotFound
	}
	if err != nil {
		return draft{}, unavailable(err)
	}
	if sub.Currency != "" && sub.Currency != terms.Currency {
		return draft{}, s.otherCurrency(ctx, sub)
	}
	order := broker.Order{
		Account: sub.AccountID, Symbol: sub.Symbol, Currency: terms.Currency,
		Quantity: sub.Quantity, LimitPrice: sub.LimitPrice, Notional: sub.Notional,
	}
	hold, err := holdOf(order)
	if err != nil {
		return draft{}, err
	}
	request, err := fingerprint(order, sub.ValidUntil, sub.Metadata)
	if err != nil {
		return draft{}, err
	}
	via := s.brokers.route(terms.Broker)
	return draft{submission: sub, terms: terms, order: order, hold: hold, fingerprint: request, via: via}, nil
}

// otherCurrency refuses a currency that is not the account's; under a key that was used
// before it is another request.
func (s *Service) otherCurrency(ctx context.Context, sub Submission) error {
	_, err := s.repeatOr(ctx, draft{submission: sub}, ErrCurrency)
	return err
}

// address gives the draft its id, its broker key and the bytes of every attempt. It returns
// a [*FieldError] if the broker can never take such an order.
func (d *draft) address() error {
	id, err := uuid.NewV7()
	if err != nil {
		return fmt.Errorf("make purchase id: %w", err)
	}
	sub := d.submission
	key := brokerKey(d.via.Policy.KeyNamespace, sub.AccountID, sub.IdempotencyKey, d.fingerprint)
	d.order.Account = cmp.Or(d.terms.BrokerAccount, sub.AccountID)
	body, err := d.via.Broker.Encode(key, d.order)
	var unsupported *broker.UnsupportedError
	if errors.As(err, &unsupported) {
		return &FieldError{Field: unsupported.Field, Message: unsupported.Message}
	}
	if err != nil {
		return fmt.Errorf("encode order: %w", err)
	}
	d.id, d.ttl, d.hash = id, d.via.Policy.ttl(d.order), sha256.Sum256(body)
	d.request = broker.Request{Key: key, Account: d.order.Account, Body: body}
	return nil
}

// ttl is the default of valid_until, from the time of recording; 0: none.
func (p Policy) ttl(order broker.Order) time.Duration {
	if order.Notional.Valid {
		return p.NotionalTTL
	}
	return p.IntentTTL
}

// brokerKeyDigits of the hash are in a broker key: 128 bits.
const brokerKeyDigits = 32

// brokerKey derives the key that the broker gets, in every attempt, from what the client
// asked for and under which key. A repeated request gets the same one even if its row was
// lost in a restore, so the broker still deduplicates it.
func brokerKey(namespace, account, idempotencyKey string, fingerprint []byte) string {
	digits := hex.EncodeToString(hashOf(namespace, account, idempotencyKey, string(fingerprint)))[:brokerKeyDigits]
	return KeyPrefix(namespace) + digits
}

// KeyPrefix returns what every broker key of a key namespace begins with.
func KeyPrefix(namespace string) string {
	if namespace == "" {
		return "hf-"
	}
	return "hf." + namespace + "-"
}

// holdOf is what an order reserves: its notional, or quantity times limit price rounded
// up to the currency's minor unit.
func holdOf(order broker.Order) (decimal.Decimal, error) {
	decimals, known := money.CurrencyDecimals(order.Currency)
	if !known {
		return decimal.Decimal{}, &FieldError{Field: "currency", Message: "is not an ISO 4217 currency"}
	}
	if !order.Notional.Valid {
		return order.Quantity.Decimal.Mul(order.LimitPrice.Decimal).RoundCeil(decimals), nil
	}
	if order.Notional.Decimal.Exponent() < -decimals {
		return decimal.Decimal{}, &FieldError{
			Field:   "notional",
			Message: fmt.Sprintf("has more decimals than %s has (%d)", order.Currency, decimals),
		}
	}
	return order.Notional.Decimal, nil
}
