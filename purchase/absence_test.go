package purchase_test

import (
	"context"
	"slices"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

// absent is the broker's own "not found" for a key.
func absent(key string) reply {
	return reply{status: 404, body: map[string]any{"code": "order_not_found", "client_order_id": key}}
}

// unanswered is a lookup that proves nothing.
var unanswered = reply{status: 503}

func twoLookups(_ *purchase.Policy, c *httpbroker.Config, _ *broker.GateConfig) { c.AbsenceLookups = 2 }

// refusedReplay brings a purchase to where only its absence is still to be proven.
func (b *bundle) refusedReplay() purchase.Purchase {
	b.t.Helper()
	p := b.lost(false)
	b.age(p.ID, 11*time.Second)
	b.broker.script(always(reply{status: 422, body: map[string]any{"code": "market_closed"}}), absent)
	b.pass(p.ID)
	return p
}

func TestAbsenceNeedsConsecutiveLookupsASettleTimeApart(t *testing.T) {
	t.Parallel()
	type look struct {
		after     time.Duration
		uncertain bool
	}
	found, failed := func(d time.Duration) look { return look{d, false} }, func(d time.Duration) look { return look{d, true} }
	const settle = 11 * time.Second
	cases := []struct {
		name     string
		looks    []look
		rejected bool
	}{
		{"One", []look{found(settle)}, false},
		{"Two", []look{found(settle), found(settle)}, true},
		{"FirstTooEarly", []look{found(time.Second), found(settle)}, false},
		{"SecondTooEarly", []look{found(settle), found(time.Second)}, false},
		{"TooEarlyDoesNotRestart", []look{found(settle), found(time.Second), found(settle)}, true},
		{"UncertainRestarts", []look{found(settle), failed(settle), found(settle)}, false},
		{"UncertainThenTwo", []look{found(settle), failed(settle), found(settle), found(settle)}, true},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, twoLookups)
			p := b.refusedReplay()
			for _, l := range c.looks {
				b.broker.script(nil, absent)
				if l.uncertain {
					b.broker.script(nil, alwaysFor(unanswered))
				}
				b.age(p.ID, l.after)
				b.pass(p.ID)
			}
			if c.rejected {
				b.wantEnd(b.get(p.ID), purchase.Rejected, "market_closed", purchase.ByReplay)
			} else {
				b.wantEnd(b.get(p.ID), purchase.Unknown, "connection_closed", "")
			}
			if n := len(b.broker.placed(p)); n != 2 {
				t.Errorf("placed %d times, want 2", n)
			}
			b.audit()
		})
	}
}

// A lookup whose answer was never stored may have found the order: the count starts again.
func TestALookupThatWasNotStoredRestartsTheProof(t *testing.T) {
	t.Parallel()
	cases := map[string]func(b *bundle, p purchase.Purchase){
		"ItsProcessDied": func(b *bundle, _ purchase.Purchase) {
			b.exec("UPDATE transaction_history SET claim = claim + 1, leased_until = now() - interval '1 second'")
		},
		"ItWasStopped": func(b *bundle, p purchase.Purchase) {
			ctx, cancel := context.WithCancel(b.t.Context())
			b.broker.script(nil, func(string) reply {
				cancel()
				return reply{drop: true}
			})
			b.due(p)
			if _, err := b.Pass(ctx, p.ID, 0); err == nil {
				b.t.Error("a stopped pass returned no error")
			}
		},
	}
	for name, lose := range cases {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, twoLookups)
			p := b.refusedReplay()
			look := func() {
				b.broker.script(nil, absent)
				b.age(p.ID, 11*time.Second)
				b.pass(p.ID)
			}
			look()
			b.age(p.ID, 11*time.Second)
			lose(b, p)
			look()
			b.wantEnd(b.get(p.ID), purchase.Unknown, "connection_closed", "")
			look()
			b.wantEnd(b.get(p.ID), purchase.Rejected, "market_closed", purchase.ByReplay)
			b.audit()
		})
	}
}

func TestHistoryShowsHowFarAbsenceIsProven(t *testing.T) {
	t.Parallel()
	b := setup(t, twoLookups)
	p := b.refusedReplay()
	for range 2 {
		b.age(p.ID, 11*time.Second)
		b.pass(p.ID)
	}
	entries, err := b.History(t.Context(), p.ID)
	if err != nil {
		t.Fatal(err)
	}
	var shown []string
	for _, e := range entries {
		if e.Result == string(broker.Absent) && e.Reason != nil {
			shown = append(shown, *e.Reason)
		}
	}
	if want := []string{"1 of 2", "2 of 2"}; !slices.Equal(shown, want) {
		t.Errorf("history shows %q, want %q", shown, want)
	}
}

// The next lookup of a proof comes no sooner than it can count.
func TestProofWaitsForTheSettleTime(t *testing.T) {
	t.Parallel()
	b := setup(t, twoLookups, func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) {
		p.RetryBase = time.Second
	})
	p := b.refusedReplay()
	b.age(p.ID, 11*time.Second)
	if outcome := b.pass(p.ID); outcome.Again < 10*time.Second {
		t.Errorf("next lookup in %s, want a settle time", outcome.Again)
	}
}

func TestWhatAbsenceLeadsTo(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		set    string
		status purchase.Status
		reason string
		by     purchase.Evidence
	}{
		{"Expired", "valid_until = now() - interval '1 second'", purchase.Rejected, "expired", purchase.ByLookup},
		{"KeyExpired", "created_at = created_at - interval '25 hours'", purchase.ManualReview, "key_expired", ""},
		{"KeyExpiredFirst", "created_at = created_at - interval '25 hours', valid_until = now()", purchase.ManualReview, "key_expired", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, twoLookups)
			p := b.lost(false)
			b.broker.script(nil, absent)
			b.exec("UPDATE transaction_history SET " + c.set)
			for range 2 {
				b.wantEnd(b.get(p.ID), purchase.Unknown, "connection_closed", "")
				b.age(p.ID, 11*time.Second)
				b.pass(p.ID)
			}
			b.wantEnd(b.get(p.ID), c.status, c.reason, c.by)
			if n := len(b.broker.placed(p)); n != 1 {
				t.Errorf("placed %d times, want 1", n)
			}
			b.audit()
		})
	}
}

func TestUncertainLookupAfterTheKeyRetentionOnlyWaits(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.exec("UPDATE transaction_history SET created_at = created_at - interval '25 hours'")
	b.broker.script(nil, alwaysFor(unanswered))
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.Unknown, "connection_closed", "")
}

func TestNoReplayAfterTheMaximumAge(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.age(p.ID, 13*time.Hour)
	b.broker.script(nil, absent)
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "age_exceeded", "")
	if n := len(b.broker.placed(p)); n != 1 {
		t.Errorf("placed %d times, want 1", n)
	}
	b.audit()
}

// A gateway's refusal of a replay is not the broker's.
func TestRefusalWithoutACodeProvesNothing(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]any{"Empty": nil, "Text": "no", "List": []string{"code"},
		"NumberForCode": map[string]any{"code": 4}, "NestedCode": map[string]any{"error": map[string]any{"code": "x"}}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.lost(false)
			b.age(p.ID, 11*time.Second)
			b.broker.script(always(reply{status: 422, body: body}), absent)
			b.pass(p.ID)
			b.age(p.ID, 11*time.Second)
			b.broker.script(nil, absent)
			b.pass(p.ID)
			b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByReplay)
			b.audit()
		})
	}
}

// processing is an answer that names an order and says nothing final about it.
func processing(key, orderID string) reply {
	return reply{status: 200, body: map[string]any{"order_id": orderID, "client_order_id": key, "status": "processing"}}
}

func TestAnOrderThatWasNamedIsNeverAbsent(t *testing.T) {
	t.Parallel()
	looked := func(b *bundle) purchase.Purchase {
		p := b.refusedReplay()
		b.broker.script(nil, func(key string) reply { return processing(key, "77") })
		b.pass(p.ID)
		return p
	}
	cases := []struct {
		name  string
		named func(*bundle) purchase.Purchase
	}{
		{"ByALookup", looked},
		{"ByTheFirstCall", func(b *bundle) purchase.Purchase {
			b.broker.script(func(order map[string]any) reply { return processing(order["client_order_id"].(string), "77") }, nil)
			return b.submit(order())
		}},
		{"ByAReplay", func(b *bundle) purchase.Purchase {
			p := b.lost(false)
			b.age(p.ID, 11*time.Second)
			b.broker.script(func(order map[string]any) reply { return processing(order["client_order_id"].(string), "77") }, absent)
			b.pass(p.ID)
			return p
		}},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := c.named(b)
			sent := len(b.broker.placed(p))
			b.wantEnd(b.get(p.ID), purchase.Unknown, "processing", "")
			if got := b.get(p.ID).Response; got == nil || got.OrderID == nil || *got.OrderID != "77" {
				t.Errorf("the purchase's answer is %+v, want order 77", got)
			}
			b.age(p.ID, 11*time.Second)
			b.broker.script(nil, absent)
			b.pass(p.ID)
			b.wantEnd(b.get(p.ID), purchase.ManualReview, "mismatch", "")
			if n := len(b.broker.placed(p)); n != sent {
				t.Errorf("sent again: %d times, want %d", n, sent)
			}
			b.wantMoney("750.00", "250.00", "0.00")
			b.audit()
		})
	}
}

func TestAnotherOrderUnderTheSameKeyIsAMismatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	b.broker.script(nil, func(key string) reply { return processing(key, "77") })
	b.pass(p.ID)
	b.broker.script(nil, nil)
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "mismatch", "")
	b.audit()
}

func TestProcessingPurchasesAreLookedUpAtTheirOwnInterval(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *purchase.Policy, c *httpbroker.Config, _ *broker.GateConfig) {
		c.ProcessingInterval = 5 * time.Second
	})
	p := b.lost(true)
	b.broker.script(nil, func(key string) reply { return processing(key, "77") })
	for range 25 {
		if outcome := b.pass(p.ID); outcome.Result != "deferred" || outcome.Again > 6*time.Second {
			t.Fatalf("pass of a processing purchase: %+v", outcome)
		}
	}
	if got := b.get(p.ID); got.Attempts != 0 {
		t.Errorf("%d attempts, want 0", got.Attempts)
	}
	b.age(p.ID, 13*time.Hour)
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "age_exceeded", "")
	b.audit()
}

func TestBrokerWithoutLookup(t *testing.T) {
	t.Parallel()
	refused := reply{status: 422, body: map[string]any{"code": "market_closed"}}
	cases := []struct {
		name       string
		idempotent bool
		age        time.Duration
		replay     reply
		passes     int
		placed     int
		status     purchase.Status
		reason     string
	}{
		{"ReplayCompletes", true, time.Minute, reply{book: true, status: 200}, 1, 2, purchase.Completed, ""},
		{"RefusalsProveNothing", true, time.Minute, refused, 3, 4, purchase.Unknown, "connection_closed"},
		{"WithinSettle", true, 0, refused, 1, 1, purchase.Unknown, "connection_closed"},
		{"KeyExpired", true, 25 * time.Hour, refused, 1, 1, purchase.ManualReview, "key_expired"},
		{"NotIdempotent", false, time.Minute, refused, 3, 1, purchase.Unknown, "connection_closed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t, func(_ *purchase.Policy, w *httpbroker.Config, _ *broker.GateConfig) {
				w.NoLookup, w.Idempotent = true, c.idempotent
			})
			p := b.lost(false)
			b.broker.script(always(c.replay), nil)
			for range c.passes {
				b.age(p.ID, c.age)
				b.pass(p.ID)
			}
			got := b.get(p.ID)
			if got.Status != c.status || (c.reason != "" && *got.Reason != c.reason) {
				t.Errorf("purchase is %s (%v), want %s (%s)", got.Status, got.Reason, c.status, c.reason)
			}
			if placed, looked := len(b.broker.placed(p)), b.broker.lookedUp(p); placed != c.placed || looked != 0 {
				t.Errorf("placed %d times, looked up %d times; want %d and none", placed, looked, c.placed)
			}
			b.audit()
		})
	}
}
