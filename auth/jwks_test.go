package auth_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/lestrrat-go/jwx/v3/jwa"

	"holdfast/auth"
)

// A key that we cannot use, whatever is odd about it, must not take the others away.
func TestUnusableKeysAreSkippedWithAWarning(t *testing.T) {
	t.Parallel()
	for name, odd := range map[string]string{
		"ShortRSA":         `{"kty":"RSA","kid":"odd","n":"AQAB","e":"AQAB"}`,
		"PostQuantum":      `{"kty":"AKP","kid":"odd","alg":"ML-DSA-65","pub":"AA"}`,
		"OtherCurve":       `{"kty":"EC","kid":"odd","crv":"secp256k1","x":"AA","y":"AA"}`,
		"Ed448":            `{"kty":"OKP","kid":"odd","crv":"Ed448","x":"AA"}`,
		"NoType":           `{"kid":"odd"}`,
		"UnknownAlgorithm": `{"kty":"RSA","kid":"odd","alg":"XX999","n":"AQAB","e":"AQAB"}`,
		"BrokenCertificate": `{"kty":"EC","kid":"odd","crv":"P-256","x5c":["!"],"x":"f83OJ3D2xF1Bg8vub9tLe1gHMzV76e8Tus9uPHvRVEU",` +
			`"y":"x_FEzRu9m36HLN_tue659LNpXW6pCyStikYjKIWI5a0"}`,
		"NoObject": `"odd"`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			p := newProvider(t)
			var set struct {
				Keys []json.RawMessage `json:"keys"`
			}
			if err := json.Unmarshal(*p.set.Load(), &set); err != nil {
				t.Fatal(err)
			}
			set.Keys = append([]json.RawMessage{json.RawMessage(odd)}, set.Keys...)
			body, err := json.Marshal(set)
			if err != nil {
				t.Fatal(err)
			}
			p.set.Store(&body)
			if _, err := p.checker.Verify(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa)); err != nil {
				t.Errorf("a good key's token: %v", err)
			}
			if log := p.log.String(); !strings.Contains(log, "skipped") || (name != "NoObject" && !strings.Contains(log, "kid=odd")) {
				t.Errorf("the log says %q", log)
			}
		})
	}
}

func TestASetWithoutUsableKeysIsNotTaken(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	for _, body := range []string{`{"keys":[]}`, `{}`, `[]`, `<html>`} {
		raw := []byte(body)
		p.set.Store(&raw)
		checker := auth.NewJWT(auth.JWTConfig{Issuer: "i", Audience: "a", JWKSURL: p.url, AccountClaim: "c"})
		_, err := checker.Verify(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa))
		if !errors.Is(err, auth.ErrNoProviderKeys) {
			t.Errorf("%s: %v", body, err)
		}
	}
}

func TestTheProviderIsNotFollowedElsewhere(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	moved := httptest.NewServer(http.RedirectHandler(p.url, http.StatusFound))
	t.Cleanup(moved.Close)
	checker := auth.NewJWT(auth.JWTConfig{
		Issuer: "https://id.example", Audience: "holdfast", JWKSURL: moved.URL, AccountClaim: "https://id.example/account",
	})
	_, err := checker.Verify(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa))
	if !errors.Is(err, auth.ErrNoProviderKeys) || p.asked.Load() != 0 {
		t.Errorf("asked %d times, %v", p.asked.Load(), err)
	}
}

func TestASecretInTheProvidersAddressIsNotReported(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	checker := auth.NewJWT(auth.JWTConfig{Issuer: "i", Audience: "a", JWKSURL: "http://u:password@127.0.0.1:1/jwks?key=secret", AccountClaim: "c"})
	_, err := checker.Verify(t.Context(), sign(t, claims(t, nil), jwa.ES256(), "ec", p.ecdsa))
	if err == nil || strings.Contains(err.Error(), "secret") || strings.Contains(err.Error(), "password") {
		t.Errorf("error is %v", err)
	}
}

func TestALongSubjectEndsWithAWholeCharacter(t *testing.T) {
	t.Parallel()
	p := newProvider(t)
	token := sign(t, claims(t, map[string]any{"sub": "a" + strings.Repeat("ü", 200)}), jwa.ES256(), "ec", p.ecdsa)
	got, err := p.checker.Verify(t.Context(), token)
	if err != nil || !utf8.ValidString(got.KeyID) || len(got.KeyID) > 132 || len(got.KeyID) < 130 {
		t.Errorf("key id %q, %v", got.KeyID, err)
	}
}

// lines is a log for one goroutine at a time.
type lines struct{ bytes.Buffer }

func (l *lines) logger() *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }
