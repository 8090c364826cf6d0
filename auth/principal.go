package auth

import (
	"context"
	"errors"
	"time"
)

// The scopes. A client is bound to one account, an operator and a broker to none. A broker
// may only report events, so its key exposes nothing.
const (
	ScopeClient   = "client"
	ScopeOperator = "operator"
	ScopeBroker   = "broker"
)

// EnvironmentKeyID is the id of the operator key that the environment gives.
const EnvironmentKeyID = "env"

// ErrUnauthorized says that there is no such key, token, ticket or session, or not any more.
var ErrUnauthorized = errors.New("unauthorized")

// Principal is who makes a request.
type Principal struct {
	KeyID string
	Scope string
	// AccountID is a client's account, otherwise empty.
	AccountID string
	// ExpiresAt is when the credential ends by itself; zero where it does not.
	ExpiresAt time.Time
}

func (p Principal) ended() bool { return !p.ExpiresAt.IsZero() && !time.Now().Before(p.ExpiresAt) }

// Operator reports whether p may do what only operators may.
func (p Principal) Operator() bool { return p.Scope == ScopeOperator }

// Actor is the name under which p's actions stand in the history.
func (p Principal) Actor() string {
	if p.Operator() {
		return "operator:" + p.KeyID
	}
	return "client"
}

// May reports whether p may see what belongs to an account.
func (p Principal) May(accountID string) bool {
	return p.Operator() || p.Scope == ScopeClient && p.AccountID == accountID
}

type principalKey struct{}

// With returns a context that carries p.
func With(ctx context.Context, p Principal) context.Context {
	return context.WithValue(ctx, principalKey{}, p)
}

// From returns who makes the request. A handler behind the authentication always
// finds someone; anything else is a zero Principal, which may do nothing.
func From(ctx context.Context) Principal {
	p, _ := ctx.Value(principalKey{}).(Principal)
	return p
}
