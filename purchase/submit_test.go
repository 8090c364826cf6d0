package purchase_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

func TestFirstCallProves(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name     string
		answer   reply
		status   purchase.Status
		reason   string
		evidence purchase.Evidence
	}{
		{"Completed", reply{book: true, status: 201}, purchase.Completed, "", purchase.ByReply},
		{"Refused", reply{status: 422, body: map[string]any{"code": "market_closed"}}, purchase.Rejected, "market_closed", purchase.ByReply},
		{"RefusedWithoutCode", reply{status: 400, body: "no"}, purchase.Rejected, "broker_4xx", purchase.ByReply},
		{"RequestTimeout", reply{book: true, status: 408}, purchase.Unknown, "timeout", ""},
		{"Conflict", reply{book: true, status: 409}, purchase.Unknown, "duplicate_key", ""},
		{"DuplicateCode", reply{book: true, status: 422, body: map[string]any{"code": "DUPLICATE_order"}}, purchase.Unknown, "duplicate_key", ""},
		{"ServerError", reply{book: true, status: 500}, purchase.Unknown, "broker_5xx", ""},
		{"Redirect", reply{book: true, status: 302, header: map[string]string{"Location": "/elsewhere"}}, purchase.Unknown, "redirect", ""},
		{"Unreadable", reply{book: true, status: 200, body: []int{1}}, purchase.Unknown, "unreadable_response", ""},
		{"Dropped", reply{book: true, drop: true}, purchase.Unknown, "connection_closed", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.broker.script(always(c.answer), nil)
			p := b.submit(order())
			b.wantEnd(p, c.status, c.reason, c.evidence)
			if told, truncate := asJSON(t, p), asJSON(t, b.get(p.ID)); told != truncate {
				t.Errorf("told  %s\nstored %s", told, truncate)
			}
			switch c.status {
			case purchase.Completed:
				b.wantMoney("750.00", "0.00", "250.00")
			case purchase.Rejected:
				b.wantMoney("1000.00", "0.00", "0.00")
			default:
				b.wantMoney("750.00", "250.00", "0.00")
			}
			b.audit()
		})
	}
}

func asJSON(t *testing.T, p purchase.Purchase) string {
	t.Helper()
	text, err := json.Marshal(p)
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

func (b *bundle) wantEnd(p purchase.Purchase, status purchase.Status, reason string, evidence purchase.Evidence) {
	b.t.Helper()
	var gotReason string
	var gotEvidence purchase.Evidence
	if p.Reason != nil {
		gotReason = *p.Reason
	}
	if p.Evidence != nil {
		gotEvidence = *p.Evidence
	}
	if p.Status != status || gotReason != reason || gotEvidence != evidence {
		b.t.Errorf("purchase is %s (%q, by %q), want %s (%q, by %q)",
			p.Status, gotReason, gotEvidence, status, reason, evidence)
	}
}

func TestCostDecidesWhatIsReleased(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name, funds, cost, available, spent string
		note                                int
	}{
		{"Below", "1000.00", "249.99", "750.01", "249.99", 0},
		{"Above", "1000.00", "260.5", "739.50", "260.50", 1},
		{"BelowZero", "250.00", "260.00", "-10.00", "260.00", 1},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.exec("UPDATE account SET available = $1, deposited = $1 WHERE id = 'acct-1'", c.funds)
			b.exec("UPDATE deposit SET amount = $1 WHERE account_id = 'acct-1'", c.funds)
			b.broker.script(func(order map[string]any) reply {
				body := booked(order, 1)
				body["cost"] = c.cost
				return reply{book: true, status: 200, body: body}
			}, nil)
			p := b.submit(order())
			b.wantMoney(c.available, "0.00", c.spent)
			if n := b.count("SELECT count(*) FROM purchase_note WHERE transaction_id = $1 AND code = 'cost_above_reserved'", p.ID); n != c.note {
				t.Errorf("%d notes of a cost above what was reserved, want %d", n, c.note)
			}
			b.audit()
		})
	}
}

func TestRefusedBeforeAnyCall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	big := order()
	big.Quantity = decimal.NewNullDecimal(decimal.RequireFromString("41"))
	nobody := order()
	nobody.AccountID = "nobody"
	euros := order()
	euros.Currency = "EUR"
	for sub, want := range map[*purchase.Submission]error{
		&big: purchase.ErrInsufficientFunds, &nobody: purchase.ErrAccountNotFound, &euros: purchase.ErrCurrency,
	} {
		if _, err := b.Submit(t.Context(), *sub); !errors.Is(err, want) {
			t.Errorf("error is %v, want %v", err, want)
		}
	}
	if n := b.count("SELECT count(*) FROM transaction_history"); n != 0 || b.broker.bought() != 0 {
		t.Errorf("%d rows, %d calls, want none", n, b.broker.bought())
	}
	b.wantMoney("1000.00", "0.00", "0.00")
}

func TestRepeatsGetTheSamePurchase(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := order()
	first := b.submit(sub)
	sub.Quantity = decimal.NewNullDecimal(decimal.RequireFromString("10.0"))
	again, err := b.Submit(t.Context(), sub)
	if err != nil || !again.Repeated || again.Purchase.ID != first.ID {
		t.Fatalf("repeat is %+v (%v), want purchase %s", again, err, first.ID)
	}
	sub.Symbol = "MSFT"
	if _, err := b.Submit(t.Context(), sub); !errors.Is(err, purchase.ErrKeyReused) {
		t.Errorf("error is %v, want ErrKeyReused", err)
	}
	if n := b.broker.bought(); n != 1 {
		t.Errorf("bought %d times", n)
	}
}

func TestRepeatIsAnsweredWhenFundsAreGoneOrIntakeIsPaused(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec("UPDATE account SET available = 250, deposited = 250 WHERE id = 'acct-1'")
	sub := order()
	b.submit(sub)
	if again, err := b.Submit(t.Context(), sub); err != nil || !again.Repeated {
		t.Errorf("repeat without funds: %v", err)
	}
	if err := b.switches.Set(t.Context(), purchase.SwitchIntake, true, "test", "operator:test"); err != nil {
		t.Fatal(err)
	}
	if again, err := b.Submit(t.Context(), sub); err != nil || !again.Repeated {
		t.Errorf("repeat while paused: %v", err)
	}
	var refused *purchase.UnavailableError
	if _, err := b.Submit(t.Context(), order()); !errors.As(err, &refused) || refused.RetryAfter <= 0 {
		t.Errorf("new purchase while paused: %v, want UnavailableError", err)
	}
}

func TestEqualRequestsBuyOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := order()
	var wg sync.WaitGroup
	ids := make(chan string, 50)
	for range 50 {
		wg.Go(func() {
			result, err := b.Submit(t.Context(), sub)
			if err != nil {
				t.Errorf("submit: %v", err)
				return
			}
			ids <- result.Purchase.ID.String()
		})
	}
	wg.Wait()
	close(ids)
	distinct := map[string]bool{}
	for id := range ids {
		distinct[id] = true
	}
	if len(distinct) != 1 || b.broker.bought() != 1 {
		t.Errorf("%d purchases, bought %d times, want 1", len(distinct), b.broker.bought())
	}
	b.wantMoney("750.00", "0.00", "250.00")
	b.audit()
}

func TestConcurrentPurchasesNeverOverdraw(t *testing.T) {
	t.Parallel()
	b := setup(t)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			_, err := b.Submit(t.Context(), order())
			if err != nil && !errors.Is(err, purchase.ErrInsufficientFunds) {
				t.Errorf("submit: %v", err)
			}
		})
	}
	wg.Wait()
	b.wantMoney("0.00", "0.00", "1000.00")
	b.audit()
}

func TestClientThatHangsUpChangesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	ctx, cancel := context.WithCancel(t.Context())
	b.broker.script(func(map[string]any) reply {
		cancel()
		return reply{book: true, status: 200}
	}, nil)
	result, err := b.Submit(ctx, order())
	if err != nil || result.Purchase.Status != purchase.Completed {
		t.Errorf("purchase is %s (%v)", result.Purchase.Status, err)
	}
}

func TestOrderIDOfAnotherPurchaseIsMismatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	long := strings.Repeat("9", 5000)
	b.broker.script(func(order map[string]any) reply {
		body := booked(order, 1)
		body["order_id"] = long
		return reply{book: true, status: 200, body: body}
	}, nil)
	first, second := b.submit(order()), b.submit(order())
	b.wantEnd(first, purchase.Completed, "", purchase.ByReply)
	b.wantEnd(second, purchase.Unknown, "mismatch", "")
	b.audit()
}

func TestOpenBreakerRefusesBeforeAnythingIsRecorded(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *purchase.Policy, _ *httpbroker.Config, g *broker.GateConfig) {
		g.Failures, g.Open = 2, time.Hour
	})
	b.broker.script(always(reply{status: 503}), nil)
	b.submit(order())
	b.submit(order())
	var refused *purchase.UnavailableError
	if _, err := b.Submit(t.Context(), order()); !errors.As(err, &refused) {
		t.Fatalf("error is %v, want UnavailableError", err)
	}
	if n := b.count("SELECT count(*) FROM transaction_history"); n != 2 {
		t.Errorf("%d rows, want 2", n)
	}
}

func TestUnknownIsNotWrittenWithoutItsJob(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.script(always(reply{book: true, status: 500}), nil)
	b.exec(`CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no jobs today'; END $$`)
	b.exec(`CREATE TRIGGER refuse BEFORE INSERT ON river_job EXECUTE FUNCTION refuse()`)
	p := b.submit(order())
	b.wantEnd(p, purchase.Pending, "", "")
	b.exec("DROP TRIGGER refuse ON river_job")
	b.age(p.ID, 2*time.Minute)
	if n, err := b.SweepPending(t.Context()); n != 1 || err != nil {
		t.Fatalf("swept %d (%v), want 1", n, err)
	}
	b.wantEnd(b.get(p.ID), purchase.Unknown, "interrupted", "")
	b.audit()
}

func TestRefusedCredentialsRaiseOneAlert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.script(always(reply{status: 401}), alwaysFor(reply{status: 403}))
	b.submit(order())
	b.submit(order())
	b.broker.script(always(reply{drop: true}), alwaysFor(reply{status: 403}))
	p := b.submit(order())
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.Unknown, "connection_closed", "")
	if n := b.count("SELECT count(*) FROM alert WHERE type = 'broker.credentials_refused'"); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
}

// TestCompanyDoesNoHarm lets purchases share statements with one that cannot be settled
// and with some that cannot be paid for.
func TestCompanyDoesNoHarm(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("acct-rich", "100000.00")
	b.broker.script(func(order map[string]any) reply {
		body := booked(order, 1)
		if order["symbol"] != "TWIN" {
			body["order_id"] = order["client_order_id"]
		}
		return reply{book: true, status: 200, body: body}
	}, nil)
	var wg sync.WaitGroup
	var completed, mismatched, poor atomic.Int64
	for i := range 60 {
		wg.Go(func() {
			sub := order()
			switch i % 3 {
			case 0:
				sub.AccountID = "acct-rich"
			case 1:
				sub.AccountID, sub.Symbol = "acct-rich", "TWIN"
			}
			result, err := b.Submit(t.Context(), sub)
			switch {
			case errors.Is(err, purchase.ErrInsufficientFunds):
				poor.Add(1)
			case err != nil:
				t.Errorf("submit: %v", err)
			case result.Purchase.Status == purchase.Completed:
				completed.Add(1)
			case result.Purchase.Reason != nil && *result.Purchase.Reason == "mismatch":
				mismatched.Add(1)
			}
		})
	}
	wg.Wait()
	if got := [3]int64{completed.Load(), mismatched.Load(), poor.Load()}; got != [3]int64{20 + 1 + 4, 19, 16} {
		t.Errorf("completed, mismatched and poor are %v, want 25, 19, 16", got)
	}
	b.audit()
}

func TestNoCallLeavesAfterTheGrace(t *testing.T) {
	t.Parallel()
	b := setup(t, func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) { p.PendingGrace = time.Nanosecond })
	p := b.submit(order())
	if p.Status != purchase.Unknown || b.broker.bought() != 0 {
		t.Errorf("purchase is %s, bought %d times; want it uncertain and no call", p.Status, b.broker.bought())
	}
}

func TestSecondOrderOfOnePurchaseIsAContradiction(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.script(func(order map[string]any) reply {
		b.exec("UPDATE transaction_history SET created_at = created_at - interval '1 hour', send_until = send_until - interval '1 hour'")
		if _, err := b.SweepPending(t.Context()); err != nil {
			t.Error(err)
		}
		b.exec(`UPDATE transaction_history SET status = 'COMPLETED', version = 3, next_retry = NULL, reason = NULL, cost = hold,
		        evidence = 'replay', settled_at = now(), broker_order_id = 'first'`)
		return reply{book: true, status: 200, body: booked(order, 2)}
	}, nil)
	b.submit(order())
	if n := b.count("SELECT count(*) FROM purchase_note WHERE code = 'contradiction' AND detail LIKE '%bought twice%'"); n != 1 {
		t.Errorf("%d notes of a second order, want 1", n)
	}
}

func TestReasonsAreStoredUpTo256Characters(t *testing.T) {
	t.Parallel()
	b := setup(t)
	code := strings.Repeat("é💥\u202e𝄞ا\"\\\n", 500)
	b.broker.script(always(reply{status: 422, body: map[string]any{"code": code, "message": code}}), nil)
	p := b.submit(order())
	code = string([]rune(code)[:256])
	b.wantEnd(p, purchase.Rejected, code, purchase.ByReply)
	b.wantEnd(b.get(p.ID), purchase.Rejected, code, purchase.ByReply)
	if n := b.count("SELECT count(*) FROM outbox WHERE reason = $1", code); n != 1 {
		t.Errorf("%d events have the reason, want 1", n)
	}
	b.broker.script(always(reply{status: 422, body: map[string]any{"code": "a\x00b"}}), nil)
	b.wantEnd(b.submit(order()), purchase.Rejected, "a\uFFFDb", purchase.ByReply)
	b.audit()
}
