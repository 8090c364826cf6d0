package purchase_test

import (
	"errors"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/purchase"
)

// inReview submits a purchase and brings it into MANUAL_REVIEW.
func (b *bundle) inReview(book bool) purchase.Purchase {
	b.t.Helper()
	p := b.lost(book)
	b.broker.script(nil, alwaysFor(reply{status: 500}))
	b.age(p.ID, 13*time.Hour)
	b.pass(p.ID)
	b.broker.script(nil, nil)
	return b.get(p.ID)
}

func TestResolve(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.inReview(false)
	word := purchase.Resolution{
		ID: p.ID, Outcome: purchase.OutcomeCompleted, Note: "seen in the broker's books", OrderID: "77",
		Cost: decimal.NewNullDecimal(decimal.RequireFromString("249")), Actor: "operator:k1",
	}
	done, err := b.Resolve(t.Context(), word)
	if err != nil {
		t.Fatal(err)
	}
	b.wantEnd(done, purchase.Completed, "", purchase.ByOperator)
	if !done.FilledQuantity.Decimal.Equal(done.Order.Quantity.Decimal) {
		t.Errorf("filled %s, want the whole quantity", done.FilledQuantity.Decimal)
	}
	b.wantMoney("751.00", "0.00", "249.00")
	if _, err := b.Resolve(t.Context(), word); err != nil {
		t.Errorf("the same word again: %v", err)
	}
	word.Outcome = purchase.OutcomeRejected
	if _, err := b.Resolve(t.Context(), word); !errors.Is(err, purchase.ErrAlreadySettled) {
		t.Errorf("another word: %v, want ErrAlreadySettled", err)
	}
	b.wantMoney("751.00", "0.00", "249.00")
	b.audit()
}

func TestResolveRefuses(t *testing.T) {
	t.Parallel()
	b := setup(t)
	completed := b.submit(order())
	pending, err := b.Abandon(t.Context(), order())
	if err != nil {
		t.Fatal(err)
	}
	review := b.inReview(false)
	taken := *completed.Response.OrderID
	cases := []struct {
		name    string
		id      uuid.UUID
		orderID string
		want    error
	}{
		{"SettledByTheBroker", completed.ID, "", purchase.ErrAlreadySettled},
		{"Pending", pending.ID, "", purchase.ErrNotResolvable},
		{"Nothing", uuid.New(), "", purchase.ErrNotFound},
		{"OrderOfAnother", review.ID, taken, purchase.ErrOrderIDTaken},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			_, err := b.Resolve(t.Context(), purchase.Resolution{
				ID: c.id, Outcome: purchase.OutcomeCompleted, Note: "n", OrderID: c.orderID, Actor: "operator:k1",
			})
			if !errors.Is(err, c.want) {
				t.Errorf("error is %v, want %v", err, c.want)
			}
		})
	}
	b.audit()
}

func TestReconcileAgainStartsAfresh(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.inReview(true)
	again, err := b.Reconcile(t.Context(), p.ID, "operator:k1")
	if err != nil {
		t.Fatal(err)
	}
	b.wantEnd(again, purchase.Unknown, "reconcile_requested", "")
	if again.Attempts != 0 {
		t.Errorf("%d attempts, want 0", again.Attempts)
	}
	b.audit()
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByLookup)
	b.audit()
	if _, err := b.Reconcile(t.Context(), p.ID, "operator:k1"); !errors.Is(err, purchase.ErrNotReconcilable) {
		t.Errorf("error is %v, want ErrNotReconcilable", err)
	}
}

func TestReconcileKeepsTheKeysAge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.inReview(false)
	b.age(p.ID, 12*time.Hour)
	if _, err := b.Reconcile(t.Context(), p.ID, "operator:k1"); err != nil {
		t.Fatal(err)
	}
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "key_expired", "")
	if n := b.count("SELECT count(*) FROM alert WHERE transaction_id = $1", p.ID); n != 2 {
		t.Errorf("%d alerts for two reviews", n)
	}
	b.audit()
}

func TestBulkReconciliation(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec("UPDATE account SET available = 100000, deposited = 100000 WHERE id = 'acct-1'")
	b.exec("UPDATE deposit SET amount = 100000 WHERE account_id = 'acct-1'")
	first, second := b.inReview(true), b.inReview(true)
	bulk := purchase.BulkReconciliation{Status: purchase.ManualReview, DryRun: true, Actor: "operator:k1"}
	dry, err := b.ReconcileMany(t.Context(), bulk)
	if err != nil || len(dry) != 2 || b.get(first.ID).Status != purchase.ManualReview {
		t.Fatalf("a dry run selects %d (%v), want 2 and no change", len(dry), err)
	}
	reason := "key_expired"
	bulk.DryRun, bulk.Reason = false, &reason
	if none, err := b.ReconcileMany(t.Context(), bulk); err != nil || len(none) != 0 {
		t.Errorf("another reason selects %d (%v)", len(none), err)
	}
	bulk.Reason = nil
	if done, err := b.ReconcileMany(t.Context(), bulk); err != nil || len(done) != 2 {
		t.Errorf("reconciled %d (%v), want 2", len(done), err)
	}
	bulk.Status = purchase.Unknown
	if done, err := b.ReconcileMany(t.Context(), bulk); err != nil || len(done) != 2 {
		t.Errorf("made %d due (%v), want 2", len(done), err)
	}
	b.wantEnd(b.get(second.ID), purchase.Unknown, "reconcile_requested", "")
	b.audit()
}

// A bulk reconciliation that waits in a circle with somebody else gives way, and goes on
// when the other one has ended.
func TestBulkGivesWay(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, second := b.lost(true), b.lost(true)
	other, err := b.pool.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	lock := func(p purchase.Purchase) {
		if _, err := other.Exec(t.Context(), "SELECT FROM transaction_history WHERE id = $1 FOR UPDATE", p.ID); err != nil {
			t.Error(err)
		}
	}
	// The other one has all the time in the world: it is not the one to give way.
	if _, err := other.Exec(t.Context(), "SET LOCAL deadlock_timeout = '1min'"); err != nil {
		t.Fatal(err)
	}
	lock(second)
	reconciled := make(chan int, 1)
	go func() {
		done, err := b.ReconcileMany(t.Context(), purchase.BulkReconciliation{Status: purchase.Unknown, Actor: "operator:k1"})
		if err != nil {
			t.Error(err)
		}
		reconciled <- len(done)
	}()
	b.awaitWaiting("ManyDueNow")
	lock(first)
	if err := other.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	if n := <-reconciled; n != 2 {
		t.Errorf("reconciled %d, want 2", n)
	}
}

func TestSweepMakesJobsForOrphans(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	b.exec("DELETE FROM river_job")
	if n, err := b.SweepOrphans(t.Context()); n != 1 || err != nil {
		t.Fatalf("repaired %d (%v), want 1", n, err)
	}
	if n, err := b.SweepOrphans(t.Context()); n != 0 || err != nil {
		t.Errorf("repaired %d (%v) again, want none", n, err)
	}
	if n := b.count("SELECT count(*) FROM river_job WHERE args ->> 'transaction_id' = $1", p.ID); n != 1 {
		t.Errorf("%d jobs, want 1", n)
	}
	b.audit()
}

func TestInterruptedPurchaseIsFoundOut(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, err := b.Abandon(t.Context(), order())
	if err != nil {
		t.Fatal(err)
	}
	if n, err := b.SweepPending(t.Context()); n != 0 || err != nil {
		t.Fatalf("within its grace: swept %d (%v)", n, err)
	}
	b.age(p.ID, 2*time.Minute)
	if n, err := b.SweepPending(t.Context()); n != 1 || err != nil {
		t.Fatalf("past its grace: swept %d (%v)", n, err)
	}
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByReplay)
	b.wantMoney("750.00", "0.00", "250.00")
	b.audit()
}

func TestLateReplyToASweptPurchase(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		answer reply
		passed bool
		status purchase.Status
	}{
		{"Completed", reply{book: true, status: 200}, false, purchase.Completed},
		{"CompletedAfterAPass", reply{book: true, status: 200}, true, purchase.Completed},
		{"Refused", reply{status: 422}, false, purchase.Rejected},
		{"RefusedAfterAPass", reply{status: 422}, true, purchase.Unknown},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.broker.script(func(map[string]any) reply {
				b.exec("UPDATE transaction_history SET created_at = created_at - interval '1 hour', send_until = send_until - interval '1 hour'")
				if n, err := b.SweepPending(t.Context()); n != 1 || err != nil {
					t.Errorf("swept %d (%v), want 1", n, err)
				}
				if c.passed {
					b.exec("UPDATE transaction_history SET claim = 1")
				}
				return c.answer
			}, nil)
			p := b.submit(order())
			if p.Status != c.status {
				t.Errorf("purchase is %s, want %s", p.Status, c.status)
			}
			b.audit()
		})
	}
}

// resolveRejected is an operator who has asked the broker and found nothing.
func (b *bundle) resolveRejected(p purchase.Purchase) (purchase.Purchase, error) {
	return b.Resolve(b.t.Context(), purchase.Resolution{
		ID: p.ID, Outcome: purchase.OutcomeRejected, Note: "no such order at the broker", Actor: "operator:k1",
	})
}
