package purchase_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

// lost submits a purchase whose first call is not answered, booked or not.
func (b *bundle) lost(book bool) purchase.Purchase {
	b.t.Helper()
	b.broker.script(always(reply{book: book, drop: true}), nil)
	p := b.submit(order())
	b.broker.script(nil, nil)
	b.wantEnd(p, purchase.Unknown, "connection_closed", "")
	return p
}

func TestPassFindsWhatWasBooked(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	if outcome := b.pass(p.ID); outcome.Result != "completed" {
		t.Errorf("outcome is %+v", outcome)
	}
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByLookup)
	b.wantMoney("750.00", "0.00", "250.00")
	if n := len(b.broker.placed(p)); n != 1 {
		t.Errorf("placed %d times", n)
	}
	b.audit()
}

func TestPassReplaysTheSameBytesAfterTheSettleTime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	if outcome := b.pass(p.ID); outcome.Result != "deferred" {
		t.Errorf("within the settle time: %+v", outcome)
	}
	b.age(p.ID, 11*time.Second)
	if outcome := b.pass(p.ID); outcome.Result != "completed" {
		t.Errorf("after the settle time: %+v", outcome)
	}
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByReplay)
	sent := b.broker.placed(p)
	if len(sent) != 2 || sent[0] != sent[1] {
		t.Errorf("sent %q, want the same twice", sent)
	}
	if got := b.get(p.ID).Attempts; got != 2 {
		t.Errorf("attempts are %d, want 2", got)
	}
	b.audit()
}

func TestReplayThatIsRefusedNeedsALookup(t *testing.T) {
	t.Parallel()
	refusal := reply{status: 422, body: map[string]any{"code": "market_closed"}}
	cases := []struct {
		name     string
		after    func(string) reply
		age      time.Duration
		status   purchase.Status
		reason   string
		evidence purchase.Evidence
	}{
		{"NotFoundTooSoon", nil, 0, purchase.Unknown, "connection_closed", ""},
		{"NotFoundAfterSettle", nil, 11 * time.Second, purchase.Rejected, "market_closed", purchase.ByReplay},
		{"LookupFails", alwaysFor(reply{status: 500}), 11 * time.Second, purchase.Unknown, "connection_closed", ""},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.lost(false)
			b.age(p.ID, 11*time.Second)
			b.broker.script(always(refusal), nil)
			if outcome := b.pass(p.ID); outcome.Result != "deferred" {
				t.Fatalf("a refused replay ended the pass: %+v", outcome)
			}
			b.age(p.ID, c.age)
			b.broker.script(always(refusal), c.after)
			b.pass(p.ID)
			got := b.get(p.ID)
			b.wantEnd(got, c.status, c.reason, c.evidence)
			if got.Response == nil || got.Response.StatusCode != 422 {
				t.Errorf("the purchase's answer is %+v, want the refusal", got.Response)
			}
			if n := len(b.broker.placed(p)); n != 2 {
				t.Errorf("placed %d times, want 2", n)
			}
			b.audit()
		})
	}
}

func TestRefusedReplayOfABookedOrderCompletes(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.script(always(reply{book: true, drop: true}), alwaysFor(reply{status: 404}))
	p := b.submit(order())
	b.age(p.ID, 11*time.Second)
	b.broker.script(always(reply{status: 422, body: map[string]any{"code": "market_closed"}}), alwaysFor(reply{status: 404}))
	b.pass(p.ID)
	b.age(p.ID, 11*time.Second)
	b.broker.script(nil, nil)
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByLookup)
	b.audit()
}

func TestRefusalsOfUsNeverReject(t *testing.T) {
	t.Parallel()
	for _, status := range []int{401, 403, 407, 408, 409, 425, 429} {
		b := setup(t)
		p := b.lost(false)
		b.age(p.ID, 11*time.Second)
		b.broker.script(always(reply{status: status}), nil)
		b.pass(p.ID)
		b.age(p.ID, 11*time.Second)
		b.broker.script(nil, nil)
		b.pass(p.ID)
		if got := b.get(p.ID); got.Status != purchase.Completed {
			t.Errorf("after a %d on a replay the purchase is %s", status, got.Status)
		}
		b.audit()
	}
}

func TestNoReplay(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name   string
		option option
		age    time.Duration
		status purchase.Status
		reason string
	}{
		{"KeyExpired", nil, 25 * time.Hour, purchase.ManualReview, "key_expired"},
		{"KeyExpiresDuringTheCall", nil, 24*time.Hour - time.Second, purchase.ManualReview, "key_expired"},
		{"NotIdempotent", func(_ *purchase.Policy, c *httpbroker.Config, _ *broker.GateConfig) {
			c.Idempotent = false
		}, time.Hour, purchase.Unknown, "connection_closed"},
		{"WithinSettle", nil, 9 * time.Second, purchase.Unknown, "connection_closed"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			options := []option{func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) { p.MaxAge = 100 * time.Hour }}
			if c.option != nil {
				options = append(options, c.option)
			}
			b := setup(t, options...)
			p := b.lost(false)
			b.age(p.ID, c.age)
			b.pass(p.ID)
			b.wantEnd(b.get(p.ID), c.status, c.reason, "")
			if n := len(b.broker.placed(p)); n != 1 {
				t.Errorf("placed %d times, want 1", n)
			}
			b.wantMoney("750.00", "250.00", "0.00")
			b.audit()
		})
	}
}

func TestLimitsLeadToReview(t *testing.T) {
	t.Parallel()
	few := func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) { p.MaxAttempts = 5 }
	b := setup(t, few)
	p := b.lost(false)
	b.broker.script(nil, alwaysFor(reply{status: 500}))
	for n := 1; n <= 5; n++ {
		if got := b.get(p.ID); got.Status != purchase.Unknown {
			t.Fatalf("before pass %d the purchase is %s", n, got.Status)
		}
		b.pass(p.ID)
	}
	got := b.get(p.ID)
	b.wantEnd(got, purchase.ManualReview, "attempts_exhausted", "")
	if got.Attempts != 5 || b.broker.lookups[p.BrokerKey] != 5 {
		t.Errorf("%d attempts, %d lookups, want 5", got.Attempts, b.broker.lookups[p.BrokerKey])
	}
	if n := b.count("SELECT count(*) FROM alert WHERE transaction_id = $1", p.ID); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
	if n := b.count("SELECT count(*) FROM river_job WHERE kind = 'deliver_alert'"); n != 1 {
		t.Errorf("%d alert jobs, want 1", n)
	}
	b.wantMoney("750.00", "250.00", "0.00")
	b.audit()
}

func TestAgeLeadsToReviewAfterOneMoreLook(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, booked := b.lost(false), b.lost(true)
	b.age(p.ID, 13*time.Hour)
	b.age(booked.ID, 13*time.Hour)
	b.broker.script(always(reply{status: 500}), nil)
	b.pass(p.ID)
	b.pass(booked.ID)
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "age_exceeded", "")
	b.wantEnd(b.get(booked.ID), purchase.Completed, "", purchase.ByLookup)
	b.audit()
}

func TestMismatchingEvidenceLeadsToReview(t *testing.T) {
	t.Parallel()
	for _, field := range []string{"symbol", "quantity", "limit_price", "notional"} {
		t.Run(field, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.lost(true)
			b.broker.script(nil, func(key string) reply {
				body := map[string]any{}
				for name, value := range b.broker.orders[key] {
					body[name] = value
				}
				body[field] = map[string]string{"symbol": "MSFT", "quantity": "11", "limit_price": "25.01", "notional": "250"}[field]
				if field == "notional" {
					delete(body, "quantity")
				}
				return reply{status: 200, body: body}
			})
			b.pass(p.ID)
			b.wantEnd(b.get(p.ID), purchase.ManualReview, "mismatch", "")
			if n := b.count("SELECT count(*) FROM purchase_note WHERE code = 'mismatch' AND detail LIKE '%' || $1 || '%'", field); n != 1 {
				t.Errorf("%d notes name the %s, want 1", n, field)
			}
			b.audit()
		})
	}
}

func TestEchoOfMoreThanWasOrderedIsNoMismatch(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	b.broker.script(nil, func(key string) reply {
		body := map[string]any{"notional": "250.00", "limit_price": "25"}
		for name, value := range b.broker.orders[key] {
			body[name] = value
		}
		return reply{status: 200, body: body}
	})
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByLookup)
}

func TestRetryAfterIsTheLeastWait(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.script(always(reply{status: 503, header: map[string]string{"Retry-After": "1200"}}), nil)
	p := b.submit(order())
	if wait := b.RetryIn(p); wait < 19*time.Minute || wait > 20*time.Minute {
		t.Errorf("first pass in %s, want 20 min", wait)
	}
	b.broker.script(nil, alwaysFor(reply{status: 429, header: map[string]string{"Retry-After": "999999"}}))
	if outcome := b.pass(p.ID); outcome.Again != time.Hour {
		t.Errorf("next pass in %s, want the longest that is obeyed", outcome.Again)
	}
}

func TestOnePassAtATime(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	looking, answer := make(chan struct{}), make(chan struct{})
	b.broker.script(nil, func(string) reply {
		close(looking)
		<-answer
		return reply{status: 200}
	})
	var wg sync.WaitGroup
	wg.Go(func() {
		outcome, err := b.Pass(t.Context(), p.ID, 0)
		if err != nil || outcome.Result != "completed" {
			t.Errorf("first pass: %+v, %v", outcome, err)
		}
	})
	<-looking
	outcome, err := b.Pass(t.Context(), p.ID, 0)
	if err != nil || outcome.Result != "nothing" || outcome.Again < time.Minute {
		t.Errorf("second pass: %+v, %v; want it to wait for the lease", outcome, err)
	}
	close(answer)
	wg.Wait()
	if n := b.broker.lookups[p.BrokerKey]; n != 1 {
		t.Errorf("%d lookups, want 1", n)
	}
}

func TestStaleClaimantWritesNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.broker.script(nil, func(string) reply {
		b.exec("UPDATE transaction_history SET claim = claim + 1 WHERE id = $1", p.ID)
		return reply{status: 500}
	})
	if outcome := b.pass(p.ID); outcome.Result != "lost_race" {
		t.Errorf("outcome is %+v", outcome)
	}
	if got := b.get(p.ID); got.Attempts != 0 {
		t.Errorf("a stale claimant counted %d attempts", got.Attempts)
	}
}

// A pass whose lease is over, as in a process that was frozen, loses to an operator.
func TestOperatorWinsOverALatePass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	b.broker.script(nil, func(string) reply {
		b.exec("UPDATE transaction_history SET leased_until = now() - interval '1 second'")
		if _, err := b.resolveRejected(p); err != nil {
			t.Error(err)
		}
		return reply{status: 200}
	})
	if outcome := b.pass(p.ID); outcome.Result != "lost_race" || outcome.Again != 0 {
		t.Errorf("outcome is %+v", outcome)
	}
	b.wantEnd(b.get(p.ID), purchase.Rejected, "operator", purchase.ByOperator)
	if b.seen.contradictions.Load() != 1 || b.count("SELECT count(*) FROM alert WHERE type = 'purchase.contradiction'") != 1 {
		t.Errorf("%d contradictions counted, want 1 and its alert", b.seen.contradictions.Load())
	}
	b.wantMoney("1000.00", "0.00", "0.00")
}

func TestShutdownBurnsNoAttempt(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	ctx, cancel := context.WithCancel(t.Context())
	b.broker.script(nil, func(string) reply {
		cancel()
		return reply{drop: true}
	})
	if _, err := b.Pass(ctx, p.ID, 0); err == nil {
		t.Fatal("a stopped pass returned no error")
	}
	got := b.get(p.ID)
	if got.Attempts != 0 || b.RetryIn(got) > time.Second {
		t.Errorf("%d attempts, next in %s; want none, now", got.Attempts, b.RetryIn(got))
	}
}

func TestPausedAndForeignPassesAreNoAttempts(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	if err := b.switches.Set(t.Context(), purchase.SwitchPasses, true, "test", "operator:test"); err != nil {
		t.Fatal(err)
	}
	if outcome := b.pass(p.ID); outcome.Result != "put_off" || outcome.Again <= 0 {
		t.Errorf("paused: %+v", outcome)
	}
	if err := b.switches.Set(t.Context(), purchase.SwitchPasses, false, "", "operator:test"); err != nil {
		t.Fatal(err)
	}
	ofAnother := purchase.Switch{Name: purchase.SwitchPasses, Broker: "another"}
	if err := b.switches.SetFor(t.Context(), ofAnother, true, "test", "operator:test"); err != nil {
		t.Fatal(err)
	}
	if b.switches.PassesPaused(b.Brokers().Names()[0]) || !b.switches.PassesPaused("another") {
		t.Error("another broker's switch pauses this one, or not that one")
	}
	b.exec("UPDATE transaction_history SET broker = 'another' WHERE id = $1", p.ID)
	if outcome := b.pass(p.ID); outcome.Result != "nothing" || outcome.Again < time.Minute {
		t.Errorf("foreign: %+v", outcome)
	}
	if n := b.broker.lookups[p.BrokerKey]; n != 0 {
		t.Errorf("%d lookups, want none", n)
	}
}

// The job ends in the transaction of its pass's effect: both or neither.
func TestTheJobEndsWithItsEffect(t *testing.T) {
	t.Parallel()
	for _, fails := range []bool{false, true} {
		b := setup(t)
		p := b.lost(true)
		var job int64
		if err := b.pool.QueryRow(t.Context(), "UPDATE river_job SET state = 'running' RETURNING id").Scan(&job); err != nil {
			t.Fatal(err)
		}
		want, state := purchase.Completed, "completed"
		if fails {
			b.exec("ALTER TABLE river_job ADD CONSTRAINT none CHECK (state <> 'completed')")
			want, state = purchase.Unknown, "running"
		}
		if _, err := b.Pass(t.Context(), p.ID, job); (err != nil) != fails {
			t.Errorf("error %v, fails %t", err, fails)
		}
		if got := b.get(p.ID); got.Status != want {
			t.Errorf("purchase is %s, want %s", got.Status, want)
		}
		if n := b.count("SELECT count(*) FROM river_job WHERE id = $1 AND state = $2", job, state); n != 1 {
			t.Errorf("job is not %s", state)
		}
	}
}

func TestPassOfNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	done := b.submit(order())
	for _, id := range []uuid.UUID{done.ID, uuid.New()} {
		if outcome := b.pass(id); outcome.Result != "nothing" || outcome.Again != 0 {
			t.Errorf("outcome is %+v", outcome)
		}
	}
}
