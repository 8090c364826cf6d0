package app

import (
	"context"
	"fmt"
	"sync"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/api"
	"holdfast/auth"
	"holdfast/internal/metrics"
	"holdfast/jobs"
	"holdfast/outbox"
	"holdfast/purchase"
)

// openServices wires the packages to each other; nothing runs yet.
func (n *node) openServices(context.Context) error {
	n.openOutbox()
	n.metrics = metrics.New(metrics.Params{
		Pool: n.relay, Log: n.log, Subscribers: n.openStreams, EventLag: n.outbox.Lag,
		Brokers: []string{n.broker.Capabilities().Name},
		Breaker: n.gate.State, InFlight: n.gate.InFlight,
	})
	n.switches = purchase.NewSwitches(n.relay, n.log)
	n.accounts = account.New(n.requests)
	n.keys = n.openKeys()
	scheduler, err := jobs.NewScheduler(n.work)
	if err != nil {
		return err
	}
	n.alerts = alert.New(n.work, scheduler, n.log)
	if n.requested, err = n.service(n.requests); err != nil {
		return err
	}
	if n.worked, err = n.service(n.work); err != nil {
		return err
	}
	if n.serves() {
		n.streams = api.NewStream(api.StreamParams{
			Hub: n.outbox.Hub, Events: n.outbox.Events, Keys: n.keys, Accounts: n.accounts, Purchases: n.requested,
			KeyMax: n.config.KeyMaxStreams, Log: n.log,
		})
	}
	return nil
}

// logUnserved logs open purchases whose broker this process does not serve, as after a
// change of the broker's settings. The sweep raises broker.unserved while any exist.
func (n *node) logUnserved(ctx context.Context) error {
	unserved, err := n.requested.Unserved(ctx)
	if err != nil {
		return err
	}
	for name, purchases := range unserved {
		n.log.Warn("open purchases of a broker that this process does not serve",
			"broker", name, "purchases", purchases, "serves", n.broker.Capabilities().Name)
	}
	return nil
}

func (n *node) openStreams() int {
	if n.streams == nil {
		return 0
	}
	return n.streams.Open()
}

// openOutbox: a process without streams relays what it commits, and listens to nobody.
func (n *node) openOutbox() {
	c := outbox.Config{Pool: n.relay, Log: n.log}
	if n.works() {
		c.Keep = n.config.EventRetention
	}
	if n.serves() {
		c.Encode = api.EncodeEvent
		if !n.pooled || n.direct != n.url {
			c.ListenURL = n.direct
		}
	}
	n.outbox = outbox.New(c)
}

func (n *node) openKeys() *auth.Store {
	c := auth.Config{Pool: n.requests, OperatorKey: n.config.OperatorKey, Log: n.log}
	if jwt := n.config.JWT; jwt.Issuer != "" {
		c.Tokens = auth.NewJWT(auth.JWTConfig{
			Issuer: jwt.Issuer, Audience: jwt.Audience, JWKSURL: jwt.JWKSURL, AccountClaim: jwt.AccountClaim, Log: n.log,
		})
	}
	return auth.New(c)
}

func (n *node) service(pool *pgxpool.Pool) (*purchase.Service, error) {
	scheduler, err := jobs.NewScheduler(pool)
	if err != nil {
		return nil, err
	}
	return purchase.New(purchase.Params{
		Pool: pool, Accounts: n.accounts, Brokers: n.registry, Scheduler: scheduler,
		Alerts: alert.New(pool, scheduler, n.log), Committed: n.outbox.Wake, Switches: n.switches, Observer: n.metrics, Log: n.log,
	}), nil
}

// startLoops starts what runs in the background. The loops are stopped after the
// workers and the requests, so that the last events leave.
func (n *node) startLoops(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.onStop("loops", func(stop context.Context) error {
		cancel()
		return n.awaitLoops(stop)
	})
	if !n.noEvents {
		n.loop(ctx, "events", n.outbox.Run)
	}
	n.loop(ctx, "switches", n.switches.Run)
	n.loop(ctx, "keys", n.keys.Run)
	if n.works() {
		n.loop(ctx, "match", n.newMatcher(n.work, n.worked).Run)
	}
	// What is paused must be known before the first purchase.
	if _, err := n.switches.All(ctx); err != nil {
		return err
	}
	return nil
}

// loop runs f until ctx ends. One that ends on its own ends the process: half a node would
// look healthy.
func (n *node) loop(ctx context.Context, name string, f func(context.Context) error) {
	n.loops.Go(func() {
		if err := f(ctx); ctx.Err() == nil {
			n.fail(name, fmt.Errorf("ended unexpectedly: %w", err))
		}
	})
}

func (n *node) awaitLoops(ctx context.Context) error {
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.loops.Wait()
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}

// startWorkers starts the half that reconciles.
func (n *node) startWorkers(ctx context.Context) error {
	if !n.works() {
		return nil
	}
	delivery, err := alert.NewDelivery(alert.DeliveryParams{
		Pool: n.work, URL: n.config.WebhookURL, Secret: n.config.WebhookSecret, Log: n.log,
	})
	if err != nil {
		return err
	}
	workers, err := jobs.NewWorkers(jobs.Config{
		Pool: n.work, Service: n.worked, Concurrency: n.config.Workers, RescueAfter: n.config.RescueAfter,
		SweepInterval: n.config.SweepInterval, StopTimeout: n.config.ShutdownTimeout / 2,
		Alerts: n.alerts, Delivery: delivery, Log: n.log,
	})
	if err != nil {
		return err
	}
	if err := workers.Start(ctx); err != nil {
		return err
	}
	var once sync.Once
	n.stopWorkers = func(ctx context.Context) error {
		once.Do(func() { err = stopWithDeadline(ctx, workers.Stop) })
		return err
	}
	n.onStop("workers", func(ctx context.Context) error { return n.stopWorkers(ctx) })
	return nil
}

// stopWithDeadline leaves what goes on after the time for a stop is over, as River does that
// would still tell a silent database that it goes.
func stopWithDeadline(ctx context.Context, stop func(context.Context) error) error {
	stopped := make(chan error, 1)
	go func() { stopped <- stop(ctx) }()
	select {
	case err := <-stopped:
		return err
	case <-ctx.Done():
		return ctx.Err()
	}
}
