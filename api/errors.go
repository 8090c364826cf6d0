package api

import (
	"errors"
	"time"

	"holdfast/account"
	"holdfast/api/console"
	"holdfast/auth"
	"holdfast/postgres"
	"holdfast/purchase"
	"holdfast/statement"
)

// retryWhenUnavailable is what a client is told to wait where nothing better is known.
const retryWhenUnavailable = 2 * time.Second

// known says which problem an error of the rooms behind the API is.
var known = []struct {
	err    error
	slug   slug
	detail string
}{
	{auth.ErrUnauthorized, unauthorized, "the API key is unknown, expired or revoked"},
	{console.ErrNoSession, unauthorized, "there is no operator session, or it has ended: log in at /console/login"},
	{console.ErrCrossOrigin, forbidden, "this came from another site's page"},
	{purchase.ErrNotFound, notFound, "there is no such purchase"},
	{statement.ErrNotFound, notFound, "no such finding"},
	{purchase.ErrAccountNotFound, accountNotFound, "there is no such account"},
	{account.ErrNotFound, accountNotFound, "there is no such account"},
	{purchase.ErrInsufficientFunds, insufficientFunds, "the account has less available than the purchase reserves"},
	{purchase.ErrKeyReused, idempotencyKeyReused, "this key belongs to a purchase of another meaning"},
	{account.ErrKeyReused, idempotencyKeyReused, "this key belongs to a deposit of another meaning"},
	{account.ErrExists, accountExists, "an account with this id exists already"},
	{purchase.ErrAlreadySettled, alreadySettled, "the purchase is final already"},
	{purchase.ErrNotResolvable, notResolvable, console.StillPending},
	{purchase.ErrNotReconcilable, notReconcilable, console.NotOpen},
	{purchase.ErrOrderIDTaken, orderIDTaken, "the broker's order id belongs to another purchase"},
}

// problemOf tells which problem an error is; one that nobody foresaw is internal-error.
func problemOf(err error) *problem {
	var own *problem
	if errors.As(err, &own) {
		return own
	}
	for _, k := range known {
		if errors.Is(err, k.err) {
			return because(k.slug, k.detail)
		}
	}
	if p := fieldProblem(err); p != nil {
		return p
	}
	if p := inProgressProblem(err); p != nil {
		return p
	}
	if p := unavailableProblem(err); p != nil {
		return p
	}
	return &problem{slug: internalError, detail: "the request could not be handled; its X-Request-Id names it", cause: err}
}

func fieldProblem(err error) *problem {
	var field *purchase.FieldError
	switch {
	case errors.As(err, &field):
		return invalid(fieldError{field.Field, field.Message})
	case errors.Is(err, purchase.ErrCurrency):
		return invalid(fieldError{"currency", "is not the account's currency"})
	case errors.Is(err, account.ErrCurrency):
		return invalid(fieldError{"currency", "must be an ISO 4217 code such as USD"})
	case errors.Is(err, account.ErrID):
		return invalid(fieldError{"id", messageAccountID})
	case errors.Is(err, account.ErrAmount):
		return invalid(fieldError{"amount", "must be above zero, with no more decimals than the currency has"})
	}
	return nil
}

// inProgressProblem keeps an operator's decision from overtaking an order in flight.
func inProgressProblem(err error) *problem {
	var busy *purchase.InProgressError
	if !errors.As(err, &busy) {
		return nil
	}
	return &problem{slug: inProgress, detail: console.PassInProgress, retryAfter: max(busy.RetryAfter, time.Second)}
}

func unavailableProblem(err error) *problem {
	var unknown *purchase.FateUnknownError
	if errors.As(err, &unknown) {
		return &problem{
			slug: fateUnknown, detail: "this request has not called the broker, but the purchase may exist and be reconciled: " +
				"repeat the request with the same key", cause: unknown.Err, retryAfter: max(unknown.RetryAfter, time.Second),
		}
	}
	var refused *purchase.UnavailableError
	if errors.As(err, &refused) {
		return &problem{
			slug: unavailable, detail: refused.Detail, cause: refused.Err,
			retryAfter: max(refused.RetryAfter, time.Second),
		}
	}
	if errors.Is(err, auth.ErrBusy) {
		return &problem{
			slug: unavailable, detail: "too many unknown API keys are being checked", retryAfter: retryWhenUnavailable,
		}
	}
	if errors.Is(err, auth.ErrNoProviderKeys) { // the token may be good: no word against it
		return &problem{
			slug: unavailable, detail: "the identity provider's keys are not to be had, so no token can be checked",
			retryAfter: retryWhenUnavailable, cause: err,
		}
	}
	if !postgres.IsTransient(err) {
		return nil
	}
	return &problem{
		slug: unavailable, detail: "the database is not there or overloaded",
		retryAfter: retryWhenUnavailable, cause: err,
	}
}
