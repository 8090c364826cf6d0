package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/api"
	"holdfast/auth"
	"holdfast/broker"
	"holdfast/internal/config"
	"holdfast/internal/metrics"
	"holdfast/outbox"
	"holdfast/purchase"
)

// node is one serving process. start builds it part by part; each part says how it is
// stopped, and stop does so in the reverse order.
type node struct {
	config    config.Config
	role      Role
	noMigrate bool
	noEvents  bool
	log       *slog.Logger
	out       io.Writer

	// url and direct are the database's addresses; pooled: url goes through a pooler.
	url, direct string
	pooled      bool

	requests, work, relay *pgxpool.Pool

	listener net.Listener
	// brokers are all that are served here, by name; broker and gate are the default one's.
	brokers  map[string]*served
	registry *purchase.Brokers
	broker   broker.Broker
	gate     *broker.Gate
	outbox   *outbox.Outbox
	metrics  *metrics.Metrics
	switches *purchase.Switches
	accounts *account.Store
	alerts   *alert.Store
	keys     *auth.Store
	// requested serves what clients wait for, worked what workers do: the same rules on
	// pools of their own.
	requested, worked *purchase.Service
	// streams is nil where none are served.
	streams *api.Streams

	// traces is nil where they are off.
	traces *tracing
	// demo holds the demo account's keys, where there is one.
	demo demoKeys
	// sandboxURL is empty where no sandbox is shared here.
	sandboxURL string

	// started: there is something to stop that is worth a word.
	started bool

	// draining is closed at the signal, ending when new requests are refused.
	draining, ending chan struct{}
	// stopWorkers ends the passes; it may be called more than once.
	stopWorkers func(context.Context) error
	failed      chan error
	loops       sync.WaitGroup
	stops       []stop
}

// stop is how one part of a node is stopped.
type stop struct {
	part string
	do   func(context.Context) error
}

// Params say which process to run, and where it writes.
type Params struct {
	Config config.Config
	Role   Role
	// NoMigrate refuses a database of another schema version instead of migrating it.
	NoMigrate bool
	// NoEvents runs neither relay nor listener: outcomes are stored and never published. It
	// exists so that the bench can measure what events cost.
	NoEvents bool
	Log      *slog.Logger
	// Out gets the demo account's keys and the commands to paste.
	Out io.Writer
}

// Serve runs one process until ctx ends or a part of it fails, then shuts it down. It
// returns nil after a complete shutdown.
func Serve(ctx context.Context, p Params) error {
	n := newNode(p)
	err := n.start(ctx)
	if err == nil {
		err = n.wait(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // stopped during startup
	}
	return errors.Join(err, n.stop(ctx))
}

func newNode(p Params) *node {
	return &node{
		config: p.Config, role: p.Role, noMigrate: p.NoMigrate, noEvents: p.NoEvents, log: api.LogRequests(p.Log), out: p.Out,
		url: p.Config.DatabaseURL, direct: p.Config.ListenURL,
		draining: make(chan struct{}), ending: make(chan struct{}),
		stopWorkers: func(context.Context) error { return nil }, failed: make(chan error, 1),
	}
}

// A Role says which halves of Holdfast a process runs.
type Role string

// The roles.
const (
	RoleAll    Role = "all"
	RoleAPI    Role = "api"
	RoleWorker Role = "worker"
)

// serves reports whether clients are served here; works whether workers run here.
func (n *node) serves() bool { return n.role != RoleWorker }
func (n *node) works() bool  { return n.role != RoleAPI }

// onStop registers how the part that was just started is stopped.
func (n *node) onStop(part string, do func(context.Context) error) {
	n.stops = append(n.stops, stop{part, do})
}

// start brings the parts up. The order is the order in which they need each other, and
// its reverse is the shutdown's: not ready, streams end, HTTP drains with the broker
// calls in progress, workers end their passes, events leave, the database goes last.
func (n *node) start(ctx context.Context) error {
	for _, step := range []func(context.Context) error{
		n.startTraces,
		n.listen,
		n.startPostgres,
		n.reachDatabase,
		n.migrate,
		n.openPools,
		n.openBrokers,
		n.openServices,
		n.logUnserved,
		n.openDemo,
		n.startLoops,
		n.startWorkers,
		n.serve,
	} {
		if err := step(ctx); err != nil {
			return err
		}
	}
	n.started = true
	return nil
}

// wait returns nil once a signal has come and the shutdown delay has passed, or the error of
// a part that failed.
func (n *node) wait(ctx context.Context) error {
	select {
	case <-ctx.Done():
		n.log.Info("stopping", "delay", n.config.ShutdownDelay.String(), "at_most", n.config.ShutdownTimeout.String())
		close(n.draining)
		return n.keepServing(ctx)
	case err := <-n.failed:
		return err
	}
}

// keepServing is the shutdown delay: load balancers see that this process is not ready, and
// whoever does not know yet is served. A second signal ends it.
func (n *node) keepServing(ctx context.Context) error {
	select {
	case <-time.After(n.config.ShutdownDelay):
		return nil
	case <-forced(ctx).Done():
		return nil
	case err := <-n.failed:
		return err
	}
}

// fail ends the node because of a part.
func (n *node) fail(part string, err error) {
	select {
	case n.failed <- fmt.Errorf("%s: %w", part, err):
	default: // the first one is ending it
	}
}

// stop stops every part that was started, within the shutdown timeout. What does not
// stop in time is reported and left: each part survives being killed.
func (n *node) stop(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(forced(ctx), n.config.ShutdownTimeout)
	defer cancel()
	began := time.Now()
	var failures []error
	for i := len(n.stops) - 1; i >= 0; i-- {
		if err := n.stops[i].do(ctx); err != nil {
			failures = append(failures, fmt.Errorf("stop %s: %w", n.stops[i].part, err))
		}
	}
	if n.started {
		n.log.Info("stopped", "took", time.Since(began).Round(time.Millisecond).String())
	}
	return errors.Join(failures...)
}

// listen binds the address first: one in use is reported before anything is created.
func (n *node) listen(ctx context.Context) error {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", n.config.Addr)
	if err != nil {
		return fmt.Errorf("HOLDFAST_ADDR: %w", err)
	}
	n.listener = listener
	n.onStop("listener", func(context.Context) error { return ignoreClosed(listener.Close()) })
	return nil
}

func ignoreClosed(err error) error {
	if errors.Is(err, net.ErrClosed) || errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
