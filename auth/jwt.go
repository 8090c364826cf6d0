package auth

import (
	"context"
	"fmt"
	"log/slog"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/lestrrat-go/jwx/v3/jwa"
	"github.com/lestrrat-go/jwx/v3/jws"
	"github.com/lestrrat-go/jwx/v3/jwt"
)

// tokenPrefix begins the key id of who comes with a provider's token.
const tokenPrefix = "jwt:"

// tokenSkew is how far a provider's clock may differ from ours.
const tokenSkew = 30 * time.Second

// maxToken bounds what is parsed before anything is known of who sent it.
const maxToken = 8 << 10

// maxSubject bounds what of a token goes into the rate limit's table and the logs.
const maxSubject = 128

var accountForm = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$`)

// JWTConfig names an identity provider. All four are needed.
type JWTConfig struct {
	Issuer, Audience, JWKSURL string
	// AccountClaim is the claim that holds the account's id.
	AccountClaim string
	// Log gets the warnings about keys that cannot be used. It may be nil.
	Log *slog.Logger
}

// JWT checks a provider's tokens, which are accepted as well as client keys: RS256, ES256
// or EdDSA by a key of its JWKS, its issuer, our audience, and an expiry, which is required.
type JWT struct {
	config JWTConfig
	keys   *keySet
}

// NewJWT returns a checker. It fetches the provider's keys when the first token comes.
func NewJWT(config JWTConfig) *JWT {
	return &JWT{config: config, keys: newKeySet(config.JWKSURL, config.Log)}
}

// Verify implements [Tokens].
func (j *JWT) Verify(ctx context.Context, token string) (Principal, error) {
	if len(token) > maxToken {
		return Principal{}, ErrUnauthorized
	}
	provider := &tokenKeys{set: j.keys}
	parsed, err := jwt.Parse([]byte(token),
		jwt.WithContext(ctx),
		jwt.WithKeyProvider(provider),
		jwt.WithIssuer(j.config.Issuer),
		jwt.WithAudience(j.config.Audience),
		jwt.WithRequiredClaim(jwt.ExpirationKey),
		jwt.WithAcceptableSkew(tokenSkew),
	)
	if provider.failed != nil {
		return Principal{}, fmt.Errorf("fetch token keys: %w", provider.failed)
	}
	if err != nil {
		return Principal{}, ErrUnauthorized
	}
	return j.principal(parsed)
}

func (j *JWT) principal(token jwt.Token) (Principal, error) {
	var account string
	if err := token.Get(j.config.AccountClaim, &account); err != nil || !accountForm.MatchString(account) {
		return Principal{}, ErrUnauthorized
	}
	expires, _ := token.Expiration()
	subject, ok := token.Subject()
	if !ok || subject == "" {
		subject = account
	}
	if subject, ok = plainSubject(subject); !ok {
		return Principal{}, ErrUnauthorized
	}
	return Principal{
		KeyID: tokenPrefix + subject, Scope: ScopeClient, AccountID: account, ExpiresAt: expires.Add(tokenSkew),
	}, nil
}

// plainSubject shortens a subject that the database and the log can store; false if it
// is not text.
func plainSubject(subject string) (string, bool) {
	if !utf8.ValidString(subject) || strings.ContainsFunc(subject, unicode.IsControl) {
		return "", false
	}
	for len(subject) > maxSubject {
		_, last := utf8.DecodeLastRuneInString(subject)
		subject = subject[:len(subject)-last]
	}
	return subject, true
}

// tokenTypes are the values of typ that a bearer token may have, in lower case. Others are
// for something else: a logout token, a proof of possession, an ID token of another kind.
var tokenTypes = []string{"", "jwt", "at+jwt", "application/jwt", "application/at+jwt"}

// plainHeader refuses what we do not understand and must not ignore (RFC 7515, 4.1.11).
func plainHeader(h jws.Headers) bool {
	kind, _ := h.Type()
	return !h.Has(jws.CriticalKey) && slices.Contains(tokenTypes, strings.ToLower(kind))
}

// tokenKeys gives the library the keys that may have signed one token. The algorithm
// is the header's only where it is one of ours and the key is of its kind, so no token
// talks us into "none" or into taking a public key for a shared secret.
type tokenKeys struct {
	set    *keySet
	failed error
}

func (k *tokenKeys) FetchKeys(ctx context.Context, sink jws.KeySink, sig *jws.Signature, _ *jws.Message) error {
	algorithm, ok := sig.ProtectedHeaders().Algorithm()
	if !ok || !allowed(algorithm) || !plainHeader(sig.ProtectedHeaders()) {
		return ErrUnauthorized
	}
	id, _ := sig.ProtectedHeaders().KeyID()
	keys, err := k.set.find(ctx, algorithm, id)
	if err != nil {
		k.failed = err
		return err
	}
	for _, key := range keys {
		sink.Key(algorithm, key)
	}
	return nil
}

// algorithms are those that we accept, whatever a provider offers.
var algorithms = []jwa.SignatureAlgorithm{jwa.RS256(), jwa.ES256(), jwa.EdDSA()}

func allowed(a jwa.SignatureAlgorithm) bool { return slices.Contains(algorithms, a) }
