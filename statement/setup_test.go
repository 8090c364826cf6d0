package statement_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/alert"
	"holdfast/broker"
	"holdfast/internal/testkit/pgtest"
	"holdfast/jobs"
	"holdfast/purchase"
	"holdfast/statement"
)

// lister is a broker that keeps its list in memory and pages through it. It takes every
// order, unless it is told to lose the answers.
type lister struct {
	mu      sync.Mutex
	orders  []broker.ListedOrder
	page    int
	silent  bool
	failing error
	windows []broker.Window
}

func (l *lister) Capabilities() broker.Capabilities {
	return broker.Capabilities{Name: "test", Idempotent: true, KeyRetention: 24 * time.Hour, Settle: time.Second, Timeout: time.Second}
}

func (l *lister) Encode(key string, _ broker.Order) ([]byte, error) { return []byte(key), nil }

func (l *lister) Lookup(context.Context, broker.Query) broker.Answer {
	return broker.Answer{Verdict: broker.Uncertain, Reason: broker.Timeout}
}

func (l *lister) Place(_ context.Context, request broker.Request) broker.Answer {
	if l.silent {
		return broker.Answer{Verdict: broker.Uncertain, Reason: broker.Timeout}
	}
	return broker.Answer{Verdict: broker.Accepted, OrderID: "order of " + request.Key, StatusCode: 201, Answered: true}
}

func (l *lister) List(_ context.Context, w broker.Window) (broker.Page, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failing != nil {
		return broker.Page{}, l.failing
	}
	l.windows = append(l.windows, w)
	var inside []broker.ListedOrder
	for _, o := range l.orders {
		if !o.CreatedAt.Before(w.Since) && o.CreatedAt.Before(w.Until) {
			inside = append(inside, o)
		}
	}
	from, _ := strconv.Atoi(w.Cursor)
	to := min(from+l.page, len(inside))
	page := broker.Page{Orders: inside[min(from, to):to]}
	if to < len(inside) {
		page.NextCursor = strconv.Itoa(to)
	}
	return page, nil
}

func (l *lister) lists(o ...broker.ListedOrder) { l.orders = append(l.orders, o...) }

// bundle is a matcher over a real database.
type bundle struct {
	*statement.Matcher
	*statement.Findings
	t         testing.TB
	pool      *pgxpool.Pool
	broker    *lister
	purchases *purchase.Service
	params    statement.Params
	template  uuid.UUID
}

func setup(t testing.TB) *bundle {
	t.Helper()
	b := &bundle{t: t, pool: pgtest.New(t), broker: &lister{page: 2}}
	accounts := account.New(b.pool)
	_, err := accounts.Create(t.Context(), account.CreateParams{
		ID: "acct-1", Currency: "USD", Available: decimal.NewFromInt(100_000_000), Actor: "operator:test",
	})
	if err != nil {
		t.Fatal(err)
	}
	scheduler, err := jobs.NewScheduler(b.pool)
	if err != nil {
		t.Fatal(err)
	}
	log, gate := slog.New(slog.DiscardHandler), broker.NewGate(broker.GateConfig{})
	b.purchases = purchase.New(purchase.Params{
		Pool: b.pool, Accounts: accounts, Scheduler: scheduler, Alerts: alert.New(b.pool, scheduler, slog.New(slog.DiscardHandler)), Committed: func() {},
		Brokers: purchase.NewBrokers(purchase.Member{
			Broker: b.broker, Gate: gate,
			Policy: purchase.Policy{
				RetryBase: time.Minute, RetryCap: time.Hour, MaxAttempts: 20, MaxAge: 12 * time.Hour,
				PendingGrace: time.Minute, RescueAfter: 2 * time.Minute,
			},
		}),
		Switches: purchase.NewSwitches(b.pool, log), Observer: noopObserver{}, Log: log,
	})
	b.params = statement.Params{
		Pool: b.pool, Purchases: b.purchases, Alerts: alert.New(b.pool, scheduler, log), Broker: b.broker, Gate: gate, Interval: 15 * time.Minute, Log: log,
	}
	b.Matcher, b.Findings = statement.New(b.params), statement.NewFindings(b.pool)
	b.template = b.buy()
	b.exec("UPDATE transaction_history SET created_at = created_at - interval '3 days' WHERE id = $1", b.template)
	return b
}

type noopObserver struct{}

func (noopObserver) StatusChanged(purchase.Status)            {}
func (noopObserver) BrokerCall(string, string, time.Duration) {}
func (noopObserver) PassEnded(string)                         {}
func (noopObserver) Contradiction()                           {}
func (noopObserver) OrphanRepaired(string)                    {}

// buy submits a purchase of ten shares at 25.00.
func (b *bundle) buy() uuid.UUID {
	b.t.Helper()
	result, err := b.purchases.Submit(b.t.Context(), purchase.Submission{
		AccountID: "acct-1", IdempotencyKey: uuid.NewString(), Symbol: "AAPL", Metadata: "{}",
		Quantity:   decimal.NewNullDecimal(decimal.NewFromInt(10)),
		LimitPrice: decimal.NewNullDecimal(decimal.RequireFromString("25.00")),
	})
	if err != nil {
		b.t.Fatal(err)
	}
	return result.Purchase.ID
}

// has adds a purchase of the given age, completed within a second unless columns say
// otherwise, and returns its broker key.
func (b *bundle) has(age time.Duration, columns map[string]any) string {
	b.t.Helper()
	created := time.Now().Add(-age)
	key := newKey()
	row := map[string]any{
		"id": idAt(created), "idempotency_key": key, "broker_key": key, "broker_order_id": "order of " + key,
		"created_at": created, "updated_at": created, "settled_at": created.Add(time.Second),
	}
	for name, v := range columns {
		row[name] = v
	}
	text, err := json.Marshal(row)
	if err != nil {
		b.t.Fatal(err)
	}
	b.exec(`INSERT INTO transaction_history
	        SELECT copied.* FROM transaction_history t, jsonb_populate_record(t, $2) copied WHERE t.id = $1`, b.template, text)
	return key
}

// rejected are the columns of a REJECTED purchase, unknown those of an UNKNOWN one.
var (
	rejected = map[string]any{"status": "REJECTED", "reason": "market_closed", "cost": nil, "filled_quantity": nil, "broker_order_id": nil}
	unknown  = map[string]any{
		"status": "UNKNOWN", "reason": "timeout", "cost": nil, "filled_quantity": nil, "broker_order_id": nil,
		"settled_at": nil, "evidence": nil, "next_retry": time.Now().Add(time.Hour), "unknown_since": time.Now(),
	}
)

func newKey() string { return "hf-" + strings.ReplaceAll(uuid.NewString(), "-", "") }

func idAt(t time.Time) uuid.UUID {
	id := uuid.Must(uuid.NewV7())
	ms := t.UnixMilli()
	for i := range 6 {
		id[5-i] = byte(ms >> (8 * i))
	}
	return id
}

// order is the order of a purchase as the broker lists it.
func order(key string, age time.Duration) broker.ListedOrder {
	symbol := "AAPL"
	return broker.ListedOrder{
		OrderID: "order of " + key, Key: key, Status: broker.Accepted, CreatedAt: time.Now().Add(-age),
		Cost: amount("250"), FilledQuantity: amount("10"), Echo: broker.Echo{Symbol: &symbol, Quantity: amount("10")},
	}
}

func with(o broker.ListedOrder, change func(*broker.ListedOrder)) broker.ListedOrder {
	change(&o)
	return o
}

func amount(s string) decimal.NullDecimal {
	return decimal.NewNullDecimal(decimal.RequireFromString(s))
}

func (b *bundle) exec(sql string, args ...any) {
	b.t.Helper()
	if _, err := b.pool.Exec(b.t.Context(), sql, args...); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) count(sql string, args ...any) (n int) {
	b.t.Helper()
	if err := b.pool.QueryRow(b.t.Context(), sql, args...).Scan(&n); err != nil {
		b.t.Fatal(err)
	}
	return n
}

// match compares the past day.
func (b *bundle) match() statement.Report {
	b.t.Helper()
	report, err := b.Match(b.t.Context(), statement.Range{})
	if err != nil {
		b.t.Fatalf("match: %v", err)
	}
	return report
}

// turn makes one turn of the loop, whether or not one is due.
func (b *bundle) turn() {
	b.t.Helper()
	b.exec("UPDATE statement_match SET due_at = now()")
	if err := b.Turn(b.t.Context()); err != nil {
		b.t.Fatalf("turn: %v", err)
	}
}

// wantOpen checks the open findings, each as "kind order", in any order.
func (b *bundle) wantOpen(want ...string) []statement.Finding {
	b.t.Helper()
	open := true
	findings, err := b.List(b.t.Context(), statement.ListParams{Open: &open, Limit: 500})
	if err != nil {
		b.t.Fatal(err)
	}
	got := make([]string, len(findings))
	for i, f := range findings {
		got[i] = string(f.Kind)
		if f.OrderID != nil {
			got[i] = fmt.Sprintf("%s %s", f.Kind, *f.OrderID)
		}
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		b.t.Fatalf("open findings are %q, want %q", got, want)
	}
	return findings
}

var errDown = errors.New("connection refused")
