package purchase_test

import (
	"testing"

	"github.com/shopspring/decimal"

	"holdfast/purchase"
)

// amounts are ten shares at 25.00 (250.00 reserved), answered with other amounts.
var amounts = []struct {
	name, status, cost, filled string
	want                       purchase.Status
	spent, note                string
}{
	{"WholeWithoutCost", "completed", "", "", purchase.Completed, "250.00", ""},
	{"PartWithoutCost", "completed", "", "4", purchase.Completed, "100.00", "cost_assumed"},
	{"PartWithCost", "completed", "99.00", "4", purchase.Completed, "99.00", ""},
	{"PartRoundedUp", "completed", "", "0.0001", purchase.Completed, "0.01", "cost_assumed"},
	{"MoreDecimalsThanTheCurrency", "completed", "250.00000000000003", "", purchase.Completed, "250.00", "cost_rounded"},
	{"HalfDownToEven", "completed", "249.985", "", purchase.Completed, "249.98", "cost_rounded"},
	{"HalfUpToEven", "completed", "249.975", "", purchase.Completed, "249.98", "cost_rounded"},
	{"ZerosBehind", "completed", "250.000", "", purchase.Completed, "250.00", ""},
	{"TenTimesReserved", "completed", "2500.00", "", purchase.Completed, "2500.00", "cost_above_reserved"},
	{"MoreThanTenTimes", "completed", "2500.01", "", purchase.Unknown, "", ""},
	{"Free", "completed", "0.00", "", purchase.Unknown, "", ""},
	{"NothingFilled", "completed", "", "0", purchase.Unknown, "", ""},
	{"MoreFilledThanOrdered", "completed", "", "10.5", purchase.Unknown, "", ""},
	{"RejectedWithSomethingFilled", "rejected", "", "1", purchase.Unknown, "", ""},
	{"RejectedWithSomethingPaid", "rejected", "1.00", "", purchase.Unknown, "", ""},
	{"RejectedWithZeros", "rejected", "0.00", "0", purchase.Rejected, "0.00", ""},
}

func body(order map[string]any, status, cost, filled string) map[string]any {
	answer := booked(order, 1)
	answer["status"] = status
	if cost != "" {
		answer["cost"] = cost
	}
	if filled != "" {
		answer["filled_quantity"] = filled
	}
	return answer
}

func (b *bundle) wantAmounts(p purchase.Purchase, want purchase.Status, spent, note string) {
	b.t.Helper()
	if p.Status != want {
		b.t.Fatalf("purchase is %s, want %s", p.Status, want)
	}
	if note != "" && b.count("SELECT count(*) FROM purchase_note WHERE transaction_id = $1 AND code = $2", p.ID, note) != 1 {
		b.t.Errorf("no note %s", note)
	}
	if !want.Final() {
		if *p.Reason != "unconfirmed_response" {
			b.t.Errorf("reason is %s", *p.Reason)
		}
		b.wantMoney("9750.00", "250.00", "0.00")
		return
	}
	cost := decimal.RequireFromString(spent)
	b.wantMoney(decimal.RequireFromString("10000.00").Sub(cost).StringFixed(2), "0.00", spent)
	if n := b.count("SELECT max(scale(available)) FROM account"); n > 2 {
		b.t.Errorf("the balance has %d decimals", n)
	}
}

func TestAmountsOfTheFirstAnswer(t *testing.T) {
	t.Parallel()
	for _, c := range amounts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.deposit("acct-1", "9000.00")
			b.broker.script(func(order map[string]any) reply {
				return reply{status: 200, body: body(order, c.status, c.cost, c.filled)}
			}, nil)
			p := b.submit(order())
			b.wantAmounts(p, c.want, c.spent, c.note)
			b.audit()
		})
	}
}

// The same holds for what a lookup says.
func TestAmountsOfALookup(t *testing.T) {
	t.Parallel()
	for _, c := range amounts {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.deposit("acct-1", "9000.00")
			var placed map[string]any
			b.broker.script(func(order map[string]any) reply {
				placed = order
				return reply{book: true, drop: true}
			}, func(string) reply {
				return reply{status: 200, body: body(placed, c.status, c.cost, c.filled)}
			})
			p := b.submit(order())
			b.pass(p.ID)
			b.wantAmounts(b.get(p.ID), c.want, c.spent, c.note)
			b.audit()
		})
	}
}
