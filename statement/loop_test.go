package statement_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/statement"
)

func TestALoopContinuesFromItsWatermark(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.turn()
	windows := len(b.broker.windows)
	if windows != 4 {
		t.Fatalf("the first match listed %d windows, want a day in four", windows)
	}
	b.turn()
	last := b.broker.windows[len(b.broker.windows)-1]
	if len(b.broker.windows) != windows+1 || last.Until.Sub(last.Since) > 2*time.Hour {
		t.Errorf("the second match listed %s in %d calls, want little more than the overlap",
			last.Until.Sub(last.Since), len(b.broker.windows)-windows)
	}
	late := newKey()
	b.broker.lists(order(late, 30*time.Minute)) // visible only now
	b.turn()
	b.wantOpen("unknown_order order of " + late)
}

func TestAPurchaseIsComparedOnceItIsFinal(t *testing.T) {
	t.Parallel()
	b := setup(t)
	listed, missing, twice := b.has(2*time.Hour, unknown), b.has(2*time.Hour, unknown), b.has(2*time.Hour, unknown)
	b.broker.lists(order(listed, 2*time.Hour), order(twice, 2*time.Hour),
		with(order(twice, 110*time.Minute), func(o *broker.ListedOrder) { o.OrderID = "second" }))
	b.turn()
	b.wantOpen("second_order second") // whatever becomes of the purchase
	for _, key := range []string{listed, missing, twice} {
		b.exec(`UPDATE transaction_history SET status = 'COMPLETED', reason = NULL, next_retry = NULL, evidence = 'lookup',
		               cost = 250, filled_quantity = 10, settled_at = now() - interval '10 minutes' WHERE broker_key = $1`, key)
	}
	b.broker.orders = nil // all of them were listed before
	b.turn()
	b.wantOpen("second_order second", "completed_but_missing")
	if n := b.count("SELECT count(*) FROM statement_deferred"); n != 0 {
		t.Errorf("%d rows wait for a comparison that has been made", n)
	}
}

func TestAListedUnknownPurchaseIsExpeditedOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.has(2*time.Hour, unknown)
	b.broker.lists(order(key, 2*time.Hour))
	due := func() int {
		return b.count("SELECT count(*) FROM transaction_history WHERE broker_key = $1 AND next_retry <= now()", key)
	}
	b.turn()
	if due() != 1 {
		t.Fatal("the purchase is not due")
	}
	b.exec("UPDATE transaction_history SET next_retry = now() + interval '20 minutes' WHERE broker_key = $1", key)
	b.turn()
	if due() != 0 {
		t.Error("the purchase was made due again by the same order")
	}
}

func TestOneProcessMatchesAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.turn()
	b.exec("UPDATE statement_match SET due_at = now(), leased_until = now() + interval '1 minute'")
	calls := len(b.broker.windows)
	if err := b.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.broker.windows) != calls {
		t.Error("a second process listed orders")
	}
	b.exec("UPDATE statement_match SET leased_until = now() - interval '1 second'")
	if err := b.Turn(t.Context()); err != nil {
		t.Fatal(err)
	}
	if len(b.broker.windows) == calls {
		t.Error("nobody took over from a process that died")
	}
}

func TestAFailedMatchIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.failing = errDown
	b.turn()
	b.turn()
	if b.count("SELECT count(*) FROM statement_match WHERE failures = 2 AND due_at > now() + interval '59 minutes' AND matched_until IS NULL") != 1 {
		t.Error("after two failures the next match is not an hour away")
	}
	b.broker.failing = nil
	b.turn()
	if b.count("SELECT count(*) FROM statement_match WHERE failures = 0 AND matched_until IS NOT NULL") != 1 {
		t.Error("a match that succeeded did not reset the failures")
	}
}

func TestTheLoopEndsWithItsContext(t *testing.T) {
	t.Parallel()
	b := setup(t)
	for name, change := range map[string]func(*statement.Params){
		"Matching": func(*statement.Params) {},
		"Never":    func(p *statement.Params) { p.Interval = 0 },
		"CannotList": func(p *statement.Params) {
			p.Broker = struct{ broker.Broker }{b.broker}
		},
	} {
		params := b.params
		change(&params)
		ctx, cancel := context.WithCancel(t.Context())
		var loop sync.WaitGroup
		loop.Go(func() {
			if err := statement.New(params).Run(ctx); err != nil {
				t.Errorf("%s: %v", name, err)
			}
		})
		cancel()
		loop.Wait()
	}
}

func TestFindingsAreAlertedOncePerHour(t *testing.T) {
	t.Parallel()
	b := setup(t)
	alerts := func() int { return b.count("SELECT count(*) FROM alert WHERE type = 'statement.finding'") }
	b.broker.lists(order(newKey(), 30*time.Minute))
	b.turn()
	b.broker.lists(order(newKey(), 30*time.Minute))
	b.turn()
	if alerts() != 1 {
		t.Fatalf("%d alerts within the hour, want 1", alerts())
	}
	b.exec("UPDATE alert SET created_at = created_at - interval '1 hour'")
	b.turn()
	if alerts() != 2 {
		t.Fatalf("%d alerts after the hour, want a second one for the second finding", alerts())
	}
	b.exec("UPDATE alert SET created_at = created_at - interval '1 hour'")
	b.turn()
	if alerts() != 2 {
		t.Errorf("%d alerts, want none without a new finding", alerts())
	}
	if b.count("SELECT count(*) FROM river_job WHERE kind = 'deliver_alert'") != 2 {
		t.Error("an alert has no job that delivers it")
	}
}

func TestAClosedFindingIsNotReportedAgain(t *testing.T) {
	t.Parallel()
	b := setup(t)
	key := b.has(time.Hour, nil)
	b.broker.lists(with(order(key, time.Hour), func(o *broker.ListedOrder) { o.Cost = amount("260") }))
	b.match()
	f := b.wantOpen("cost_differs order of " + key)[0]
	closed, err := b.Close(t.Context(), f.ID, "fees, agreed by telephone", "operator:test")
	if err != nil || closed.ClosedAt == nil || *closed.Note != "fees, agreed by telephone" {
		t.Fatalf("closed finding is %+v, %v", closed, err)
	}
	if again, err := b.Close(t.Context(), f.ID, "something else", "operator:test"); err != nil || *again.Note != *closed.Note {
		t.Errorf("closed again: %+v, %v; want the first note", again, err)
	}
	b.match()
	b.wantOpen()
	b.broker.orders[0].Cost = amount("270") // another discrepancy
	b.match()
	b.wantOpen("cost_differs order of " + key)
	if _, err := b.Close(t.Context(), uuid.New(), "note", "operator:test"); !errors.Is(err, statement.ErrNotFound) {
		t.Errorf("closing an unknown finding: %v", err)
	}
}

func TestKeysOfANamespace(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.params.KeyNamespace, b.params.Log = "blue", slog.New(slog.DiscardHandler)
	b.Matcher = statement.New(b.params)
	ours := "hf.blue-" + newKey()[3:]
	b.broker.lists(order(ours, time.Hour), order(newKey(), time.Hour))
	b.match()
	b.wantOpen("unknown_order order of " + ours)
}
