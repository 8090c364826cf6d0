package statement_test

import (
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/statement"
)

func TestListsThatAgreeHaveNoFindings(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for range 5 { // three pages
		b.broker.lists(order(b.has(time.Hour, nil), time.Hour))
	}
	b.has(time.Hour, rejected)
	b.broker.lists(with(order(b.has(time.Hour, rejected), time.Hour), func(o *broker.ListedOrder) {
		o.Status, o.Cost, o.FilledQuantity = broker.Rejected, amount("0"), amount("0")
	}))
	report := b.match()
	b.wantOpen()
	if report.Orders != 6 || report.Purchases != 7 || report.Foreign != 0 {
		t.Errorf("compared %d orders, %d foreign, and %d purchases, want 6, 0 and 7", report.Orders, report.Foreign, report.Purchases)
	}
}

func TestEachDiscrepancyIsAFinding(t *testing.T) {
	t.Parallel()
	const age = time.Hour
	for name, c := range map[string]struct {
		given func(*bundle) string
		want  statement.Kind
	}{
		"UnknownOrder": {func(b *bundle) string {
			key := newKey()
			b.broker.lists(order(key, age))
			return key
		}, statement.UnknownOrder},
		"SecondOrder": {func(b *bundle) string {
			key := b.has(age, nil)
			b.broker.lists(order(key, age), with(order(key, age), func(o *broker.ListedOrder) { o.OrderID = "order of second" }))
			return "second"
		}, statement.SecondOrder},
		"RejectedButOrdered": {func(b *bundle) string {
			key := b.has(age, rejected)
			b.broker.lists(order(key, age))
			return key
		}, statement.RejectedButOrdered},
		"RejectedButOrderIsOpen": {func(b *bundle) string {
			key := b.has(age, rejected)
			b.broker.lists(with(order(key, age), func(o *broker.ListedOrder) { o.Status = broker.Processing }))
			return key
		}, statement.RejectedButOrdered},
		"CompletedButMissing": {func(b *bundle) string { return b.has(age, nil) }, statement.CompletedButMissing},
		"CompletedButListedAsRejected": {func(b *bundle) string {
			key := b.has(age, nil)
			b.broker.lists(with(order(key, age), func(o *broker.ListedOrder) {
				o.Status, o.Cost, o.FilledQuantity = broker.Rejected, amount("0"), amount("0")
			}))
			return key
		}, statement.CompletedButMissing},
		"QuantityDiffers": {func(b *bundle) string {
			key := b.has(age, nil)
			b.broker.lists(with(order(key, age), func(o *broker.ListedOrder) { o.FilledQuantity = amount("9") }))
			return key
		}, statement.QuantityDiffers},
		"AnotherOrderWasPlaced": {func(b *bundle) string {
			key := b.has(age, nil)
			b.broker.lists(with(order(key, age), func(o *broker.ListedOrder) { o.Echo.Quantity = amount("100") }))
			return key
		}, statement.QuantityDiffers},
		"CostDiffers": {func(b *bundle) string {
			key := b.has(age, nil)
			b.broker.lists(with(order(key, age), func(o *broker.ListedOrder) { o.Cost = amount("250.01") }))
			return key
		}, statement.CostDiffers},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			subject := c.given(b)
			b.match()
			b.wantOpen(string(c.want) + " order of " + subject)
			b.match()
			b.wantOpen(string(c.want) + " order of " + subject)
		})
	}
}

func TestAmountsAreComparedAsPurchasesSettle(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.lists(
		with(order(b.has(time.Hour, nil), time.Hour), func(o *broker.ListedOrder) { o.Cost = amount("249.9951") }), // rounds to 250.00
		with(order(b.has(time.Hour, nil), time.Hour), func(o *broker.ListedOrder) {
			o.Cost.Valid, o.FilledQuantity.Valid, o.Echo = false, false, broker.Echo{} // the broker does not say
		}),
	)
	b.match()
	b.wantOpen()
}

func TestForeignOrdersAreIgnored(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for _, key := range []string{"", "somebody-else", "hf-short", "hf.other-" + newKey()[3:], newKey() + "0"} {
		b.broker.lists(with(order(key, time.Hour), func(o *broker.ListedOrder) { o.OrderID = "order " + key }))
	}
	if report := b.match(); report.Foreign != 5 || report.Orders != 0 {
		t.Errorf("%d foreign orders and %d of ours, want 5 and 0", report.Foreign, report.Orders)
	}
	b.wantOpen()
}

func TestWhatIsYoungerThanTheSettleTimeAndFiveMinutesIsNotCompared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.has(4*time.Minute, nil)
	b.broker.lists(order(newKey(), 4*time.Minute))
	b.broker.lists(order(b.has(4*time.Minute, rejected), 4*time.Minute))
	b.match()
	b.wantOpen()
}

func TestAnOrderThatAReplayPlacedDaysLaterHasAPurchase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	replayed := b.has(50*time.Hour, nil)
	b.exec(`INSERT INTO broker_attempt (transaction_id, call, broker_key, request_hash)
	        SELECT id, 'replay', broker_key, request_hash FROM transaction_history WHERE broker_key = $1`, replayed)
	// The broker took two days to create the order of the second one's first call.
	b.broker.lists(order(replayed, time.Hour), order(b.has(50*time.Hour, nil), time.Hour))
	b.match()
	b.wantOpen()
}

func TestAnUnknownPurchaseThatIsListedIsDueAtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.silent = true
	id := b.buy()
	b.exec(`UPDATE transaction_history SET next_retry = now() + interval '20 minutes',
	               created_at = created_at - interval '30 minutes' WHERE id = $1`, id)
	var key string
	if err := b.pool.QueryRow(t.Context(), "UPDATE transaction_history SET broker_key = $2 WHERE id = $1 RETURNING broker_key",
		id, newKey()).Scan(&key); err != nil {
		t.Fatal(err)
	}
	b.broker.lists(order(key, 30*time.Minute))
	b.match()
	b.wantOpen()
	if b.count("SELECT count(*) FROM transaction_history WHERE id = $1 AND status = 'UNKNOWN' AND next_retry <= now()", id) != 1 {
		t.Error("the purchase is not due")
	}
	if b.count("SELECT count(*) FROM purchase_note WHERE transaction_id = $1 AND code = 'order_listed'", id) != 1 {
		t.Error("the purchase's history does not say why it became due")
	}
}

func TestALongWindowAndItsEdgesAreCompared(t *testing.T) {
	t.Parallel()
	b := setup(t)
	early, late := b.has(3*time.Hour, nil), b.has(time.Hour, nil)
	b.broker.lists(order(early, 3*time.Hour), order(late, time.Hour), order(newKey(), 5*time.Hour))
	now := time.Now()
	if _, err := b.Match(t.Context(), statement.Range{Since: now.Add(-4 * time.Hour), Until: now.Add(-2 * time.Hour)}); err != nil {
		t.Fatal(err)
	}
	b.wantOpen()
}

func TestABrokerThatFailsLeavesNothingHalfApplied(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.has(time.Hour, nil)
	b.broker.failing = errDown
	if _, err := b.Match(t.Context(), statement.Range{}); err == nil {
		t.Error("a match without a list succeeded")
	}
	b.wantOpen()
}

func TestAGivenListIsComparedWithinItsOwnTimes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	first, missing, last := b.has(3*time.Hour, nil), b.has(2*time.Hour, nil), b.has(time.Hour, nil)
	b.has(5*time.Hour, nil) // before the list begins
	list := []broker.ListedOrder{order(last, time.Hour), order(first, 3*time.Hour), order(newKey(), 90*time.Minute)}
	report, err := b.MatchOrders(t.Context(), list, statement.Range{})
	if err != nil {
		t.Fatal(err)
	}
	b.wantOpen("completed_but_missing order of "+missing, "unknown_order "+list[2].OrderID)
	if len(report.New) != 2 || report.Orders != 3 {
		t.Errorf("%d new findings in %d orders, want 2 in 3", len(report.New), report.Orders)
	}
}
