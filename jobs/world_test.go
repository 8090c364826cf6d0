package jobs

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/broker"
	"holdfast/internal/metrics"
	"holdfast/internal/testkit/pgtest"
	"holdfast/purchase"
)

const (
	// patience is how long a test waits for what must come, on a busy machine.
	patience    = 60 * time.Second
	testAccount = "acct-1"
)

// world is a database with one account, and a service between it and a broker.
type world struct {
	// pool is the test's own hand; service and config have one as the program makes it.
	pool     *pgxpool.Pool
	broker   *testBroker
	switches *purchase.Switches
	service  *purchase.Service
	log      *logBuffer
	config   Config
}

// rules are what a test may change before its service is made.
type rules struct {
	purchase.Policy
	// timeout is the deadline of one broker call, lock the longest wait for a lock: a
	// request's, which is shorter than a worker's, where the test does not say.
	timeout, lock time.Duration
	level         slog.Level
}

func newWorld(t *testing.T, changes ...func(*rules)) *world {
	t.Helper()
	return newWorldAt(t, pgtest.NewURL(t), changes...)
}

func newWorldAt(t *testing.T, address string, changes ...func(*rules)) *world {
	t.Helper()
	r := testRules()
	for _, change := range changes {
		change(&r)
	}
	w := &world{pool: pgtest.Pool(t, address), broker: newTestBroker(t), log: &logBuffer{}}
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: r.level}))
	client, err := adapter(w.broker.url, r.timeout)
	must(t, err)
	t.Cleanup(client.Close)
	pool := productPool(t, address, r.lock)
	w.switches = purchase.NewSwitches(pool, log)
	w.service, err = newService(pool, client, r.Policy, w.switches, log)
	must(t, err)
	w.config, err = testConfig(pool, w.service, r.RescueAfter, log)
	must(t, err)
	_, err = account.New(pool).Create(t.Context(), account.CreateParams{
		ID: testAccount, Currency: "USD", Available: decimal.NewFromInt(100_000_000), Actor: "test",
	})
	must(t, err)
	return w
}

// productPool has the session limits and the planning that the program sets: without them
// a locked table is waited for otherwise, and a thousand purchases are found otherwise.
func productPool(t *testing.T, address string, lock time.Duration) *pgxpool.Pool {
	t.Helper()
	u, err := url.Parse(address)
	must(t, err)
	query := u.Query()
	for name, value := range map[string]string{
		"statement_timeout": "60s", "lock_timeout": strconv.FormatInt(lock.Milliseconds(), 10), "idle_in_transaction_session_timeout": "30s",
		"plan_cache_mode": "force_generic_plan", "enable_seqscan": "off", "jit": "off",
	} {
		query.Set(name, value)
	}
	u.RawQuery = query.Encode()
	return pgtest.Pool(t, u.String())
}

func testRules() rules {
	return rules{
		Policy: purchase.Policy{
			RetryBase: 50 * time.Millisecond, RetryCap: 100 * time.Millisecond, Jitter: 0.2,
			MaxAttempts: 1000, MaxAge: time.Hour, RetryAfterMax: time.Hour,
			PendingGrace: 3 * time.Second, RescueAfter: 3 * time.Second,
		},
		timeout: 2 * time.Second, lock: 2 * time.Second, level: slog.LevelDebug,
	}
}

// unhurried: nothing times out, so that what a test holds up is held for as long as a
// busy machine takes.
func unhurried(r *rules) { r.timeout, r.PendingGrace, r.RescueAfter = patience/2, patience, patience }

func testConfig(pool *pgxpool.Pool, service *purchase.Service, rescue time.Duration, log *slog.Logger) (Config, error) {
	scheduler, err := NewScheduler(pool)
	if err != nil {
		return Config{}, err
	}
	delivery, err := alert.NewDelivery(alert.DeliveryParams{Pool: pool, Log: log})
	return Config{
		Pool: pool, Service: service, Alerts: alert.New(pool, scheduler, log), Delivery: delivery,
		Concurrency: 10, RescueAfter: rescue,
		SweepInterval: 500 * time.Millisecond, StopTimeout: 10 * time.Second, Log: log,
	}, err
}

func newService(
	pool *pgxpool.Pool, b broker.Broker, policy purchase.Policy, switches *purchase.Switches, log *slog.Logger,
) (*purchase.Service, error) {
	scheduler, err := NewScheduler(pool)
	if err != nil {
		return nil, err
	}
	return purchase.New(purchase.Params{
		Pool: pool, Accounts: account.New(pool), Brokers: purchase.NewBrokers(purchase.Member{Broker: b, Gate: broker.NewGate(broker.GateConfig{}), Policy: policy}),
		Scheduler: scheduler, Alerts: alert.New(pool, scheduler, slog.New(slog.DiscardHandler)), Committed: func() {},
		Switches: switches, Observer: metrics.New(metrics.Params{Pool: pool, Log: log}), Log: log,
	}), nil
}

// start starts workers that end with the test.
func (w *world) start(t *testing.T) *Workers {
	t.Helper()
	workers, err := NewWorkers(w.config)
	must(t, err)
	must(t, workers.Start(t.Context()))
	t.Cleanup(func() { stop(t, workers) })
	return workers
}

func stop(t *testing.T, workers *Workers) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(t.Context()), patience)
	defer cancel()
	if err := workers.Stop(ctx); err != nil {
		t.Errorf("stop workers: %v", err)
	}
}

// submit makes one purchase, which is UNKNOWN and which a lookup will find bought.
func (w *world) submit(t *testing.T) purchase.Purchase {
	t.Helper()
	result, err := w.service.Submit(t.Context(), purchase.Submission{
		AccountID: testAccount, IdempotencyKey: uuid.NewString(), Symbol: unanswered, Metadata: "{}",
		Quantity:   decimal.NewNullDecimal(decimal.NewFromInt(10)),
		LimitPrice: decimal.NewNullDecimal(decimal.NewFromInt(25)),
	})
	must(t, err)
	return result.Purchase
}

func (w *world) get(t *testing.T, id uuid.UUID) purchase.Purchase {
	t.Helper()
	p, err := w.service.Get(t.Context(), id)
	must(t, err)
	return p
}

// await waits until every purchase has the status.
func (w *world) await(t *testing.T, status purchase.Status, ids ...uuid.UUID) {
	t.Helper()
	eventually(t, fmt.Sprintf("purchases are %s", status), func() bool {
		for _, id := range ids {
			if w.get(t, id).Status != status {
				return false
			}
		}
		return true
	})
}

// jobs returns the purchase's jobs, oldest first.
func (w *world) jobs(t *testing.T, id uuid.UUID) []job {
	t.Helper()
	rows, err := w.pool.Query(t.Context(),
		`SELECT id, kind, state::text AS state, attempt, args::text AS args, scheduled_at, coalesce(attempted_at, created_at) AS attempted_at, coalesce(array_to_string(errors, ' '), '') AS errors
		 FROM river_job WHERE args::text LIKE '%' || $1::text || '%' ORDER BY id`, id.String())
	must(t, err)
	jobs, err := pgx.CollectRows(rows, pgx.RowToStructByName[job])
	must(t, err)
	return jobs
}

type job struct {
	ID          int64
	Kind        string
	State       string
	Attempt     int
	Args        string
	ScheduledAt time.Time
	AttemptedAt time.Time
	Errors      string
}

// job returns the purchase's only job.
func (w *world) job(t *testing.T, id uuid.UUID) job {
	t.Helper()
	jobs := w.jobs(t, id)
	if len(jobs) != 1 {
		t.Fatalf("purchase has %d jobs, want 1: %+v", len(jobs), jobs)
	}
	return jobs[0]
}

func (w *world) exec(t *testing.T, sql string, args ...any) {
	t.Helper()
	_, err := w.pool.Exec(t.Context(), sql, args...)
	must(t, err)
}

func (w *world) count(t *testing.T, sql string, args ...any) int {
	t.Helper()
	var n int
	must(t, w.pool.QueryRow(t.Context(), sql, args...).Scan(&n))
	return n
}

// river returns a client like the one River UI acts through.
func (w *world) river(t *testing.T) *river.Client[pgx.Tx] {
	t.Helper()
	client, err := river.NewClient(riverpgxv5.New(w.pool), &river.Config{Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	return client
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
	trap func(line []byte)
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.trap != nil {
		l.trap(p)
	}
	return l.text.Write(p)
}

// onLine sets what is called with every line before it is kept.
func (l *logBuffer) onLine(f func(line []byte)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.trap = f
}

func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually polls until what holds, or fails.
func eventually(t *testing.T, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("not in %s: %s", patience, what)
		}
		<-tick.C
	}
}
