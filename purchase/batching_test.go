package purchase_test

import (
	"sync"
	"testing"

	"holdfast/purchase"
)

// Passes share statements; each still has its own claim and its own outcome.
func TestPassesShareStatements(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("acct-2", "1000000.00")
	var lost []purchase.Purchase
	for range 20 {
		b.broker.script(always(reply{book: true, drop: true}), nil)
		sub := order()
		sub.AccountID = "acct-2"
		lost = append(lost, b.submit(sub))
	}
	b.broker.script(nil, nil)
	taken := b.submit(order()).Response.OrderID
	b.broker.script(nil, func(key string) reply {
		if key == lost[0].BrokerKey {
			return reply{status: 200, body: map[string]any{"order_id": *taken, "client_order_id": key, "status": "completed"}}
		}
		return reply{status: 200}
	})
	b.exec("UPDATE transaction_history SET next_retry = now() WHERE status = 'UNKNOWN'")
	var wg sync.WaitGroup
	for _, p := range lost {
		for range 3 {
			wg.Go(func() {
				if _, err := b.Pass(t.Context(), p.ID, 0); err != nil {
					t.Error(err)
				}
			})
		}
	}
	wg.Wait()
	for i, p := range lost {
		if n := b.broker.lookups[p.BrokerKey]; n != 1 {
			t.Errorf("%d lookups of one purchase", n)
		}
		want := purchase.Completed
		if i == 0 {
			want = purchase.ManualReview
		}
		if got := b.get(p.ID); got.Status != want || got.Attempts != 1 {
			t.Errorf("purchase %d is %s after %d attempts, want %s after 1", i, got.Status, got.Attempts, want)
		}
	}
	b.audit()
}

func TestOneTransitionPerPurchaseAndStatement(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, err := b.Abandon(t.Context(), order())
	if err != nil {
		t.Fatal(err)
	}
	applied, again := b.ApplyTwice(t.Context(), p)
	if want := [2]bool{true, false}; applied != want || again != [2]bool{false, true} {
		t.Errorf("applied %v, to run again alone %v", applied, again)
	}
	if got := b.get(p.ID); got.Status != purchase.Unknown || got.Version != 2 {
		t.Errorf("purchase is %s in version %d", got.Status, got.Version)
	}
}
