package auth

import (
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"strings"
)

// secretBytes is the size of every secret that is drawn here: 256 bits cannot be guessed,
// so no slow hash is needed.
const secretBytes = 32

// shownChars is how much of a secret's random part its listing shows: enough to tell
// keys apart, 30 of 256 bits.
const shownChars = 6

// MinSecretLength is the minimum length of a secret that we did not draw ourselves.
const MinSecretLength = 20

// The prefixes of the secrets that are no API keys.
const (
	sessionPrefix = "hf_session_"
	ticketPrefix  = "hf_ticket_"
)

// formed reports whether a token may be one of ours: no other needs a query.
func formed(token, prefix string) bool {
	return strings.HasPrefix(token, prefix) && len(token) == len(prefix)+encoding.EncodedLen(secretBytes)
}

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// NewSecret returns a new API key of a scope, such as hf_client_4q7x... It is one
// word for a double click and says in any log or repository what it is.
func NewSecret(scope string) string {
	return "hf_" + scope + "_" + random()
}

func random() string {
	b := make([]byte, secretBytes)
	rand.Read(b) // never fails: crypto/rand ends the program instead
	return strings.ToLower(encoding.EncodeToString(b))
}

func newKeyID() string {
	b := make([]byte, 6)
	rand.Read(b)
	return "key_" + hex.EncodeToString(b)
}

// shown is the part of a secret that may be listed.
func shown(secret, scope string) string {
	prefix := "hf_" + scope + "_"
	if !strings.HasPrefix(secret, prefix) || len(secret) < len(prefix)+secretBytes {
		return ""
	}
	return secret[:len(prefix)+shownChars]
}

type digest [sha256.Size]byte

func digestOf(secret string) digest { return sha256.Sum256([]byte(secret)) }
