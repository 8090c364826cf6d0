package api

import (
	"errors"
	"math"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"holdfast/auth"
)

// authenticate asks for an API key or a provider's token in the Authorization header.
func (a *api) authenticate(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key := bearer(r)
		if key == "" {
			refuse(w, r, because(unauthorized, "the request needs one header of the form Authorization: Bearer KEY"))
			return
		}
		ctx, cancel := databaseContext(r)
		p, err := a.Keys.Authenticate(ctx, key)
		cancel()
		a.proceed(w, r, next, p, err)
	})
}

// authenticateStream takes a ticket too, because a browser's EventSource cannot send a
// header. A request with a header is judged by it, and its ticket stays unused.
func (a *api) authenticateStream(next http.Handler) http.Handler {
	byKey := a.authenticate(next)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ticket := r.URL.Query().Get("ticket")
		if ticket == "" || r.Header.Get("Authorization") != "" {
			byKey.ServeHTTP(w, r)
			return
		}
		ctx, cancel := databaseContext(r)
		p, err := a.Keys.RedeemTicket(ctx, ticket)
		cancel()
		if errors.Is(err, auth.ErrUnauthorized) {
			err = because(unauthorized, "the ticket is unknown, used up or expired: each opens one stream within a minute")
		}
		a.proceed(w, r, next, p, err)
	})
}

func (a *api) proceed(w http.ResponseWriter, r *http.Request, next http.Handler, p auth.Principal, err error) {
	if err != nil {
		refuse(w, r, err)
		return
	}
	notesOf(r.Context()).keyID = p.KeyID
	next.ServeHTTP(w, r.WithContext(auth.With(r.Context(), p)))
}

// bearer returns the request's key, empty where there is none, or more than one.
func bearer(r *http.Request) string {
	given := r.Header.Values("Authorization")
	if len(given) != 1 {
		return ""
	}
	scheme, key, _ := strings.Cut(given[0], " ")
	if !strings.EqualFold(scheme, "Bearer") {
		return ""
	}
	return strings.TrimSpace(key)
}

func clientsOnly(next http.Handler) http.Handler {
	return onlyFor("this takes a client's key: an operator buys nothing", next, auth.ScopeClient)
}

func operatorsOnly(next http.Handler) http.Handler {
	return onlyFor("this takes an operator's key", next, auth.ScopeOperator)
}

func clientsAndOperators(next http.Handler) http.Handler {
	return onlyFor("this takes a client's or an operator's key", next, auth.ScopeClient, auth.ScopeOperator)
}

func brokersOnly(next http.Handler) http.Handler {
	return onlyFor("this takes a broker's key", next, auth.ScopeBroker)
}

func onlyFor(detail string, next http.Handler, scopes ...string) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !slices.Contains(scopes, auth.From(r.Context()).Scope) {
			refuse(w, r, because(forbidden, detail))
			return
		}
		next.ServeHTTP(w, r)
	})
}

// rates holds a limiter for each key that is in use.
type rates struct {
	perSecond rate.Limit
	burst     int
	mu        sync.Mutex
	byKey     map[string]*rate.Limiter
}

// maxRates bounds the table. Where it is full it starts again: every key then has its
// whole burst again, which is no harm worth a clever eviction.
const maxRates = 10_000

func newRates(perSecond float64) *rates {
	return &rates{
		perSecond: rate.Limit(perSecond), burst: max(1, int(math.Ceil(perSecond))),
		byKey: map[string]*rate.Limiter{},
	}
}

// wait returns how long key must wait for its next request, zero where it need not.
func (r *rates) wait(key string) time.Duration {
	r.mu.Lock()
	limiter, ok := r.byKey[key]
	if !ok {
		if len(r.byKey) >= maxRates {
			clear(r.byKey)
		}
		limiter = rate.NewLimiter(r.perSecond, r.burst)
		r.byKey[key] = limiter
	}
	r.mu.Unlock()
	if limiter.Allow() {
		return 0
	}
	missing := 1 - limiter.Tokens()
	return time.Duration(missing / float64(r.perSecond) * float64(time.Second))
}

// limitRate stands right behind the authentication: a refusal comes before anything is
// read, recorded or sent, so it can be no broker's answer.
func (a *api) limitRate(next http.Handler) http.Handler {
	if a.Limits.Rate <= 0 {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if wait := a.rates.wait(auth.From(r.Context()).KeyID); wait > 0 {
			refuse(w, r, &problem{slug: rateLimited, detail: "this API key makes too many requests a second", retryAfter: wait})
			return
		}
		next.ServeHTTP(w, r)
	})
}
