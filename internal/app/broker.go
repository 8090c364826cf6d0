package app

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/internal/config"
	"holdfast/purchase"
)

// served is one broker as this process uses it.
type served struct {
	config  config.Broker
	adapter broker.Broker
	gate    *broker.Gate
}

// openBrokers makes the adapter of each broker that the settings name, and its gate.
func (n *node) openBrokers(ctx context.Context) error {
	if len(n.config.Brokers) > 1 {
		return errors.New("HOLDFAST_BROKERS_FILE: this version serves one broker per process")
	}
	n.brokers = map[string]*served{}
	for _, b := range n.config.Brokers {
		adapter, err := n.newAdapter(ctx, b)
		if err != nil {
			return fmt.Errorf("broker %s: %w", b.Name, err)
		}
		s := &served{config: b, adapter: n.traces.call(adapter)}
		s.gate = broker.NewGate(broker.GateConfig{
			Failures: b.BreakerFailures, Open: b.BreakerOpen, Rate: b.Rate, MaxInFlight: b.MaxInFlight,
			OnState: func(from, to broker.State) { n.onBreakerState(b.Name, from, to) },
		})
		n.brokers[b.Name] = s
	}
	first := n.brokers[n.config.Broker.Name]
	n.broker, n.gate = first.adapter, first.gate
	n.registry = purchase.NewBrokers(first.member(n.config))
	return nil
}

func (s *served) member(c config.Config) purchase.Member {
	return purchase.Member{Broker: s.adapter, Gate: s.gate, Policy: policy(c, s.config)}
}

func (n *node) newAdapter(ctx context.Context, b config.Broker) (broker.Broker, error) {
	switch b.Kind {
	case config.Alpaca, config.AlpacaBroker:
		return newAlpaca(b)
	case config.HTTP:
		return newHTTPBroker(b)
	default:
		return n.openSandbox(ctx, b)
	}
}

func newHTTPBroker(b config.Broker) (broker.Broker, error) {
	return httpbroker.New(httpbroker.Config{
		Name: b.Name, URL: b.URL, Token: b.Token, Timeout: b.Timeout, KeyRetention: b.KeyRetention,
		Settle: b.Settle, Idempotent: b.Idempotent, NoLookup: !b.Lookup, AbsenceLookups: b.AbsenceLookups,
		ProcessingInterval: b.ProcessingInterval, DuplicateCodes: b.DuplicateCodes,
	})
}

// policy is how purchases of the broker are reconciled.
func policy(c config.Config, b config.Broker) purchase.Policy {
	return purchase.Policy{
		RetryBase: b.RetryBase, RetryCap: b.RetryCap, Jitter: b.RetryJitter,
		MaxAttempts: b.RetryMaxAttempts, MaxAge: b.RetryMaxAge, RetryAfterMax: b.RetryAfterMax,
		PendingGrace: c.PendingGrace, RescueAfter: c.RescueAfter, SweepInterval: c.SweepInterval,
		IntentTTL: c.IntentTTL, NotionalTTL: c.NotionalTTL, KeyNamespace: b.KeyNamespace,
	}
}

// openSandbox talks to the sandbox over the same wire as to a real broker. If no URL is set
// it runs here, with its ledger in the data dir.
func (n *node) openSandbox(ctx context.Context, b config.Broker) (broker.Broker, error) {
	if b.URL == "" && n.config.DataDir == "" {
		return nil, config.ErrNoDataDir
	}
	if b.URL == "" {
		host, err := openSandboxHost(ctx, filepath.Join(n.config.DataDir, "sandbox"), n.log)
		if err != nil {
			return nil, err
		}
		n.onStop("sandbox", host.stop)
		b.URL = host.url()
		n.sandboxURL = b.URL
	}
	return newHTTPBroker(b)
}

// alertTimeout bounds the writing of an alert that nobody waits for.
const alertTimeout = 5 * time.Second

// onBreakerState raises an alert when the broker becomes unavailable or recovers. It runs on
// the goroutine of some broker call, which must not wait for the database.
func (n *node) onBreakerState(name string, from, to broker.State) {
	n.log.Warn("breaker", "broker", name, "from", from, "to", to)
	kind := purchase.AlertBrokerUnavailable
	switch {
	case to == broker.Closed:
		kind = purchase.AlertBrokerRecovered
	case to != broker.Open || from != broker.Closed:
		return // a probe, or its failure: no news
	}
	n.loops.Go(func() {
		ctx, cancel := context.WithTimeout(context.Background(), alertTimeout)
		defer cancel()
		data := map[string]any{"broker": name, "state": to}
		if err := n.alerts.Raise(ctx, kind, data); err != nil {
			n.log.Error("alert not raised", "type", kind, "error", err)
		}
	})
}
