package main

import (
	"strings"

	"holdfast/broker"
	"holdfast/broker/alpaca"
)

// alpacaKeys takes apart the pair that Alpaca wants in two headers.
func alpacaKeys(token string) (id, secret string, ok bool) {
	id, secret, found := strings.Cut(token, ":")
	return id, secret, found && id != "" && secret != ""
}

// alpacaToken reads the pair by the names that Alpaca's own libraries read, for whoever
// has set them already.
func alpacaToken(r *reader) string {
	id, _ := r.lookup("APCA_API_KEY_ID")
	secret, _ := r.lookup("APCA_API_SECRET_KEY")
	if id == "" || secret == "" {
		return ""
	}
	return id + ":" + secret
}

func newAlpaca(b brokerConfig) (broker.Broker, error) {
	id, secret, _ := alpacaKeys(b.Token)
	client, err := alpaca.New(alpaca.Config{
		BaseURL: b.URL, KeyID: id, Secret: secret, TimeInForce: alpaca.TimeInForce(b.TimeInForce),
		Timeout: b.Timeout, KeyRetention: b.KeyRetention, Settle: b.Settle,
	})
	if err != nil || b.Idempotent {
		return client, err
	}
	return neverReplayed{client}, nil
}

// neverReplayed takes a broker at less than its word: HOLDFAST_BROKER_IDEMPOTENT=false.
type neverReplayed struct{ broker.Broker }

// Capabilities implements broker.Broker.
func (b neverReplayed) Capabilities() broker.Capabilities {
	can := b.Broker.Capabilities()
	can.Idempotent = false
	return can
}
