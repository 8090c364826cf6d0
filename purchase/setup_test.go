package purchase_test

import (
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/internal/audit"
	"holdfast/internal/testkit/pgtest"
	"holdfast/jobs"
	"holdfast/purchase"
)

// bundle is a service over a real database and a real wire to a fake broker.
type bundle struct {
	*purchase.Service
	t        *testing.T
	pool     *pgxpool.Pool
	accounts *account.Store
	broker   *fakeBroker
	wire     broker.Broker
	switches *purchase.Switches
	seen     *counts
	policy   purchase.Policy
}

// counts is the observer of a test.
type counts struct {
	contradictions atomic.Int64
	pending, jobs  atomic.Int64
}

func (c *counts) StatusChanged(purchase.Status)            {}
func (c *counts) BrokerCall(string, string, time.Duration) {}
func (c *counts) PassEnded(string)                         {}
func (c *counts) Contradiction()                           { c.contradictions.Add(1) }
func (c *counts) OrphanRepaired(kind string) {
	if kind == "pending" {
		c.pending.Add(1)
	} else {
		c.jobs.Add(1)
	}
}

// option changes the settings of a test's service.
type option func(*purchase.Policy, *httpbroker.Config, *broker.GateConfig)

func setup(t *testing.T, options ...option) *bundle {
	t.Helper()
	return setupIn(t, pgtest.New(t), options...)
}

// setupOn is a setup in a cluster of the test's own.
func setupOn(t *testing.T, cluster *pgtest.Cluster, options ...option) *bundle {
	t.Helper()
	pool, err := pgxpool.New(t.Context(), cluster.URL())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(pool.Close)
	return setupIn(t, pool, options...)
}

func setupIn(t *testing.T, pool *pgxpool.Pool, options ...option) *bundle {
	t.Helper()
	fake := newFakeBroker(t)
	policy := purchase.Policy{
		RetryBase: time.Minute, RetryCap: 30 * time.Minute, Jitter: 0.2, MaxAttempts: 20,
		MaxAge: 12 * time.Hour, RetryAfterMax: time.Hour, PendingGrace: time.Minute, RescueAfter: 2 * time.Minute,
	}
	wire := httpbroker.Config{
		URL: fake.URL, Timeout: 2 * time.Second, KeyRetention: 24 * time.Hour, Settle: 10 * time.Second, Idempotent: true,
	}
	var gate broker.GateConfig
	for _, o := range options {
		o(&policy, &wire, &gate)
	}
	b := &bundle{t: t, pool: pool, accounts: account.New(pool), broker: fake, seen: &counts{}, policy: policy}
	b.switches = purchase.NewSwitches(pool, slog.New(slog.DiscardHandler))
	b.Service = b.service(wire, gate)
	b.fund("acct-1", "1000.00")
	return b
}

func (b *bundle) service(wire httpbroker.Config, gate broker.GateConfig) *purchase.Service {
	b.t.Helper()
	client, err := httpbroker.New(wire)
	if err != nil {
		b.t.Fatal(err)
	}
	b.wire = client
	return b.serviceOver(client, gate)
}

// serviceOver is a service, as in another process, that reaches the broker through over.
func (b *bundle) serviceOver(over broker.Broker, gate broker.GateConfig) *purchase.Service {
	b.t.Helper()
	scheduler, err := jobs.NewScheduler(b.pool)
	if err != nil {
		b.t.Fatal(err)
	}
	return purchase.New(purchase.Params{
		Pool: b.pool, Accounts: b.accounts, Brokers: purchase.NewBrokers(purchase.Member{Broker: over, Gate: broker.NewGate(gate), Policy: b.policy}), Scheduler: scheduler, Alerts: alert.New(b.pool, scheduler, slog.New(slog.DiscardHandler)),
		Committed: func() {}, Switches: b.switches, Observer: b.seen, Log: slog.New(slog.DiscardHandler),
	})
}

func (b *bundle) fund(id, available string) {
	b.t.Helper()
	_, err := b.accounts.Create(b.t.Context(), account.CreateParams{
		ID: id, Currency: "USD", Available: decimal.RequireFromString(available), Actor: "operator:test",
	})
	if err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) deposit(id, amount string) {
	b.t.Helper()
	b.exec("UPDATE account SET available = available + $2::numeric, deposited = deposited + $2::numeric WHERE id = $1", id, amount)
	b.exec("INSERT INTO deposit (id, account_id, idempotency_key, amount, actor) VALUES (gen_random_uuid(), $1, gen_random_uuid()::text, $2::numeric, 'test')", id, amount)
}

// order is ten shares at 25.00 under a key of its own.
func order() purchase.Submission {
	return purchase.Submission{
		AccountID: "acct-1", IdempotencyKey: uuid.NewString(), Symbol: "AAPL", Metadata: "{}",
		Quantity:   decimal.NewNullDecimal(decimal.RequireFromString("10")),
		LimitPrice: decimal.NewNullDecimal(decimal.RequireFromString("25.00")),
	}
}

func (b *bundle) submit(sub purchase.Submission) purchase.Purchase {
	b.t.Helper()
	result, err := b.Submit(b.t.Context(), sub)
	if err != nil {
		b.t.Fatalf("submit: %v", err)
	}
	return result.Purchase
}

// pass makes one pass, due or not.
func (b *bundle) pass(id uuid.UUID) purchase.PassOutcome {
	b.t.Helper()
	b.exec("UPDATE transaction_history SET next_retry = now() WHERE id = $1 AND status = 'UNKNOWN'", id)
	outcome, err := b.Pass(b.t.Context(), id, 0)
	if err != nil {
		b.t.Fatalf("pass: %v", err)
	}
	return outcome
}

// age makes everything about a purchase so much older.
func (b *bundle) age(id uuid.UUID, by time.Duration) {
	b.t.Helper()
	b.exec(`UPDATE transaction_history SET created_at = created_at - $2::interval, send_until = send_until - $2::interval,
	        send_ended_at = send_ended_at - $2::interval, absent_at = absent_at - $2::interval,
	        valid_until = valid_until - $2::interval, unknown_since = unknown_since - $2::interval WHERE id = $1`, id, by)
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) get(id uuid.UUID) purchase.Purchase {
	b.t.Helper()
	p, err := b.Get(b.t.Context(), id)
	if err != nil {
		b.t.Fatal(err)
	}
	return p
}

func (b *bundle) count(sql string, args ...any) int {
	b.t.Helper()
	var n int
	if err := b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// wantMoney checks the balances of acct-1.
func (b *bundle) wantMoney(available, reserved, spent string) {
	b.t.Helper()
	acc, err := b.accounts.Get(b.t.Context(), "acct-1")
	if err != nil {
		b.t.Fatal(err)
	}
	got := [3]string{acc.Available.StringFixed(2), acc.Reserved.StringFixed(2), acc.Spent.StringFixed(2)}
	if got != [3]string{available, reserved, spent} {
		b.t.Errorf("available, reserved, spent are %v, want %v", got, [3]string{available, reserved, spent})
	}
}

// audit proves the invariants of the contract. No relay runs here, so the outbox is
// logged by hand first.
func (b *bundle) audit() {
	b.t.Helper()
	b.exec(`INSERT INTO purchase_event (id, transaction_id, account_id, version, status, previous_status, reason,
	                                    occurred_at, logged_at)
	        SELECT id, transaction_id, account_id, version, status, previous_status, reason, occurred_at, now()
	        FROM outbox ON CONFLICT DO NOTHING`)
	b.exec("DELETE FROM outbox")
	report, err := audit.Run(b.t.Context(), b.pool, audit.Params{
		PendingGrace: b.policy.PendingGrace, SweepInterval: time.Minute, EventRetention: 168 * time.Hour,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	for _, breach := range report.Breaches {
		b.t.Errorf("audit: invariant %d, %s: %s", breach.Invariant, breach.Subject, breach.Detail)
	}
}
