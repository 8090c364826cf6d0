package purchase

import (
	"fmt"

	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/internal/money"
)

// maxCostFactor is how many times the amount reserved a cost may be; a higher one is an
// error of the broker's, such as cents sent as dollars.
var maxCostFactor = decimal.NewFromInt(10)

// weigh compares an answer with the purchase it is for, on the first call and on passes
// alike: whether it names another order, whether its amounts can be true, and what they
// are in the purchase's currency. An answer that contradicts itself proves nothing: it
// becomes uncertain, with reason unconfirmed_response.
func weigh(r row, by exchange) exchange {
	a := &by.answer
	if found(*a) {
		by.mismatch = a.Echo.Contradiction(orderOf(r))
	}
	if other := otherOrder(r, *a); other != "" {
		by.mismatch = other
	}
	settles := a.Verdict == broker.Accepted || a.Verdict == broker.Rejected
	if by.mismatch != "" || !settles {
		return by
	}
	if contradictory(r, *a) {
		a.Verdict, a.Reason = broker.Uncertain, broker.UnconfirmedResponse
		return by
	}
	if a.Verdict == broker.Accepted {
		a.Cost, by.note = costOf(r, *a)
	}
	return by
}

// otherOrder returns in what an answer names another order than the broker named under this
// key before, or nothing.
func otherOrder(r row, a broker.Answer) string {
	if r.BrokerOrderID == nil || a.OrderID == "" || a.OrderID == *r.BrokerOrderID {
		return ""
	}
	return fmt.Sprintf("order %s, but it named order %s before", a.OrderID, *r.BrokerOrderID)
}

// contradictory reports whether an answer's amounts contradict its status: bought for
// nothing, bought without a share, more than was ordered, at a cost that is out of all
// proportion; or rejected with something filled or paid.
func contradictory(r row, a broker.Answer) bool {
	filled, cost := a.FilledQuantity, a.Cost
	if a.Verdict == broker.Rejected {
		return positive(filled) || positive(cost)
	}
	return filled.Valid && !filled.Decimal.IsPositive() ||
		cost.Valid && !cost.Decimal.IsPositive() ||
		filled.Valid && r.Quantity.Valid && filled.Decimal.GreaterThan(r.Quantity.Decimal) ||
		cost.Valid && cost.Decimal.GreaterThan(r.Hold.Mul(maxCostFactor))
}

func positive(d decimal.NullDecimal) bool { return d.Valid && d.Decimal.IsPositive() }

// costOf returns the cost of a completed purchase; it is not valid if that is the whole
// amount reserved. A balance never gets more decimals than its currency has.
func costOf(r row, a broker.Answer) (decimal.NullDecimal, note) {
	decimals, _ := money.CurrencyDecimals(r.Currency)
	if a.Cost.Valid {
		rounded := a.Cost.Decimal.RoundBank(decimals)
		if rounded.Equal(a.Cost.Decimal) {
			return decimal.NewNullDecimal(rounded), note{}
		}
		return decimal.NewNullDecimal(rounded), note{"cost_rounded",
			fmt.Sprintf("the broker says cost %s; settled at %s", a.Cost.Decimal, rounded)}
	}
	partial := a.FilledQuantity.Valid && r.Quantity.Valid && !a.FilledQuantity.Decimal.Equal(r.Quantity.Decimal)
	if !partial {
		return decimal.NullDecimal{}, note{}
	}
	assumed := a.FilledQuantity.Decimal.Mul(r.LimitPrice.Decimal).RoundCeil(decimals)
	return decimal.NewNullDecimal(assumed), note{"cost_assumed",
		fmt.Sprintf("filled %s of %s and the broker gave no cost; %s assumed, at the limit price",
			a.FilledQuantity.Decimal, r.Quantity.Decimal, assumed)}
}
