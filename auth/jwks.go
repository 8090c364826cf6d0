package auth

import (
	"context"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rsa"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"sync"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"golang.org/x/sync/singleflight"
)

const (
	// keysFor is how long a provider's keys are used without asking again.
	keysFor = 10 * time.Minute
	// keysRest is the minimum time between two requests, so that tokens with made-up key
	// ids cannot make us request keys without end.
	keysRest = 10 * time.Second
	// keysStale is how long keys stay in use while the provider is unavailable.
	keysStale = 24 * time.Hour

	maxJWKS = 1 << 20
	maxKeys = 64
	// minRSABits is what RFC 7518 asks of RS256.
	minRSABits = 2048
)

// ErrNoProviderKeys says that a token cannot be checked: the identity provider's keys are
// unavailable.
var ErrNoProviderKeys = errors.New("identity provider's keys are unavailable")

// keySet is a provider's keys, fetched when needed and kept for a while.
type keySet struct {
	url    string
	client *http.Client
	log    *slog.Logger
	flight singleflight.Group

	mu    sync.Mutex
	set   []jwk.Key
	got   time.Time
	asked time.Time
}

func newKeySet(url string, log *slog.Logger) *keySet {
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	return &keySet{url: url, log: log, client: &http.Client{
		Timeout: loadTimeout,
		// Another address would be trusted with every account, and it need not be https.
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
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

func (k *keySet) current() ([]jwk.Key, time.Duration) {
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

func (k *keySet) fetch(ctx context.Context) ([]jwk.Key, error) {
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, k.url, nil)
	if err != nil {
		return nil, fmt.Errorf("request keys: %w", withoutURL(err))
	}
	response, err := k.client.Do(request)
	if err != nil {
		return nil, fmt.Errorf("request keys: %w", withoutURL(err))
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("request keys: status %d", response.StatusCode)
	}
	body, err := io.ReadAll(io.LimitReader(response.Body, maxJWKS))
	if err != nil {
		return nil, fmt.Errorf("read keys: %w", withoutURL(err))
	}
	return k.parse(ctx, body)
}

// errNoUsableKey leaves the keys of before in use.
var errNoUsableKey = errors.New("the key set has no usable key")

// parse reads a key set key by key: one that cannot be used, of a type not invented yet,
// say, is skipped (RFC 7517, 5).
func (k *keySet) parse(ctx context.Context, body []byte) ([]jwk.Key, error) {
	var document struct {
		Keys []json.RawMessage `json:"keys"`
	}
	if err := json.Unmarshal(body, &document); err != nil {
		return nil, fmt.Errorf("parse keys: %w", err)
	}
	var keys []jwk.Key
	for _, raw := range document.Keys[:min(len(document.Keys), maxKeys)] {
		key, err := parseKey(raw)
		if err != nil {
			k.log.WarnContext(ctx, "identity provider's key skipped", "kid", keyIDOf(raw), "error", err)
			continue
		}
		keys = append(keys, key)
	}
	if len(keys) == 0 {
		return nil, errNoUsableKey
	}
	return keys, nil
}

func parseKey(raw []byte) (jwk.Key, error) {
	key, err := jwk.ParseKey(raw)
	if err != nil {
		return nil, fmt.Errorf("parse key: %w", err)
	}
	if use, ok := key.KeyUsage(); ok && use != "sig" {
		return key, nil // for something else; never chosen
	}
	for _, algorithm := range algorithms {
		if _, ok := usable(key, algorithm, ""); ok {
			return key, nil
		}
	}
	return nil, errors.New("it fits none of RS256, ES256 and EdDSA")
}

// keyIDOf reads the id of a key that cannot be parsed otherwise.
func keyIDOf(raw []byte) string {
	var key struct {
		ID string `json:"kid"`
	}
	_ = json.Unmarshal(raw, &key) // empty if there is none
	return key.ID[:min(len(key.ID), maxSubject)]
}

// withoutURL leaves out the address, whose query may hold a secret.
func withoutURL(err error) error {
	var inURL *url.Error
	if errors.As(err, &inURL) {
		return inURL.Err
	}
	return err
}

func fitting(set []jwk.Key, algorithm jwa.SignatureAlgorithm, id string) []any {
	var keys []any
	for _, key := range set {
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
