package purchase_test

import (
	"errors"
	"testing"
	"time"

	"github.com/shopspring/decimal"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

// A first call's answer is stored with its order id and body, once, whatever its purchase
// has become by then.
func TestLateAnswerIsStored(t *testing.T) {
	t.Parallel()
	confirmed := func(order map[string]any) reply { return reply{book: true, status: 201, body: booked(order, 7)} }
	refused := func(map[string]any) reply { return reply{status: 422, body: map[string]any{"code": "late"}} }
	cases := []struct {
		name           string
		meanwhile      string // what the purchase becomes, after UNKNOWN
		answer         func(map[string]any) reply
		status         purchase.Status
		contradictions int
		named          int
	}{
		{"ConfirmedWhileUnknown", "", confirmed, purchase.Completed, 0, 1},
		{"RefusedWhileUnknown", "", refused, purchase.Rejected, 0, 0},
		{"ConfirmedInReview", inReview, confirmed, purchase.ManualReview, 0, 1},
		{"RefusedInReview", inReview, refused, purchase.ManualReview, 0, 0},
		{"ConfirmedButRejected", isRejected, confirmed, purchase.Rejected, 1, 1},
		{"RefusedButCompleted", isCompleted, refused, purchase.Completed, 1, 0},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			b.broker.script(func(order map[string]any) reply {
				b.interrupt(c.meanwhile)
				return c.answer(order)
			}, nil)
			p := b.submit(order())
			if p.Status != c.status {
				t.Errorf("purchase is %s, want %s", p.Status, c.status)
			}
			stored := b.count("SELECT count(*) FROM broker_attempt WHERE call = 'place' AND status_code > 0 AND answer <> ''") +
				b.count("SELECT count(*) FROM transaction_history WHERE place_status_code > 0 AND broker_body <> ''")
			if stored == 0 {
				t.Error("the answer is not stored")
			}
			if n := b.count("SELECT count(*) FROM broker_attempt WHERE call = 'place'"); n > 1 {
				t.Errorf("stored %d times", n)
			}
			named := b.count("SELECT count(*) FROM transaction_history WHERE broker_order_id LIKE '%007'") +
				b.count("SELECT count(*) FROM broker_attempt WHERE order_id LIKE '%007'")
			if (named > 0) != (c.named > 0) {
				t.Errorf("the order id is stored %d times", named)
			}
			if n := b.count("SELECT count(*) FROM purchase_note WHERE code = 'contradiction'"); n != c.contradictions {
				t.Errorf("%d contradictions, want %d", n, c.contradictions)
			}
		})
	}
}

const (
	inReview   = "status = 'MANUAL_REVIEW', version = 3, next_retry = NULL"
	isRejected = "status = 'REJECTED', version = 3, next_retry = NULL, evidence = 'operator', reason = 'operator', settled_at = now()"
	// isCompleted: by an order of another id, as a replay may have made it.
	isCompleted = `status = 'COMPLETED', version = 3, next_retry = NULL, evidence = 'replay', reason = NULL, cost = hold,
		settled_at = now(), broker_order_id = 'another'`
)

// interrupt takes the only purchase as interrupted, as the sweep does when its process was
// stopped for too long, and then makes it something else.
func (b *bundle) interrupt(meanwhile string) {
	b.t.Helper()
	b.exec("UPDATE transaction_history SET created_at = created_at - interval '1 hour', send_until = send_until - interval '1 hour'")
	if n, err := b.SweepPending(b.t.Context()); n != 1 || err != nil {
		b.t.Errorf("swept %d (%v)", n, err)
	}
	if meanwhile != "" {
		b.exec("UPDATE transaction_history SET " + meanwhile)
	}
}

// A row that a restore has lost does not make a second order: the same request under the
// same key has the same broker key.
func TestLostRowIsBoughtOnce(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := order()
	first := b.submit(sub)
	b.exec("DELETE FROM outbox")
	b.exec("DELETE FROM transaction_history WHERE id = $1", first.ID)
	b.exec("UPDATE account SET available = available + 250, spent = spent - 250 WHERE id = 'acct-1'")
	again := b.submit(sub)
	b.wantEnd(again, purchase.Completed, "", purchase.ByReply)
	if again.ID == first.ID || again.BrokerKey != first.BrokerKey {
		t.Errorf("keys %s and %s", first.BrokerKey, again.BrokerKey)
	}
	if n := b.broker.bought(); n != 1 {
		t.Errorf("bought %d times", n)
	}
	b.audit()
}

func TestBrokerKeyNamespace(t *testing.T) {
	t.Parallel()
	for namespace, form := range map[string]string{"": "^hf-[0-9a-f]{32}$", "prod": "^hf[.]prod-[0-9a-f]{32}$"} {
		b := setup(t, func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) { p.KeyNamespace = namespace })
		p := b.submit(order())
		if n := b.count("SELECT count(*) FROM transaction_history WHERE broker_key = $1 AND broker_key ~ $2", p.BrokerKey, form); n != 1 {
			t.Errorf("namespace %q: key %s", namespace, p.BrokerKey)
		}
	}
}

// The defaults of valid_until count from the time of recording.
func TestDefaultsOfValidUntil(t *testing.T) {
	t.Parallel()
	b := setup(t, func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) { p.NotionalTTL = 15 * time.Minute })
	if p := b.submit(order()); p.ValidUntil != nil {
		t.Errorf("by quantity: valid until %s", p.ValidUntil)
	}
	byNotional := order()
	byNotional.Quantity, byNotional.LimitPrice = decimal.NullDecimal{}, decimal.NullDecimal{}
	byNotional.Notional = decimal.NewNullDecimal(decimal.RequireFromString("100.00"))
	p := b.submit(byNotional)
	if p.ValidUntil == nil || p.ValidUntil.Sub(p.CreatedAt) != 15*time.Minute {
		t.Errorf("by notional: valid until %v", p.ValidUntil)
	}
	if stored := b.get(p.ID); !stored.ValidUntil.Equal(*p.ValidUntil) {
		t.Errorf("stored %s, said %s", stored.ValidUntil, p.ValidUntil)
	}
}

// A repeated request is answered although its valid_until has passed; a new one is refused.
func TestValidUntilMustBeInTheFuture(t *testing.T) {
	t.Parallel()
	b := setup(t)
	past := time.Now().Add(-time.Second)
	sub := order()
	sub.ValidUntil = &past
	_, err := b.Submit(t.Context(), sub)
	var field *purchase.FieldError
	if !errors.As(err, &field) || field.Field != "valid_until" {
		t.Errorf("error is %v", err)
	}
	if n := b.count("SELECT count(*) FROM transaction_history") + b.broker.bought(); n != 0 {
		t.Errorf("%d rows and orders", n)
	}
	soon := time.Now().Add(time.Hour)
	sub.ValidUntil = &soon
	first := b.submit(sub)
	b.exec("UPDATE transaction_history SET valid_until = now() - interval '1 second'")
	again, err := b.Submit(t.Context(), sub)
	if err != nil || !again.Repeated || again.Purchase.ID != first.ID {
		t.Errorf("repeated %t (%v)", again.Repeated, err)
	}
}

// A purchase whose valid_until passes before its first call is not sent.
func TestFirstCallIsNotSentAfterValidUntil(t *testing.T) {
	t.Parallel()
	b := setup(t)
	sub := order()
	soon := time.Now().Add(1500 * time.Millisecond)
	sub.ValidUntil = &soon
	b.submit(order())
	before := b.broker.bought()
	holder := b.lockAccount("acct-1")
	submitted := make(chan purchase.Purchase, 1)
	go func() { submitted <- b.submit(sub) }()
	b.awaitWaiting("RecordPurchases")
	<-time.After(time.Until(soon) + 100*time.Millisecond)
	if err := holder.Rollback(t.Context()); err != nil {
		t.Error(err)
	}
	p := <-submitted
	if p.Status != purchase.Unknown {
		t.Errorf("purchase is %s", p.Status)
	}
	if n := b.broker.bought() - before; n != 0 {
		t.Errorf("sent %d orders", n)
	}
}
