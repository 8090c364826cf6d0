package jobs

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/broker"
	"holdfast/internal/pgtest"
	"holdfast/purchase"
)

const (
	// patience is how long a test waits for what must come, on a busy machine.
	patience    = 60 * time.Second
	testAccount = "acct-1"
)

// world is a database with one account, a service over it and the broker's stand-in.
type world struct {
	pool    *pgxpool.Pool
	broker  *stubBroker
	service *purchase.Service
	log     *logBuffer
	config  Config
}

func newWorld(t *testing.T, changes ...func(*purchase.Policy)) *world {
	t.Helper()
	return newWorldOn(t, pgtest.New(t), changes...)
}

func newWorldOn(t *testing.T, pool *pgxpool.Pool, changes ...func(*purchase.Policy)) *world {
	t.Helper()
	policy := testPolicy()
	for _, change := range changes {
		change(&policy)
	}
	w := &world{pool: pool, broker: &stubBroker{}, log: &logBuffer{}}
	log := slog.New(slog.NewJSONHandler(w.log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	service, err := newService(pool, w.broker, policy, log)
	must(t, err)
	w.service = service
	w.config = testConfig(pool, service, log)
	_, err = account.New(pool).Create(t.Context(), account.CreateParams{
		ID: testAccount, Currency: "USD", Available: decimal.NewFromInt(100_000_000), Actor: "test",
	})
	must(t, err)
	return w
}

func testPolicy() purchase.Policy {
	return purchase.Policy{
		RetryBase: 50 * time.Millisecond, RetryCap: 100 * time.Millisecond, Jitter: 0.2,
		MaxAttempts: 1000, MaxAge: time.Hour, RetryAfterMax: time.Minute,
		PendingGrace: 3 * time.Second, RescueAfter: 3 * time.Second,
	}
}

func testConfig(pool *pgxpool.Pool, service *purchase.Service, log *slog.Logger) Config {
	return Config{
		Pool: pool, Service: service, Concurrency: 10, RescueAfter: 3 * time.Second,
		SweepInterval: 500 * time.Millisecond, StopTimeout: 10 * time.Second, Log: log,
	}
}

func newService(pool *pgxpool.Pool, b broker.Broker, policy purchase.Policy, log *slog.Logger) (*purchase.Service, error) {
	scheduler, err := NewScheduler(pool)
	if err != nil {
		return nil, err
	}
	return purchase.New(purchase.Params{
		Pool: pool, Accounts: account.New(pool), Broker: b, Gate: broker.NewGate(broker.GateConfig{}),
		Scheduler: scheduler, Committed: func() {}, Policy: policy,
		Switches: purchase.NewSwitches(pool, log), Observer: ignore{}, Log: log,
	}), nil
}

type ignore struct{}

func (ignore) StatusChanged(purchase.Status)           {}
func (ignore) BrokerCall(_, _ string, _ time.Duration) {}
func (ignore) PassEnded(string)                        {}
func (ignore) OrphanRepaired(string)                   {}
func (ignore) Contradiction()                          {}

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

// submit makes one purchase; the broker's place stand-in decides its fate, which by
// default is UNKNOWN.
func (w *world) submit(t *testing.T) purchase.Purchase {
	t.Helper()
	result, err := w.service.Submit(t.Context(), purchase.Submission{
		AccountID: testAccount, IdempotencyKey: uuid.NewString(), Symbol: "AAPL", Metadata: "{}",
		Quantity:   decimal.NewNullDecimal(decimal.NewFromInt(10)),
		LimitPrice: decimal.NewNullDecimal(decimal.NewFromInt(25)),
	})
	must(t, err)
	return result.Purchase
}

func (w *world) status(t *testing.T, id uuid.UUID) purchase.Status {
	t.Helper()
	p, err := w.service.Get(t.Context(), id)
	must(t, err)
	return p.Status
}

// await waits until every purchase has the status.
func (w *world) await(t *testing.T, status purchase.Status, ids ...uuid.UUID) {
	t.Helper()
	eventually(t, fmt.Sprintf("purchases are %s", status), func() bool {
		for _, id := range ids {
			if w.status(t, id) != status {
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
		`SELECT id, kind, state::text AS state, attempt, args::text AS args, scheduled_at, coalesce(array_to_string(errors, ' '), '') AS errors
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

// stubBroker stands in for a broker. Without a function of the test's, a place is
// uncertain and a lookup finds the order completed.
type stubBroker struct {
	place  func(context.Context, broker.Request) broker.Answer
	lookup func(context.Context, string) broker.Answer

	places, lookups atomic.Int64
	busy            sync.Map // broker key -> *atomic.Int64
	overlaps        atomic.Int64
	running, most   atomic.Int64
}

func (b *stubBroker) Capabilities() broker.Capabilities {
	return broker.Capabilities{
		Name: "stub", Idempotent: true, KeyRetention: 24 * time.Hour, Settle: time.Hour, Timeout: time.Second,
	}
}

func (b *stubBroker) Encode(key string, order broker.Order) ([]byte, error) {
	return json.Marshal(map[string]string{"key": key, "symbol": order.Symbol})
}

func (b *stubBroker) Place(ctx context.Context, request broker.Request) broker.Answer {
	b.places.Add(1)
	if b.place != nil {
		return b.place(ctx, request)
	}
	return broker.Answer{Evidence: broker.Uncertain, Reason: broker.Timeout}
}

func (b *stubBroker) Lookup(ctx context.Context, key string) broker.Answer {
	b.lookups.Add(1)
	entry, _ := b.busy.LoadOrStore(key, new(atomic.Int64))
	if entry.(*atomic.Int64).Add(1) > 1 {
		b.overlaps.Add(1)
	}
	defer entry.(*atomic.Int64).Add(-1)
	b.note(b.running.Add(1))
	defer b.running.Add(-1)
	if b.lookup != nil {
		return b.lookup(ctx, key)
	}
	return completed(key)
}

func (b *stubBroker) note(running int64) {
	for {
		most := b.most.Load()
		if running <= most || b.most.CompareAndSwap(most, running) {
			return
		}
	}
}

func completed(key string) broker.Answer {
	return broker.Answer{Evidence: broker.Accepted, OrderID: "order-" + key, Answered: true, StatusCode: 200}
}

func undecided() broker.Answer {
	return broker.Answer{Evidence: broker.Uncertain, Reason: broker.Broker5xx, StatusCode: 503}
}

// logBuffer keeps what was logged.
type logBuffer struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
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
