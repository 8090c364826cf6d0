package app

import (
	"holdfast/broker"
	"holdfast/broker/alpaca"
	"holdfast/internal/config"
)

func newAlpaca(b config.Broker) (broker.Broker, error) {
	id, secret, _ := config.AlpacaKeys(b.Token)
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
