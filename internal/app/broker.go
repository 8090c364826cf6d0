package app

import (
	"context"
	"fmt"
	"path/filepath"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/internal/config"
	"holdfast/purchase"
)

// openBroker makes the adapter that the settings name, and the gate before it.
func (n *node) openBroker(ctx context.Context) (err error) {
	b := n.config.Broker
	switch b.Kind {
	case "alpaca":
		n.broker, err = newAlpaca(b)
	case "http":
		n.broker, err = newHTTPBroker(b, "http", b.URL)
	default:
		n.broker, err = n.openSandbox(ctx)
	}
	if err != nil {
		return fmt.Errorf("broker: %w", err)
	}
	n.adapter = n.broker
	n.broker = n.traces.call(n.broker)
	n.gate = broker.NewGate(broker.GateConfig{
		Failures: b.BreakerFailures, Open: b.BreakerOpen, Rate: b.Rate, MaxInFlight: b.MaxInFlight,
		OnState: n.breakerMoved,
	})
	return nil
}

func newHTTPBroker(b config.Broker, name, url string) (broker.Broker, error) {
	return httpbroker.New(httpbroker.Config{
		Name: name, URL: url, Token: b.Token, Timeout: b.Timeout, KeyRetention: b.KeyRetention,
		Settle: b.Settle, Idempotent: b.Idempotent, DuplicateCodes: b.DuplicateCodes,
	})
}

// openSandbox speaks to the sandbox over the same wire as to a real broker: where no
// URL is set it runs here, with its ledger in the data dir.
func (n *node) openSandbox(ctx context.Context) (broker.Broker, error) {
	url := n.config.Broker.URL
	if url == "" && n.config.DataDir == "" {
		return nil, config.ErrNoDataDir
	}
	if url == "" {
		host, err := openSandboxHost(ctx, filepath.Join(n.config.DataDir, "sandbox"), n.log)
		if err != nil {
			return nil, err
		}
		n.onStop("sandbox", host.stop)
		url = host.url()
		n.sandboxURL = url
	}
	return newHTTPBroker(n.config.Broker, "sandbox", url)
}

// alertTimeout bounds the writing of an alert that nobody waits for.
const alertTimeout = 5 * time.Second

// breakerMoved tells people that the broker went away or came back. It runs on the
// goroutine of some broker call, which must not wait for the database.
func (n *node) breakerMoved(from, to broker.State) {
	n.log.Warn("breaker", "from", from, "to", to)
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
		data := map[string]any{"broker": n.broker.Capabilities().Name, "state": to}
		if err := n.worked.RaiseAlert(ctx, kind, data); err != nil {
			n.log.Error("alert not raised", "type", kind, "error", err)
		}
	})
}
