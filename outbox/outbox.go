package outbox

import (
	"context"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"golang.org/x/sync/errgroup"
)

// Config of an [Outbox].
type Config struct {
	// Pool should be small (four connections do) and apart from the requests'.
	Pool *pgxpool.Pool
	// ListenURL is a direct connection's; empty where there is none: polling alone.
	ListenURL string
	// Keep is how long events are retained at least; whole days (UTC) older are dropped.
	// Zero: this process leaves that to others.
	Keep time.Duration
	// Encode gives an event's bytes on a stream. Nil for a process that serves no
	// streams: it relays, and needs neither hub nor listener.
	Encode func(Event) []byte
	Log    *slog.Logger
}

// Outbox is all that one process runs of this package, wired.
type Outbox struct {
	Relay *Relay
	// Retention is nil if the process leaves it to others.
	Retention *Retention
	Events    *Log
	// Hub is nil where the process serves no streams.
	Hub *Hub

	listener *Listener
}

// New wires an outbox; [Outbox.Run] sets it to work.
func New(c Config) *Outbox {
	log := orDiscard(c.Log)
	o := &Outbox{Events: NewLog(c.Pool)}
	if c.Keep > 0 {
		o.Retention = NewRetention(RetentionConfig{Pool: c.Pool, Keep: c.Keep, Log: log})
	}
	relay := RelayConfig{Pool: c.Pool, Log: log}
	if c.Encode != nil {
		o.Hub = NewHub(HubConfig{Pool: c.Pool, Encode: c.Encode, Log: log})
		relay.Feed = o.Hub.Feed
		if c.ListenURL != "" {
			o.listener = NewListener(ListenerConfig{URL: c.ListenURL, Pool: c.Pool, Wake: o.told, Log: log})
		} else {
			log.Warn("no connection for LISTEN: events of other processes are found by polling alone")
		}
	}
	o.Relay = NewRelay(relay)
	return o
}

// told wakes the hub, unless this process's own relay feeds it what was told. The relay
// may be one batch further by then; so may the hub.
func (o *Outbox) told(backend uint32) {
	if !o.Relay.publish(backend) {
		o.Hub.Wake()
	}
}

// Wake says that a transaction with an event has committed; call it after each. It never
// blocks.
func (o *Outbox) Wake() { o.Relay.Wake() }

// Lag is how far events are behind their commits here.
func (o *Outbox) Lag() time.Duration {
	lag := o.Relay.Lag()
	if o.Hub != nil {
		lag = max(lag, o.Hub.Lag())
	}
	return lag
}

// Subscribers is how many streams are open here.
func (o *Outbox) Subscribers() int {
	if o.Hub == nil {
		return 0
	}
	return o.Hub.Subscribers()
}

// Run works until ctx ends, and returns nil then.
func (o *Outbox) Run(ctx context.Context) error {
	g, ctx := errgroup.WithContext(ctx)
	if o.Retention != nil {
		g.Go(func() error { return o.Retention.Run(ctx) })
	}
	g.Go(func() error { return o.Relay.Run(ctx) })
	if o.Hub != nil {
		g.Go(func() error { return o.Hub.Run(ctx) })
	}
	if o.listener != nil {
		g.Go(func() error { return o.listener.Run(ctx) })
	}
	return g.Wait()
}
