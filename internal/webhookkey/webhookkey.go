// Package webhookkey parses the secrets that messages are signed with according to the
// Standard Webhooks specification. It is a leaf: alert signs its messages, api verifies broker events.
package webhookkey

import (
	"errors"
	"strings"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
)

const prefix = "whsec_"

// Parse returns the signer and verifier of a secret: base64 after "whsec_", otherwise the
// key's bytes as they are.
func Parse(secret string) (*standardwebhooks.Webhook, error) {
	if !strings.HasPrefix(secret, prefix) {
		return standardwebhooks.NewWebhookRaw([]byte(secret))
	}
	webhook, err := standardwebhooks.NewWebhook(secret)
	if err != nil || secret == prefix { // the error would repeat a part of the secret
		return nil, errors.New("not base64 after " + prefix)
	}
	return webhook, nil
}
