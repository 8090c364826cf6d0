package auth_test

import (
	"crypto/ecdsa"
	"crypto/ed25519"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/rsa"
	"encoding/json"
	"errors"
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

	"holdfast/auth"
)

type provider struct {
	checker *auth.JWT
	set     atomic.Pointer[[]byte]
	down    atomic.Bool
	asked   atomic.Int64
	log     lines
	url     string
	rsa     *rsa.PrivateKey
	ecdsa   *ecdsa.PrivateKey
	ed25519 ed25519.PrivateKey
}

func newProvider(t *testing.T) *provider {
	t.Helper()
	p := &provider{}
	p.rsa, _ = rsa.GenerateKey(rand.Reader, 2048)
	p.ecdsa, _ = ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	_, p.ed25519, _ = ed25519.GenerateKey(rand.Reader)
	p.publish(t, map[string]any{"rsa": p.rsa.Public(), "ec": p.ecdsa.Public(), "ed": p.ed25519.Public()})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		p.asked.Add(1)
		if p.down.Load() {
			w.WriteHeader(http.StatusBadGateway)
			return
		}
		w.Write(*p.set.Load())
	}))
	t.Cleanup(server.Close)
	p.url = server.URL
	p.checker = auth.NewJWT(auth.JWTConfig{
		Issuer: "https://id.example", Audience: "holdfast", JWKSURL: server.URL, AccountClaim: "https://id.example/account",
		Log: p.log.logger(),
	})
	return p
}

func (p *provider) publish(t *testing.T, keys map[string]any) {
	t.Helper()
	set := jwk.NewSet()
	for id, raw := range keys {
		key, err := jwk.Import(raw)
		if err != nil {
			t.Fatal(err)
		}
		key.Set(jwk.KeyIDKey, id)
		set.AddKey(key)
	}
	body, err := json.Marshal(set)
	if err != nil {
		t.Fatal(err)
	}
	p.set.Store(&body)
}

func claims(t *testing.T, change map[string]any) jwt.Token {
	t.Helper()
	token := jwt.New()
	for name, value := range map[string]any{
		"iss": "https://id.example", "aud": "holdfast", "sub": "user-1", "https://id.example/account": "acct-1",
		"exp": time.Now().Add(time.Hour),
	} {
		token.Set(name, value)
	}
	for name, value := range change {
		if value == nil {
			token.Remove(name)
			continue
		}
		if err := token.Set(name, value); err != nil {
			t.Fatal(err)
		}
	}
	return token
}

func sign(t *testing.T, token jwt.Token, algorithm jwa.SignatureAlgorithm, id string, key any) string {
	t.Helper()
	return signWith(t, token, algorithm, map[string]any{jws.KeyIDKey: id}, key)
}

func signWith(t *testing.T, token jwt.Token, algorithm jwa.SignatureAlgorithm, header map[string]any, key any) string {
	t.Helper()
	headers := jws.NewHeaders()
	for name, value := range header {
		headers.Set(name, value)
	}
	signed, err := jwt.Sign(token, jwt.WithKey(algorithm, key, jws.WithProtectedHeaders(headers)))
	if err != nil {
		t.Fatal(err)
	}
	return string(signed)
}

func TestJWTTakesTheThreeAlgorithms(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for _, c := range []struct {
		name      string
		algorithm jwa.SignatureAlgorithm
		id        string
		key       any
	}{
		{"RS256", jwa.RS256(), "rsa", p.rsa},
		{"ES256", jwa.ES256(), "ec", p.ecdsa},
		{"EdDSA", jwa.EdDSA(), "ed", p.ed25519},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			got, err := p.checker.Verify(t.Context(), sign(t, claims(t, nil), c.algorithm, c.id, c.key))
			if err != nil {
				t.Fatal(err)
			}
			if got.Scope != auth.ScopeClient || got.AccountID != "acct-1" || got.KeyID != "jwt:user-1" || got.ExpiresAt.IsZero() {
				t.Errorf("principal = %+v", got)
			}
		})
	}
}

func TestJWTRefuses(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	good := func(change map[string]any) string {
		return sign(t, claims(t, change), jwa.ES256(), "ec", p.ecdsa)
	}
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	unsigned, err := jwt.Sign(claims(t, nil), jwt.WithInsecureNoSignature())
	if err != nil {
		t.Fatal(err)
	}
	whole := good(nil)
	withHeader := func(name string, value any) string {
		return signWith(t, claims(t, nil), jwa.ES256(), map[string]any{jws.KeyIDKey: "ec", name: value}, p.ecdsa)
	}
	for name, token := range map[string]string{
		"NoExpiry":            good(map[string]any{"exp": nil}),
		"Expired":             good(map[string]any{"exp": time.Now().Add(-time.Hour)}),
		"NotYet":              good(map[string]any{"nbf": time.Now().Add(time.Hour)}),
		"OtherIssuer":         good(map[string]any{"iss": "https://evil.example"}),
		"OtherAudience":       good(map[string]any{"aud": "else"}),
		"NoAccount":           good(map[string]any{"https://id.example/account": nil}),
		"AccountIsNumber":     good(map[string]any{"https://id.example/account": 7}),
		"AccountMalformed":    good(map[string]any{"https://id.example/account": "../x"}),
		"StrangersKey":        sign(t, claims(t, nil), jwa.ES256(), "ec", stranger),
		"UnknownKey":          sign(t, claims(t, nil), jwa.ES256(), "new", stranger),
		"OtherAlgorithm":      sign(t, claims(t, nil), jwa.RS512(), "rsa", p.rsa),
		"PublicKeyAsSecret":   sign(t, claims(t, nil), jwa.HS256(), "rsa", p.rsa.N.Bytes()),
		"Unsigned":            string(unsigned),
		"TamperedClaims":      strings.Replace(whole, ".", ".e30", 1),
		"NoToken":             "a.b.c",
		"SubjectWithNUL":      good(map[string]any{"sub": "a\x00b"}),
		"SubjectWithNewline":  good(map[string]any{"sub": "a\nb"}),
		"CriticalExtension":   withHeader("crit", []string{"urn:x"}),
		"LogoutToken":         withHeader("typ", "logout+jwt"),
		"ProofOfPossession":   withHeader("typ", "dpop+jwt"),
		"TooLong":             whole + strings.Repeat("x", 9000),
		"SignatureOfAnotherE": whole[:strings.LastIndex(whole, ".")] + ".AAAA",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got, err := p.checker.Verify(t.Context(), token); !errors.Is(err, auth.ErrUnauthorized) {
				t.Errorf("Verify = %+v, %v; want ErrUnauthorized", got, err)
			}
		})
	}
}

func TestJWTProviderAwayIsNotUnauthorized(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	p.down.Store(true)
	token := sign(t, claims(t, nil), jwa.EdDSA(), "ed", p.ed25519)
	_, err := p.checker.Verify(t.Context(), token)
	if !errors.Is(err, auth.ErrNoProviderKeys) || errors.Is(err, auth.ErrUnauthorized) {
		t.Fatalf("Verify = %v, want an error that does not blame the token", err)
	}
}

func TestJWTMadeUpKeyIDsDoNotHammerTheProvider(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	stranger, _ := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	for range 20 {
		p.checker.Verify(t.Context(), sign(t, claims(t, nil), jwa.ES256(), rand.Text(), stranger))
	}
	if asked := p.asked.Load(); asked != 1 {
		t.Errorf("asked the provider %d times, want once", asked)
	}
}
