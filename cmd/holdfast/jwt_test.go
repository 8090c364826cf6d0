package main

import (
	"crypto"
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jwk"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"

	"holdfast/internal/testkit/apicheck"
)

// provider is an identity provider as Holdfast sees it: a JWKS URL.
type provider struct {
	t      *testing.T
	server *httptest.Server
	keys   atomic.Pointer[[]byte]
	down   atomic.Bool
	asked  atomic.Int64

	rsa     *rsa.PrivateKey
	ecdsa   *ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey
}

const accountClaim = "https://id.example/account"

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{t: t}
	p.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	p.ecdsa, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, p.ed25519, _ = ed25519.GenerateKey(rand.Reader)
	p.publish(map[string]crypto.PublicKey{"rsa": p.rsa.Public(), "ec": p.ecdsa.Public(), "ed": p.ed25519.Public()})
	p.server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		if p.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Write(*p.keys.Load())
	}))
	t.Cleanup(p.server.Close)
	return p
}

func (p *provider) settings() []string {
	return []string{
		"HOLDFAST_JWT_ISSUER=https://id.example", "HOLDFAST_JWT_AUDIENCE=holdfast",
		"HOLDFAST_JWT_JWKS_URL=" + p.server.URL + "/jwks", "HOLDFAST_JWT_ACCOUNT_CLAIM=" + accountClaim,
	}
}

func (p *provider) publish(keys map[string]crypto.PublicKey) {
	p.t.Helper()
	set := jwk.NewSet()
	for id, raw := range keys {
		key, err := jwk.Import(raw)
		if err != nil {
			p.t.Fatal(err)
		}
		key.Set(jwk.KeyIDKey, id)
		set.AddKey(key)
	}
	body, err := json.Marshal(set)
	if err != nil {
		p.t.Fatal(err)
	}
	p.keys.Store(&body)
}

// token returns a valid token with changed claims; nil removes a claim.
func (p *provider) token(algorithm jwa.SignatureAlgorithm, id string, key any, change map[string]any) string {
	p.t.Helper()
	claims := map[string]any{
		"iss": "https://id.example", "aud": "holdfast", "sub": "user-1", accountClaim: "acct-1", "exp": time.Now().Add(time.Hour).Unix(),
	}
	for name, value := range change {
		claims[name] = value
		if value == nil {
			delete(claims, name)
		}
	}
	payload, err := json.Marshal(claims)
	if err != nil {
		p.t.Fatal(err)
	}
	headers := jws.NewHeaders()
	if id != "" {
		headers.Set(jws.KeyIDKey, id)
	}
	signed, err := jws.Sign(payload, jws.WithKey(algorithm, key, jws.WithProtectedHeaders(headers)))
	if err != nil {
		p.t.Fatal(err)
	}
	return string(signed)
}

// good returns a token that is valid except for the changes.
func (p *provider) good(change map[string]any) string {
	return p.token(jwa.ES256(), "ec", p.ecdsa, change)
}

// A provider's tokens are accepted instead of client keys: the three algorithms, and nothing
// else.
func TestTokensOfAnIdentityProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	w := setup(t, p.settings()...)
	p.down.Store(true)
	s := launch(t, w.settings)

	// The provider is unreachable from the start: the token is not rejected as invalid, and
	// keys still work.
	wantProblem(t, s, p.good(nil), http.StatusServiceUnavailable, "unavailable")
	s.get("/v1/accounts/acct-1", w.client, &accountView{})
	p.down.Store(false)
	eventually(t, "the provider is back", func() error { return s.mayRead(p.good(nil)) })

	for name, token := range map[string]string{
		"RS256": p.token(jwa.RS256(), "rsa", p.rsa, nil), "ES256": p.good(nil), "EdDSA": p.token(jwa.EdDSA(), "ed", p.ed25519, nil),
		"NoKeyID": p.token(jwa.EdDSA(), "", p.ed25519, nil), "SeveralAudiences": p.good(map[string]any{"aud": []string{"else", "holdfast"}}),
	} {
		a, bought := s.buy(token, "acct-1", "AAPL", name)
		if a.status != http.StatusCreated || bought.Status != "COMPLETED" {
			t.Errorf("%s: %d %s", name, a.status, a.body)
		}
	}
	wantProblem(t, s, p.good(map[string]any{accountClaim: "acct-2"}), http.StatusNotFound, "account-not-found")
	if a, err := s.call(http.MethodGet, "/v1/summary", p.good(nil), ""); err != nil || a.status != http.StatusForbidden {
		t.Errorf("a token asks for an operator's: %d, %v", a.status, err)
	}
	for name, token := range p.bad() {
		t.Run(name, func(t *testing.T) { wantProblem(t, s, token, http.StatusUnauthorized, "unauthorized") })
	}
	p.rotate(s)
	auditHolds(t, w.settings)
}

// bad are tokens that must be refused.
func (p *provider) bad() map[string]string {
	p.t.Helper()
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	public, err := x509.MarshalPKIXPublicKey(p.rsa.Public())
	if err != nil {
		p.t.Fatal(err)
	}
	unsigned, err := jwt.Sign(jwt.New(), jwt.WithInsecureNoSignature())
	if err != nil {
		p.t.Fatal(err)
	}
	whole := p.good(nil)
	parts := strings.Split(whole, ".")
	return map[string]string{
		"None": string(unsigned), "NoneWithClaims": strings.Split(string(unsigned), ".")[0] + "." + parts[1] + ".",
		"HS256WithThePublicKey": p.token(jwa.HS256(), "rsa", public, nil), "RS512": p.token(jwa.RS512(), "rsa", p.rsa, nil),
		"PS256": p.token(jwa.PS256(), "rsa", p.rsa, nil), "OtherKind": p.token(jwa.ES256(), "rsa", p.ecdsa, nil),
		"Expired": p.good(map[string]any{"exp": time.Now().Add(-time.Minute).Unix()}), "NoExpiry": p.good(map[string]any{"exp": nil}),
		"ExpiryIsText": p.good(map[string]any{"exp": "tomorrow"}), "NotYet": p.good(map[string]any{"nbf": time.Now().Add(time.Minute).Unix()}),
		"OtherIssuer": p.good(map[string]any{"iss": "https://evil.example"}), "NoIssuer": p.good(map[string]any{"iss": nil}),
		"OtherAudience": p.good(map[string]any{"aud": "else"}), "NoAudience": p.good(map[string]any{"aud": nil}),
		"NoAccount": p.good(map[string]any{accountClaim: nil}), "AccountIsNumber": p.good(map[string]any{accountClaim: 7}),
		"AccountIsList": p.good(map[string]any{accountClaim: []string{"acct-1"}}), "AccountIsEmpty": p.good(map[string]any{accountClaim: ""}),
		"AccountMalformed": p.good(map[string]any{accountClaim: "../acct-1"}), "Stranger": p.token(jwa.ES256(), "ec", stranger, nil),
		"UnknownKeyID": p.token(jwa.ES256(), "new", stranger, nil), "OtherClaims": parts[0] + ".e30." + parts[2],
		"NoSignature": parts[0] + "." + parts[1] + ".", "NoJSON": "a.b.c", "TooLong": whole + strings.Repeat("x", 9000),
	}
}

// rotate: unknown keys do not cause unlimited requests to the provider; a new key is found, a
// withdrawn one stops working, and a later outage changes nothing.
func (p *provider) rotate(s *serving) {
	p.t.Helper()
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	before, start := p.asked.Load(), time.Now()
	for i := range 100 {
		wantProblem(p.t, s, p.token(jwa.ES256(), fmt.Sprint("made-up-", i), stranger, nil), http.StatusUnauthorized, "unauthorized")
	}
	if asked := p.asked.Load() - before; asked > 1+int64(time.Since(start)/(10*time.Second)) {
		p.t.Errorf("asked the provider %d times in %s", asked, time.Since(start))
	}
	fresh, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	p.publish(map[string]crypto.PublicKey{"fresh": fresh.Public()})
	eventually(p.t, "the new key is found", func() error { return s.mayRead(p.token(jwa.ES256(), "fresh", fresh, nil)) })
	wantProblem(p.t, s, p.good(nil), http.StatusUnauthorized, "unauthorized")
	p.server.Close()
	if err := s.mayRead(p.token(jwa.ES256(), "fresh", fresh, nil)); err != nil {
		p.t.Errorf("while the provider is unreachable: %v", err)
	}
}

// mayRead returns an error if a key or token cannot read its account.
func (s *serving) mayRead(key string) error {
	a, err := s.call(http.MethodGet, "/v1/accounts/acct-1", key, "")
	if err == nil && a.status != http.StatusOK {
		err = errors.New(a.body)
	}
	return err
}

// wantProblem tries to buy with a key or token that must be refused.
func wantProblem(t *testing.T, s *serving, key string, status int, slug string) {
	t.Helper()
	a, err := s.call(http.MethodPost, "/v1/purchases", key, `{"account_id":"acct-2","symbol":"AAPL","notional":"1.00"}`, "Idempotency-Key", "k")
	if err != nil {
		t.Fatal(err)
	}
	p, problem := apicheck.Exchange{AnswerHeader: a.header, Answer: []byte(a.body)}.Problem()
	if a.status != status || !problem || p.Slug() != slug {
		t.Errorf("%d %s, want %d %s", a.status, a.body, status, slug)
	}
	if needs := map[int]string{401: "Www-Authenticate", 503: "Retry-After"}[status]; needs != "" && a.header.Get(needs) == "" {
		t.Errorf("a %d without %s", status, needs)
	}
}
