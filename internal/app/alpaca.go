package app

import (
	"holdfast/broker"
	"holdfast/broker/alpaca"
	"holdfast/internal/config"
)

func newAlpaca(b config.Broker) (broker.Broker, error) {
	adapter, err := alpacaAdapter(b)
	if err != nil {
		return nil, err
	}
	can := adapter.Capabilities()
	can.Name, can.Idempotent, can.NoLookup, can.AbsenceLookups = b.Name, b.Idempotent, !b.Lookup, b.AbsenceLookups
	return configured(adapter, can), nil
}

func alpacaAdapter(b config.Broker) (broker.Broker, error) {
	id, secret, _ := config.AlpacaKeys(b.Token)
	settings := alpaca.Config{
		BaseURL: b.URL, KeyID: id, Secret: secret, TimeInForce: alpaca.TimeInForce(b.TimeInForce),
		Timeout: b.Timeout, KeyRetention: b.KeyRetention, Settle: b.Settle, ProcessingInterval: b.ProcessingInterval,
	}
	if b.Kind == config.AlpacaBroker {
		return alpaca.NewBroker(settings)
	}
	return alpaca.New(settings)
}

// configured replaces what an adapter promises by what the settings say.
func configured(b broker.Broker, can broker.Capabilities) broker.Broker {
	return keepLister(b, promises{b, can})
}

type promises struct {
	broker.Broker
	can broker.Capabilities
}

// Capabilities implements broker.Broker.
func (p promises) Capabilities() broker.Capabilities { return p.can }

// keepLister returns wrapped, able to list if the broker inside it is.
func keepLister(inner, wrapped broker.Broker) broker.Broker {
	lister, ok := inner.(broker.Lister)
	if !ok {
		return wrapped
	}
	return struct {
		broker.Broker
		broker.Lister
	}{wrapped, lister}
}
