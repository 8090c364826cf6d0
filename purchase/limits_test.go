package purchase_test

import (
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/purchase"
)

// Limits apply whether or not a pass can run.
func TestLimitsApplyWithoutAPass(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name  string
		spoil func(*bundle)
	}{
		{"BreakerOpen", func(b *bundle) { b.Service = b.serviceOver(b.wire, broker.GateConfig{Failures: 1}) }},
		{"PassesPaused", func(b *bundle) {
			if err := b.switches.Set(b.t.Context(), purchase.SwitchPasses, true, "stop", "operator:k1"); err != nil {
				b.t.Fatal(err)
			}
		}},
		{"BrokerUnserved", func(b *bundle) { b.exec("UPDATE transaction_history SET broker = 'former'") }},
		{"StoredRequestCorrupt", func(b *bundle) { b.exec("UPDATE transaction_history SET broker_request = 'x'") }},
		{"LeaseOfADeadProcess", func(b *bundle) { b.exec("UPDATE transaction_history SET leased_until = now() + interval '2 minutes'") }},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.lost(false)
			c.spoil(b)
			b.age(p.ID, 13*time.Hour)
			if n, err := b.SweepLimits(t.Context()); n != 1 || err != nil {
				t.Fatalf("swept %d (%v), want 1", n, err)
			}
			b.wantEnd(b.get(p.ID), purchase.ManualReview, "age_exceeded", "")
			if n := b.count("SELECT count(*) FROM alert WHERE transaction_id = $1", p.ID); n != 1 {
				t.Errorf("%d alerts, want 1", n)
			}
			b.wantMoney("750.00", "250.00", "0.00")
		})
	}
}

func TestLimitOfAttemptsAppliesWithoutAPass(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(true)
	b.exec("UPDATE transaction_history SET attempts = 20")
	if n, err := b.SweepLimits(t.Context()); n != 1 || err != nil {
		t.Fatalf("swept %d (%v), want 1", n, err)
	}
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "attempts_exhausted", "")
	b.audit()
}

// A stored request that does not have its hash is never sent; passes go on and count.
func TestCorruptRequestIsNotReplayed(t *testing.T) {
	t.Parallel()
	b := setup(t, func(p *purchase.Policy, _ *httpbroker.Config, _ *broker.GateConfig) { p.MaxAttempts = 3 })
	p := b.lost(false)
	b.exec("UPDATE transaction_history SET broker_request = 'x'")
	b.broker.script(nil, absent)
	for range 3 {
		b.age(p.ID, 11*time.Second)
		b.pass(p.ID)
	}
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "attempts_exhausted", "")
	if n := len(b.broker.placed(p)); n != 1 {
		t.Errorf("placed %d times, want 1", n)
	}
}

// One row that cannot be changed keeps no other from being swept.
func TestOneBadRowStopsNoSweep(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.fund("acct-2", "1000.00")
	var stale, open []purchase.Purchase
	for range 3 {
		open = append(open, b.lost(true))
	}
	for range 3 {
		sub := order()
		sub.AccountID = "acct-2"
		p, err := b.Abandon(t.Context(), sub)
		if err != nil {
			t.Fatal(err)
		}
		stale = append(stale, p)
	}
	for _, p := range append(open[:3:3], stale...) {
		b.age(p.ID, 13*time.Hour)
	}
	b.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'a bad row'; END $$")
	for _, bad := range []purchase.Purchase{open[0], stale[0]} {
		b.exec(`CREATE TRIGGER bad_` + bad.ID.String()[30:] + ` BEFORE UPDATE ON transaction_history FOR EACH ROW
		        WHEN (OLD.id = '` + bad.ID.String() + `') EXECUTE FUNCTION refuse()`)
	}
	if n, err := b.SweepLimits(t.Context()); n != 2 || err == nil {
		t.Errorf("swept %d past their limits (%v), want 2 and the failure of the third", n, err)
	}
	if n, err := b.SweepPending(t.Context()); n != 2 || err == nil {
		t.Errorf("swept %d pending (%v), want 2 and the failure of the third", n, err)
	}
}

func TestOverdueChecksRaiseAnAlert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lost(true)
	raised := func() int { return b.count("SELECT count(*) FROM alert WHERE type = 'purchases.overdue'") }
	b.exec("UPDATE transaction_history SET next_retry = now() - interval '4 minutes'")
	if err := b.AlertOverdue(t.Context()); err != nil || raised() != 0 {
		t.Errorf("4 minutes overdue: %d alerts (%v), want none", raised(), err)
	}
	b.exec("UPDATE transaction_history SET next_retry = now() - interval '6 minutes'")
	for range 2 {
		if err := b.AlertOverdue(t.Context()); err != nil || raised() != 1 {
			t.Errorf("6 minutes overdue: %d alerts (%v), want 1", raised(), err)
		}
	}
}

func TestUnservedBrokersRaiseAnAlert(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.lost(true)
	b.submit(order())
	b.exec("UPDATE transaction_history SET broker = 'former'")
	unserved, err := b.Unserved(t.Context())
	if err != nil || len(unserved) != 1 || unserved["former"] != 1 {
		t.Errorf("unserved: %v (%v), want 1 of former", unserved, err)
	}
	if err := b.AlertUnserved(t.Context()); err != nil {
		t.Fatal(err)
	}
	if n := b.count("SELECT count(*) FROM alert WHERE type = 'broker.unserved'"); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
}
