package statement

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/internal/money"
	"holdfast/purchase"
	"holdfast/statement/db"
)

// ours is what is compared of a purchase.
type ours db.PurchasesBetweenRow

func (p ours) status() purchase.Status { return purchase.Status(p.Status) }

// settledBefore reports whether the purchase was final by then.
func (p ours) settledBefore(t time.Time) bool { return p.SettledAt != nil && p.SettledAt.Before(t) }

func (p ours) order() broker.Order {
	return broker.Order{
		Symbol: p.Symbol, Currency: p.Currency, Quantity: p.Quantity, LimitPrice: p.LimitPrice, Notional: p.Notional,
	}
}

// discrepancy is a finding before it is stored.
type discrepancy struct {
	kind       Kind
	key        string
	purchaseID uuid.UUID
	orderID    string
	// value is what the broker says, if the same order may differ in one way now and in
	// another later.
	value  string
	detail string
}

// subject identifies the discrepancy among those of its kind.
func (d discrepancy) subject() string { return d.key + "\n" + d.orderID + "\n" + d.value }

func unknownOrder(key string, o broker.ListedOrder) discrepancy {
	return discrepancy{
		kind: UnknownOrder, key: key, orderID: o.OrderID,
		detail: fmt.Sprintf("the broker lists %s under key %s, and no purchase has this key", describe(o), key),
	}
}

// compareOrders returns what is wrong with a purchase's listed orders, whatever its status.
// Under one key there must be one order.
func compareOrders(p ours, orders []broker.ListedOrder) []discrepancy {
	first, others := split(p, orders)
	var found []discrepancy
	for _, o := range others {
		known := "another order"
		switch {
		case first != nil:
			known = "order " + first.OrderID
		case p.BrokerOrderID != nil:
			known = "order " + *p.BrokerOrderID
		}
		found = append(found, p.discrepancy(SecondOrder, o.OrderID, "",
			fmt.Sprintf("the broker lists %s under a key that already has %s", describe(o), known)))
	}
	return found
}

// compareFinal returns what is wrong with a final purchase's listed orders. whole reports
// whether orders are all that the list has for it: only then can its order be missing.
func compareFinal(p ours, orders []broker.ListedOrder, whole bool) []discrepancy {
	first, _ := split(p, orders)
	found := compareOrders(p, orders)
	switch {
	case p.status() == purchase.Rejected:
		if first != nil && ordered(*first) {
			found = append(found, p.discrepancy(RejectedButOrdered, first.OrderID, "",
				"the purchase is rejected, and the broker lists "+describe(*first)))
		}
	case first == nil:
		if whole {
			found = append(found, p.discrepancy(CompletedButMissing, value(p.BrokerOrderID), "",
				"the purchase is completed, and the broker does not list its order"))
		}
	case !ordered(*first):
		found = append(found, p.discrepancy(CompletedButMissing, first.OrderID, "",
			"the purchase is completed, and the broker lists "+describe(*first)))
	default:
		found = append(found, compareAmounts(p, *first)...)
	}
	return found
}

// split returns the order that is the purchase's, if it is listed, and all others. If the
// purchase does not know its order, it is the oldest.
func split(p ours, orders []broker.ListedOrder) (first *broker.ListedOrder, others []broker.ListedOrder) {
	sorted := slices.SortedFunc(slices.Values(orders), func(a, b broker.ListedOrder) int {
		return cmp.Or(a.CreatedAt.Compare(b.CreatedAt), strings.Compare(a.OrderID, b.OrderID))
	})
	for _, o := range sorted {
		if first == nil && (p.BrokerOrderID == nil || *p.BrokerOrderID == o.OrderID) {
			first = &o
			continue
		}
		others = append(others, o)
	}
	return first, others
}

// ordered reports whether something was or may yet be bought. A status that is not
// understood is not a rejection.
func ordered(o broker.ListedOrder) bool {
	return o.Status != broker.Rejected || positive(o.FilledQuantity) || positive(o.Cost)
}

func positive(d decimal.NullDecimal) bool { return d.Valid && d.Decimal.IsPositive() }

func compareAmounts(p ours, o broker.ListedOrder) []discrepancy {
	var found []discrepancy
	if said := cmp.Or(o.Echo.Contradiction(p.order()), filledOtherwise(p, o)); said != "" {
		found = append(found, p.discrepancy(QuantityDiffers, o.OrderID, said, "the broker lists "+said))
	}
	if said := costOtherwise(p, o); said != "" {
		found = append(found, p.discrepancy(CostDiffers, o.OrderID, said, "the broker lists "+said))
	}
	return found
}

// filledOtherwise compares what was filled; an order that is done and does not say was
// filled whole.
func filledOtherwise(p ours, o broker.ListedOrder) string {
	filled := o.FilledQuantity
	if !filled.Valid && o.Status == broker.Accepted {
		filled = p.Quantity
	}
	if !filled.Valid || !p.FilledQuantity.Valid || filled.Decimal.Equal(p.FilledQuantity.Decimal) {
		return ""
	}
	return fmt.Sprintf("filled quantity %s, the purchase has %s",
		money.Format(filled.Decimal), money.Format(p.FilledQuantity.Decimal))
}

// costOtherwise compares the cost as purchases settle it: rounded to the currency.
func costOtherwise(p ours, o broker.ListedOrder) string {
	decimals, known := money.CurrencyDecimals(p.Currency)
	if !known || !o.Cost.Valid || !p.Cost.Valid || o.Cost.Decimal.RoundBank(decimals).Equal(p.Cost.Decimal) {
		return ""
	}
	return fmt.Sprintf("cost %s, the purchase has %s",
		money.Format(o.Cost.Decimal), money.FormatCurrency(p.Cost.Decimal, p.Currency))
}

func (p ours) discrepancy(kind Kind, orderID, value, detail string) discrepancy {
	return discrepancy{
		kind: kind, key: p.BrokerKey, purchaseID: p.ID, orderID: orderID, value: value, detail: detail,
	}
}

// describe says in a few words what the broker lists.
func describe(o broker.ListedOrder) string {
	words := []string{"order " + o.OrderID}
	if o.Echo.Symbol != nil {
		words = append(words, "of "+*o.Echo.Symbol)
	}
	if o.Account != "" {
		words = append(words, "for account "+o.Account)
	}
	words = append(words, "("+string(o.Status))
	for _, amount := range []struct {
		name  string
		value decimal.NullDecimal
	}{
		{"quantity", o.Echo.Quantity}, {"notional", o.Echo.Notional}, {"filled", o.FilledQuantity}, {"cost", o.Cost},
	} {
		if amount.value.Valid {
			words[len(words)-1] += ", " + amount.name + " " + money.Format(amount.value.Decimal)
		}
	}
	return strings.Join(words, " ") + ")"
}

func value(s *string) string {
	if s == nil {
		return ""
	}
	return *s
}
