package auth

import (
	"fmt"
	"net/netip"
	"sync"
	"time"

	"golang.org/x/time/rate"
)

const (
	// loginBurst failed logins are free, then one per loginEvery and client address: enough
	// for an operator who mistypes, and no way to try keys.
	loginBurst = 10
	loginEvery = 6 * time.Second
	// maxAddresses bounds the table; when it is full it starts again.
	maxAddresses = 10_000
)

// TooManyAttemptsError says that an address has to wait before its next login.
type TooManyAttemptsError struct{ RetryAfter time.Duration }

func (e *TooManyAttemptsError) Error() string {
	return fmt.Sprintf("too many failed logins, retry in %s", e.RetryAfter)
}

// attempts counts failed logins by client address.
type attempts struct {
	mu     sync.Mutex
	byAddr map[string]*rate.Limiter
}

func newAttempts() *attempts { return &attempts{byAddr: map[string]*rate.Limiter{}} }

// check returns a [TooManyAttemptsError] if the address has failed too often.
func (a *attempts) check(addr string) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	limiter, ok := a.byAddr[network(addr)]
	if !ok || limiter.Tokens() >= 1 {
		return nil
	}
	missing := 1 - limiter.Tokens()
	return &TooManyAttemptsError{RetryAfter: time.Duration(missing * float64(loginEvery))}
}

func (a *attempts) failed(addr string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	key := network(addr)
	limiter, ok := a.byAddr[key]
	if !ok {
		if len(a.byAddr) >= maxAddresses {
			clear(a.byAddr)
		}
		limiter = rate.NewLimiter(rate.Every(loginEvery), loginBurst)
		a.byAddr[key] = limiter
	}
	limiter.Allow()
}

// network is what one client controls: an IPv4 address, or an IPv6 /64.
func network(addr string) string {
	ip, err := netip.ParseAddr(addr)
	if err != nil || !ip.Unmap().Is6() {
		return addr
	}
	prefix, err := ip.WithZone("").Prefix(64)
	if err != nil {
		return addr
	}
	return prefix.String()
}
