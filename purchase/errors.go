package purchase

import (
	"errors"
	"fmt"
	"time"
)

var (
	// ErrNotFound: there is no such purchase.
	ErrNotFound = errors.New("purchase not found")
	// ErrAccountNotFound: there is no such account.
	ErrAccountNotFound = errors.New("account not found")
	// ErrInsufficientFunds: the account has less available than the purchase reserves.
	ErrInsufficientFunds = errors.New("insufficient funds")
	// ErrCurrency: the account keeps another currency than the purchase names.
	ErrCurrency = errors.New("currency is not the account's")
	// ErrKeyReused: the idempotency key was used with different parameters.
	ErrKeyReused = errors.New("idempotency key was used for another purchase")
	// ErrAlreadySettled: the purchase is final already, with another outcome or not by
	// an operator.
	ErrAlreadySettled = errors.New("purchase is already settled")
	// ErrNotResolvable: the first call is still in progress.
	ErrNotResolvable = errors.New("purchase is pending and cannot be resolved yet")
	// ErrNotReconcilable: the purchase is neither UNKNOWN nor in MANUAL_REVIEW.
	ErrNotReconcilable = errors.New("purchase cannot be reconciled")
	// ErrOrderIDTaken: the broker's order id belongs to another purchase.
	ErrOrderIDTaken = errors.New("broker order id belongs to another purchase")
)

// FieldError says that one field of a submission is invalid for a reason that only the
// account or the database knows, such as a notional with more decimals than its currency.
type FieldError struct {
	Field   string
	Message string
}

func (e *FieldError) Error() string { return e.Field + " " + e.Message }

// InProgressError says that a worker's pass is in flight for the purchase, and when to try
// again.
type InProgressError struct{ RetryAfter time.Duration }

func (e *InProgressError) Error() string {
	return "a reconciliation pass is in progress; nothing was decided"
}

// FateUnknownError says that the database became unavailable during the write: the purchase
// may have been recorded, or may yet be, and is then reconciled. This request made no call.
type FateUnknownError struct {
	RetryAfter time.Duration
	Err        error
}

func (e *FateUnknownError) Error() string {
	if e.Err == nil {
		return "another request's record under this key has not ended"
	}
	return fmt.Sprintf("unknown whether the purchase was recorded: %v", e.Err)
}

func (e *FateUnknownError) Unwrap() error { return e.Err }

// UnavailableError says that nothing was recorded and nothing will be, that no call was
// made, and when to retry.
type UnavailableError struct {
	Detail     string
	RetryAfter time.Duration
	Err        error
}

func (e *UnavailableError) Error() string {
	if e.Err == nil {
		return "unavailable: " + e.Detail
	}
	return fmt.Sprintf("unavailable: %s: %v", e.Detail, e.Err)
}

func (e *UnavailableError) Unwrap() error { return e.Err }
