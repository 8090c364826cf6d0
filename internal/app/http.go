package app

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"riverqueue.com/riverui"

	"holdfast/api"
	"holdfast/internal/httpserver"
	"holdfast/jobs"
)

// HTTP gets half of a shutdown, and at least what a call that has just begun may take: its
// own timeout, and callEndTime to store and send the outcome.
const (
	drainShare  = 2
	callEndTime = 1500 * time.Millisecond
)

// serve answers requests. What is registered last is stopped first: not ready and
// streams, then HTTP.
func (n *node) serve(ctx context.Context) error {
	if err := n.serveMetrics(ctx); err != nil {
		return err
	}
	handler, err := n.handler(ctx)
	if err != nil {
		return err
	}
	server := httpserver.New(n.traces.handle(handler), n.log)
	n.onStop("http", func(ctx context.Context) error { return n.drain(ctx, server) })
	n.onStop("streams", func(context.Context) error {
		close(n.ending)
		if n.streams != nil {
			n.streams.Close()
		}
		return nil
	})
	n.awaitStreams(ctx)
	n.background("http", func() error { return server.Serve(n.listener) })
	n.log.Info("listening", "addr", n.listener.Addr().String(), "role", n.role)
	n.printQuickstart()
	return nil
}

// streamsWait is how long a start waits until streams can be had. It is a courtesy to
// whoever connects first; later ones get a 503 with Retry-After.
const streamsWait = 5 * time.Second

func (n *node) awaitStreams(ctx context.Context) {
	if !n.serves() || n.noEvents {
		return
	}
	select {
	case <-n.outbox.Hub.Ready():
	case <-ctx.Done():
	case <-time.After(streamsWait):
		n.log.Warn("streams are not ready yet")
	}
}

// background runs f, which ends when its part is stopped, or ends the node.
func (n *node) background(part string, f func() error) {
	n.loops.Go(func() {
		if err := f(); err != nil {
			n.fail(part, err)
		}
	})
}

// longestCall is the longest that a broker call may take.
func (n *node) longestCall() (longest time.Duration) {
	for _, b := range n.brokers {
		longest = max(longest, b.config.Timeout)
	}
	return longest
}

// drain waits for the requests in progress, the broker calls in them included. The workers
// end meanwhile: one after the other would take longer than a shutdown may.
func (n *node) drain(stop context.Context, server *httpserver.Server) error {
	ctx := stop
	if deadline, ok := stop.Deadline(); ok {
		share, cancel := context.WithTimeout(stop, max(time.Until(deadline)/drainShare, n.longestCall()+callEndTime))
		defer cancel()
		ctx = share
	}
	var workers sync.WaitGroup
	defer workers.Wait()
	workers.Go(func() { _ = n.stopWorkers(stop) }) // its error is reported when it is their turn
	return server.Shutdown(ctx)
}

func (n *node) handler(ctx context.Context) (http.Handler, error) {
	p := api.Params{
		Pool: n.requests, Observer: n.metrics, Draining: n.draining, ShuttingDown: n.ending, Log: n.log,
		Limits: api.Limits{Rate: n.config.RateLimit, KeyInFlight: n.config.KeyMaxInFlight},
	}
	if n.config.MetricsAddr == "" {
		p.Metrics = n.metrics.Handler()
	}
	if !n.serves() {
		return api.NewHealth(p), nil
	}
	jobsPage, err := n.jobsPage(ctx)
	if err != nil {
		return nil, err
	}
	if p.Events, err = n.eventVerifier(); err != nil {
		return nil, err
	}
	p.Purchases, p.Accounts, p.Switches, p.Keys = n.requested, n.accounts, n.switches, n.keys
	p.Queues = func(ctx context.Context) (map[string]bool, error) { return jobs.Queues(ctx, n.requests) }
	p.Streams, p.River, p.Hub = n.streams, jobsPage, n.outbox.Hub
	return api.New(p), nil
}

// eventVerifier accepts a broker event signed with the secret of any broker served here. If
// one broker has a secret, every event must be signed.
func (n *node) eventVerifier() (*api.EventVerifier, error) {
	var secrets []string
	for _, b := range n.config.Brokers {
		secrets = append(secrets, b.EventsSecret)
	}
	verifier, err := api.NewEventVerifier(secrets...)
	if err != nil {
		return nil, fmt.Errorf("HOLDFAST_BROKER_EVENTS_SECRET is %w", err)
	}
	return verifier, nil
}

// jobsPage is River's own page. It reads and changes jobs and runs none.
func (n *node) jobsPage(ctx context.Context) (http.Handler, error) {
	quiet := slog.New(slog.DiscardHandler)
	client, err := river.NewClient[pgx.Tx](riverpgxv5.New(n.work), &river.Config{Logger: quiet})
	if err != nil {
		return nil, fmt.Errorf("make jobs page: %w", err)
	}
	page, err := riverui.NewHandler(&riverui.HandlerOpts{
		Endpoints: riverui.NewEndpoints(client, nil), Prefix: "/river", Logger: quiet,
	})
	if err != nil {
		return nil, fmt.Errorf("make jobs page: %w", err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.onStop("jobs page", func(context.Context) error { cancel(); return nil })
	if err := page.Start(ctx); err != nil {
		return nil, fmt.Errorf("start jobs page: %w", err)
	}
	return page, nil
}

// serveMetrics serves them on an address of their own where one is set.
func (n *node) serveMetrics(ctx context.Context) error {
	if n.config.MetricsAddr == "" {
		return nil
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", n.config.MetricsAddr)
	if err != nil {
		return fmt.Errorf("HOLDFAST_METRICS_ADDR: %w", err)
	}
	mux := http.NewServeMux()
	mux.Handle("GET /metrics", n.metrics.Handler())
	server := httpserver.New(mux, n.log)
	n.onStop("metrics", server.Shutdown)
	n.background("metrics", func() error { return server.Serve(listener) })
	n.log.Info("metrics have an address of their own", "metrics_addr", listener.Addr().String())
	return nil
}
