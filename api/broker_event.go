package api

import (
	"bytes"
	"io"
	"net/http"

	standardwebhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"

	"holdfast/internal/webhookkey"
)

// maxClientOrderID is well above a broker key's length: a broker may report orders that are
// not ours, and must get 202 for them too.
const maxClientOrderID = 255

// EventVerifier verifies that a broker event is signed with one of the brokers' secrets.
type EventVerifier struct {
	keys []*standardwebhooks.Webhook
}

// NewEventVerifier returns the verifier of secrets, of which empty ones are ignored; nil if
// there is none. The error names no secret.
func NewEventVerifier(secrets ...string) (*EventVerifier, error) {
	var v EventVerifier
	for _, secret := range secrets {
		if secret == "" {
			continue
		}
		key, err := webhookkey.Parse(secret)
		if err != nil {
			return nil, err
		}
		v.keys = append(v.keys, key)
	}
	if len(v.keys) == 0 {
		return nil, nil
	}
	return &v, nil
}

// verify returns a problem unless the message is signed, at most five minutes ago. A nil
// verifier accepts every message.
func (v *EventVerifier) verify(message []byte, header http.Header) error {
	if v == nil {
		return nil
	}
	for _, key := range v.keys {
		if key.Verify(message, header) == nil {
			return nil
		}
	}
	return because(unauthorized, "the event must be signed as in Standard Webhooks (webhook-id, webhook-timestamp, webhook-signature), at most 5 minutes ago")
}

// brokerEvent makes the purchase that the broker reports due now. The event is no evidence,
// so a forged or a repeated one costs a lookup and settles nothing.
func (a *api) brokerEvent(w http.ResponseWriter, r *http.Request) error {
	raw, err := readBody(r)
	if err != nil {
		return err
	}
	if err := a.Events.verify(raw, r.Header); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(raw))
	b, err := decode(r)
	if err != nil {
		return err
	}
	brokerKey := b.text("client_order_id", true, maxClientOrderID)
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	if err := a.Purchases.ExpediteOrder(ctx, brokerKey); err != nil {
		return err
	}
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(http.StatusAccepted)
	return nil
}
