package purchase

import (
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

// draft is a submission that is ready to be recorded.
type draft struct {
	id          uuid.UUID
	submission  Submission
	order       broker.Order
	hold        decimal.Decimal
	ttl         time.Duration
	fingerprint []byte
	request     broker.Request
	hash        [sha256.Size]byte
}

func (d draft) accountID() string { return d.submission.AccountID }

// draft works out what the submission means for its account.
func (s *Service) draft(ctx context.Context, sub Submission) (draft, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	currency, err := s.accounts.Currency(ctx, sub.AccountID)
	if errors.Is(err, account.ErrNotFound) {
		return draft{}, ErrAccountNotFound
	}
	if err != nil {
		return draft{}, unavailable(err)
	}
	if sub.Currency != "" && sub.Currency != currency {
		return draft{}, s.otherCurrency(ctx, sub)
	}
	order := broker.Order{
		Account: sub.AccountID, Symbol: sub.Symbol, Currency: currency,
		Quantity: sub.Quantity, LimitPrice: sub.LimitPrice, Notional: sub.Notional,
	}
	hold, err := holdOf(order)
	if err != nil {
		return draft{}, err
	}
	return s.newDraft(sub, order, hold)
}

// otherCurrency refuses a currency that is not the account's; under a key that was used
// before it is another request.
func (s *Service) otherCurrency(ctx context.Context, sub Submission) error {
	lookupDraft := draft{submission: sub, order: broker.Order{Account: sub.AccountID}}
	_, err := s.repeatOr(ctx, lookupDraft, ErrCurrency)
	return err
}

// newDraft gives the draft its id, its broker key and the bytes of every attempt.
func (s *Service) newDraft(sub Submission, order broker.Order, hold decimal.Decimal) (draft, error) {
	request, err := fingerprint(order, sub.ValidUntil, sub.Metadata)
	if err != nil {
		return draft{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return draft{}, fmt.Errorf("make purchase id: %w", err)
	}
	key := brokerKey(s.policy.KeyNamespace, sub.AccountID, sub.IdempotencyKey, request)
	body, err := s.broker.Encode(key, order)
	var unsupported *broker.UnsupportedError
	if errors.As(err, &unsupported) {
		return draft{}, &FieldError{Field: unsupported.Field, Message: unsupported.Message}
	}
	if err != nil {
		return draft{}, fmt.Errorf("encode order: %w", err)
	}
	return draft{
		id: id, submission: sub, order: order, hold: hold, ttl: s.policy.ttl(order), fingerprint: request,
		request: broker.Request{Key: key, Account: order.Account, Body: body}, hash: sha256.Sum256(body),
	}, nil
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
