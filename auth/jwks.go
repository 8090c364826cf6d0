package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"golang.org/x/sync/singleflight"
)

const (
	// keysFor is how long a provider's keys are used without asking again.
	keysFor = 10 * time.Minute
	// keysRest is the least time between two questions, so that tokens with made-up
	// key ids cannot make us knock at the provider's door without end.
	keysRest = 10 * time.Second
	// keysStale is how long keys serve on while the provider is away.
	keysStale = 24 * time.Hour

	maxJWKS = 1 << 20
	maxKeys = 64
	// minRSABits is what RFC 7518 asks of RS256.
	minRSABits = 2048
)

// ErrNoProviderKeys says that a token can be judged neither good nor bad: the identity
// provider's keys are not to be had.
var ErrNoProviderKeys = errors.New("identity provider's keys are not to be had")

// keySet is a provider's keys, fetched when needed and kept for a while.
type keySet struct {
	url    string
	client *http.Client
	flight singleflight.Group

	mu    sync.Mutex
	set   jwk.Set
	got   time.Time
	asked time.Time
}

func newKeySet(url string) *keySet {
	return &keySet{url: url, client: &http.Client{Timeout: loadTimeout}}
}

// find returns the raw keys that fit an algorithm and, where the token names one, a
// key id. An unknown id may be a new key: the set is fetched again, not too often.
// [ErrNoProviderKeys].
func (k *keySet) find(ctx context.Context, algorithm jwa.SignatureAlgorithm, id string) ([]any, error) {
	set, age := k.current()
	keys := fitting(set, algorithm, id)
	away := errors.New("asked a moment ago")
	if (len(keys) == 0 || age > keysFor) && k.mayAsk() {
		if away = k.refresh(ctx); away == nil {
			set, _ = k.current()
			return fitting(set, algorithm, id), nil
		}
	}
	if set == nil || age > keysStale {
		return nil, fmt.Errorf("%w: %w", ErrNoProviderKeys, away)
	}
	return keys, nil
}

func (k *keySet) current() (jwk.Set, time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.set, time.Since(k.got)
}

func (k *keySet) mayAsk() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	rest := keysRest
	if k.set == nil {
		rest = time.Second
	}
	return time.Since(k.asked) > rest
}

func (k *keySet) refresh(ctx context.Context) error {
	result := k.flight.DoChan("", func() (any, error) {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), loadTimeout)
		defer cancel()
		set, err := k.fetch(ctx)
		k.mu.Lock()
		defer k.mu.Unlock()
		k.asked = time.Now()
		if err == nil {
			k.set, k.got = set, k.asked
		}
		return nil, err
	})
	select {
	case <-ctx.Done():
		return ctx.Err()
	case r := <-result:
		return r.Err
	}
}

func (k *keySet) fetch(ctx context.Context) (jwk.Set, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, fmt.Errorf("ask for keys: %w", err)
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("ask for keys: %w", err)
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("ask for keys: %s", response.Status)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxJWKS))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	set, err := jwk.Parse(body)
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", err)
	}
	return set, nil
}

func fitting(set jwk.Set, algorithm jwa.SignatureAlgorithm, id string) []any {
	if set == nil {
		return nil
	}
	var keys []any
	for i := range min(set.Len(), maxKeys) {
		key, _ := set.Key(i)
		if raw, ok := usable(key, algorithm, id); ok {
			keys = append(keys, raw)
		}
	}
	return keys
}

func usable(key jwk.Key, algorithm jwa.SignatureAlgorithm, id string) (any, bool) {
	if own, ok := key.KeyID(); id != "" && (!ok || own != id) {
		return nil, false
	}
	if use, ok := key.KeyUsage(); ok && use != "sig" {
		return nil, false
	}
	if own, ok := key.Algorithm(); ok && own.String() != algorithm.String() {
		return nil, false
	}
	raw, err := jwk.PublicRawKeyOf(key)
	if err != nil {
		return nil, false
	}
	return raw, kindFits(raw, algorithm)
}

func kindFits(raw any, algorithm jwa.SignatureAlgorithm) bool {
	switch key := raw.(type) {
	case *rsa.PublicKey:
		return algorithm == jwa.RS256() && key.N.BitLen() >= minRSABits
	case *ecdsa.PublicKey:
		return algorithm == jwa.ES256() && key.Curve == elliptic.P256()
	case ed25519.PublicKey:
		return algorithm == jwa.EdDSA()
	}
	return false
}
