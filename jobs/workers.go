package jobs

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivertype"

	"holdfast/alert"
	"holdfast/purchase"
)

// Config is what the workers of one process work with.
type Config struct {
	Pool    *pgxpool.Pool
	Service *purchase.Service
	// Concurrency is how many passes run at once.
	Concurrency int
	// PassTimeout ends a pass, the wait for its turn included. It must stay below
	// RescueAfter, so that a pass which may be run again no longer runs; zero takes
	// nineteen twentieths of that.
	PassTimeout time.Duration
	// RescueAfter is how long after its start a job whose process died runs again.
	RescueAfter time.Duration
	// SweepInterval is the longest time between two sweeps.
	SweepInterval time.Duration
	// StopTimeout is how long a stop waits for running jobs before it interrupts
	// them; zero takes 15 s.
	StopTimeout time.Duration
	// Alerts raises the sweep's own alerts, Delivery delivers all of them.
	Alerts   *alert.Store
	Delivery *alert.Delivery
	// Prune drops what has been kept long enough; nil where there is nothing.
	Prune func(ctx context.Context) error
	Log   *slog.Logger
}

const (
	defaultStopTimeout = 15 * time.Second
	// forceTimeout is what interrupted jobs get to return in.
	forceTimeout = 3 * time.Second

	// River takes as many jobs as are free to run, at most this often, so it bounds
	// the passes a second: 50 workers start 2,500.
	passCooldown = 20 * time.Millisecond
	// Jobs come without a NOTIFY, so this is how long one that is due may lie.
	passPoll = 250 * time.Millisecond

	alertWorkers  = 4
	alertCooldown = 100 * time.Millisecond
	alertPoll     = time.Second

	// stuckAfter is how long past its timeout a job may go before River says so.
	stuckAfter = 5 * time.Second

	// Ended jobs are kept to be looked at. Nothing needs them.
	keepEnded     = 24 * time.Hour
	keepDiscarded = 7 * 24 * time.Hour
)

// Workers are the background half of one process: River's workers and the sweep.
type Workers struct {
	pool    *pgxpool.Pool
	client  *river.Client[pgx.Tx]
	sweeper *sweeper
	// stopSweep and swept end the sweep and tell of its end; nil before Start.
	stopSweep context.CancelFunc
	swept     chan struct{}
}

// NewWorkers checks cfg and returns workers that have not started.
func NewWorkers(cfg Config) (*Workers, error) {
	if cfg.PassTimeout == 0 {
		cfg.PassTimeout = cfg.RescueAfter / 20 * 19
	}
	if cfg.StopTimeout == 0 {
		cfg.StopTimeout = defaultStopTimeout
	}
	if cfg.PassTimeout >= cfg.RescueAfter {
		return nil, fmt.Errorf("pass timeout %s is not below rescue after %s", cfg.PassTimeout, cfg.RescueAfter)
	}
	client, err := newClient(cfg)
	if err != nil {
		return nil, err
	}
	scheduler, err := NewScheduler(cfg.Pool)
	if err != nil {
		return nil, err
	}
	return &Workers{pool: cfg.Pool, client: client, sweeper: newSweeper(cfg, scheduler)}, nil
}

func newClient(cfg Config) (*river.Client[pgx.Tx], error) {
	workers, err := newWorkers(cfg)
	if err != nil {
		return nil, err
	}
	client, err := river.NewClient(riverpgxv5.New(cfg.Pool), riverConfig(cfg, workers))
	if err != nil {
		return nil, fmt.Errorf("make workers: %w", err)
	}
	return client, nil
}

func newWorkers(cfg Config) (*river.Workers, error) {
	workers := river.NewWorkers()
	river.AddWorker(workers, &reconcileWorker{pass: cfg.Service.Pass, timeout: cfg.PassTimeout, log: cfg.Log})
	river.AddWorker(workers, &alertWorker{pool: cfg.Pool, deliver: cfg.Delivery.Deliver, timeout: cfg.PassTimeout})
	return workers, nil
}

func riverConfig(cfg Config, workers *river.Workers) *river.Config {
	return &river.Config{
		Queues: map[string]river.QueueConfig{
			queuePasses: {MaxWorkers: cfg.Concurrency, FetchCooldown: passCooldown, FetchPollInterval: passPoll},
			queueAlerts: {MaxWorkers: alertWorkers, FetchCooldown: alertCooldown, FetchPollInterval: alertPoll},
		},
		Workers: workers,
		// A newer version's kinds wait for a newer worker, at no attempt's cost.
		FetchOnlyKnownKinds: true,
		FetchCooldown:       passCooldown,
		FetchPollInterval:   passPoll,

		JobTimeout:           cfg.PassTimeout,
		JobStuckThreshold:    stuckAfter,
		JobStuckHandler:      stuckHandler(cfg),
		RescueStuckJobsAfter: cfg.RescueAfter,
		MaxAttempts:          maxAttempts,
		RetryPolicy:          retryPolicy{},
		SoftStopTimeout:      cfg.StopTimeout,
		Middleware:           []rivertype.Middleware{&guard{log: cfg.Log}},

		CompletedJobRetentionPeriod: keepEnded,
		CancelledJobRetentionPeriod: keepEnded,
		DiscardedJobRetentionPeriod: keepDiscarded,
		JobCleanerTimeout:           30 * time.Second,
		ReindexerTimeout:            time.Minute,

		Logger: slog.New(warnings{cfg.Log.Handler()}),
	}
}

// stuckHandler reports a job that does not heed its timeout and lets another run in
// its place, for as many as there are places.
func stuckHandler(cfg Config) river.JobStuckHandler {
	return func(ctx context.Context, stuck river.JobStuckHandlerParams) river.JobStuckHandlerResult {
		cfg.Log.ErrorContext(ctx, "job does not heed its timeout",
			"job_id", stuck.ID, "kind", stuck.Kind, "stuck", stuck.TotalStuckJobs)
		return river.JobStuckHandlerResult{AddWorkerSlot: stuck.TotalStuckJobs <= cfg.Concurrency}
	}
}

// Start starts the workers and the sweep; ctx bounds the start alone, [Workers.Stop]
// ends them.
func (w *Workers) Start(ctx context.Context) error {
	if err := w.pool.Ping(ctx); err != nil {
		return fmt.Errorf("start workers: %w", err)
	}
	running := context.WithoutCancel(ctx)
	if err := w.client.Start(running); err != nil {
		return fmt.Errorf("start workers: %w", err)
	}
	sweeping, stop := context.WithCancel(running)
	w.stopSweep, w.swept = stop, make(chan struct{})
	go func() {
		defer close(w.swept)
		w.sweeper.run(sweeping)
	}()
	return nil
}

// Stop takes no new job, lets the running ones end for Config.StopTimeout, and then
// interrupts them. Where ctx ends first it interrupts them at once and returns ctx's
// error. What was interrupted, or is left running, another process takes up.
func (w *Workers) Stop(ctx context.Context) error {
	if w.stopSweep == nil {
		return nil
	}
	w.stopSweep()
	err := w.client.Stop(ctx)
	if err != nil {
		force, cancel := context.WithTimeout(context.WithoutCancel(ctx), forceTimeout)
		defer cancel()
		err = errors.Join(err, w.client.StopAndCancel(force))
	}
	<-w.swept
	if err != nil {
		return fmt.Errorf("stop workers: %w", err)
	}
	return nil
}
