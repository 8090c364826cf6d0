package purchase_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/broker"
	"holdfast/broker/httpbroker"
	"holdfast/internal/testkit/pgtest"
	"holdfast/purchase"
)

// beforePlace is a broker that is reached after something else has happened.
type beforePlace struct {
	broker.Broker
	do func(broker.Request)
}

func (b beforePlace) Place(ctx context.Context, r broker.Request) broker.Answer {
	b.do(r)
	return b.Broker.Place(ctx, r)
}

// due makes the next pass of a purchase due.
func (b *bundle) due(p purchase.Purchase) {
	b.t.Helper()
	b.exec("UPDATE transaction_history SET next_retry = now() WHERE id = $1 AND status = 'UNKNOWN'", p.ID)
}

// hold locks a purchase's row, as another transaction, until release is called.
func (b *bundle) hold(p purchase.Purchase) (release func()) {
	b.t.Helper()
	tx, err := b.pool.BeginTx(b.t.Context(), pgx.TxOptions{})
	if err != nil {
		b.t.Fatal(err)
	}
	if _, err := tx.Exec(b.t.Context(), "SELECT FROM transaction_history WHERE id = $1 FOR NO KEY UPDATE", p.ID); err != nil {
		b.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(b.t.Context()); err != nil {
			b.t.Error(err)
		}
	}
}

func TestNothingButItsOutcomeEndsAPurchaseWithAnOpenIntent(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.age(p.ID, 13*time.Hour)
	b.exec("UPDATE transaction_history SET unknown_since = now()")
	b.due(p)
	s := b.serviceOver(beforePlace{b.wire, func(broker.Request) {
		var inProgress *purchase.InProgressError
		if _, err := b.resolveRejected(p); !errors.As(err, &inProgress) || inProgress.RetryAfter <= 0 {
			t.Errorf("resolution returned %v, want in progress", err)
		}
		b.exec("UPDATE transaction_history SET unknown_since = now() - interval '13 hours'")
		if n, err := b.SweepLimits(t.Context()); n != 0 || err != nil {
			t.Errorf("the sweep moved %d (%v), want 0", n, err)
		}
	}}, broker.GateConfig{})
	outcome, err := s.Pass(t.Context(), p.ID, 0)
	if err != nil || outcome.Result != "completed" {
		t.Errorf("pass: %+v, %v", outcome, err)
	}
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByReplay)
	if _, err := b.resolveRejected(p); !errors.Is(err, purchase.ErrAlreadySettled) {
		t.Errorf("resolution after the pass returned %v", err)
	}
	b.wantMoney("750.00", "0.00", "250.00")
	b.audit()
}

// A process that froze after its intent holds the purchase no longer than its order could
// still be sent, and its replay has ended, at the latest, the broker timeout later.
func TestIntentOfADeadProcessEnds(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.age(p.ID, time.Hour)
	b.exec("UPDATE transaction_history SET claim = 1, send_until = now() + interval '1 second', leased_until = NULL")
	var inProgress *purchase.InProgressError
	if _, err := b.resolveRejected(p); !errors.As(err, &inProgress) {
		t.Errorf("resolution returned %v, want in progress", err)
	}
	b.broker.script(nil, alwaysFor(reply{status: 404, body: map[string]any{"code": "order_not_found"}}))
	b.exec("UPDATE transaction_history SET send_until = now() - interval '5 seconds'")
	if outcome := b.pass(p.ID); outcome.Result != "deferred" {
		t.Errorf("within the settle time of a replay that may have been sent: %+v", outcome)
	}
	if _, err := b.resolveRejected(p); err != nil {
		t.Errorf("resolution after the intent returned %v", err)
	}
	b.audit()
}

func TestReplayIsNotSentAfterItsDeadline(t *testing.T) {
	t.Parallel()
	cases := []struct {
		name string
		// limit makes the deadline one second away.
		limit string
	}{
		{"KeyRetention", "created_at = now() - interval '23 hours 59 minutes 57 seconds'"},
		{"MaxAge", "unknown_since = now() - interval '11 hours 59 minutes 59 seconds'"},
		{"ValidUntil", "valid_until = now() + interval '1 second'"},
		{"Lease", "leased_until = now() + interval '3 seconds'"},
		{"Window", "metadata = metadata"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p := b.lost(false)
			b.age(p.ID, time.Hour)
			var release func()
			b.broker.script(nil, func(string) reply {
				b.exec("UPDATE transaction_history SET " + c.limit)
				release = b.hold(p)
				return reply{status: 404, body: map[string]any{"code": "order_not_found", "client_order_id": p.BrokerKey}}
			})
			var passing sync.WaitGroup
			passing.Go(func() { b.pass(p.ID) })
			b.awaitWaiting("IntendReplay")
			b.awaitDatabaseTime(5 * time.Second)
			release()
			passing.Wait()
			if n := len(b.broker.placed(p)); n != 1 {
				t.Errorf("placed %d times, want 1: the replay's deadline had passed", n)
			}
			b.audit()
		})
	}
}

// A synchronous standby falls silent while the intent is committed: once it is back, the
// replay's deadline has passed.
func TestReplayIsNotSentAfterASilentStandby(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	b := setupOn(t, cluster)
	p := b.lost(false)
	b.age(p.ID, time.Hour)
	var release func()
	b.broker.script(nil, func(key string) reply {
		release = b.hold(p)
		return absent(key)
	})
	var passing sync.WaitGroup
	passing.Go(func() { b.pass(p.ID) })
	b.awaitWaiting("IntendReplay")
	cluster.Exec(t, "ALTER SYSTEM SET synchronous_standby_names = 'silent'")
	cluster.Exec(t, "SELECT pg_reload_conf()")
	release()
	b.await("the intent's commit", "SELECT count(*) FROM pg_stat_activity WHERE wait_event = 'SyncRep' AND query ~ 'IntendReplay'")
	b.awaitDatabaseTime(5 * time.Second)
	cluster.Exec(t, "ALTER SYSTEM RESET synchronous_standby_names")
	cluster.Exec(t, "SELECT pg_reload_conf()")
	passing.Wait()
	if n := len(b.broker.placed(p)); n != 1 {
		t.Errorf("placed %d times, want 1: the replay's deadline had passed", n)
	}
	b.audit()
}

// awaitDatabaseTime waits by the database's clock.
func (b *bundle) awaitDatabaseTime(d time.Duration) {
	b.t.Helper()
	b.exec("SELECT pg_sleep($1)", d.Seconds())
}

func TestPausedPassesSendNothing(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.age(p.ID, time.Hour)
	b.due(p)
	another := purchase.NewSwitches(b.pool, slog.New(slog.DiscardHandler))
	b.broker.script(nil, func(string) reply {
		// By another process: this one reads the switches only every second.
		if err := another.Set(t.Context(), purchase.SwitchPasses, true, "stop", "operator:k1"); err != nil {
			t.Error(err)
		}
		return reply{status: 404, body: map[string]any{"code": "order_not_found", "client_order_id": p.BrokerKey}}
	})
	if outcome := b.pass(p.ID); outcome.Result != "put_off" {
		t.Errorf("paused between lookup and replay: %+v", outcome)
	}
	if outcome := b.pass(p.ID); outcome.Result != "put_off" {
		t.Errorf("paused before the claim: %+v", outcome)
	}
	if n, looked := len(b.broker.placed(p)), b.broker.lookedUp(p); n != 1 || looked != 1 {
		t.Errorf("placed %d times, looked up %d times; want 1 and 1", n, looked)
	}
	if got := b.get(p.ID); got.Attempts != 0 {
		t.Errorf("%d attempts, want 0", got.Attempts)
	}
}

// Passes that wait for their turn when passes are paused must not go ahead when it comes.
func TestPauseStopsQueuedPasses(t *testing.T) {
	t.Parallel()
	b := setup(t, func(_ *purchase.Policy, _ *httpbroker.Config, g *broker.GateConfig) { g.Rate = 2 })
	b.fund("acct-2", "100000.00")
	b.broker.script(always(reply{drop: true}), nil)
	var all []purchase.Purchase
	for range 8 {
		sub := order()
		sub.AccountID = "acct-2"
		all = append(all, b.submit(sub))
	}
	b.broker.script(nil, nil)
	var passes sync.WaitGroup
	for _, p := range all {
		b.age(p.ID, time.Minute)
		b.due(p)
		passes.Go(func() {
			if _, err := b.Pass(t.Context(), p.ID, 0); err != nil {
				t.Error(err)
			}
		})
	}
	if err := b.switches.Set(t.Context(), purchase.SwitchPasses, true, "stop", "operator:k1"); err != nil {
		t.Fatal(err)
	}
	at := b.broker.bought()
	passes.Wait()
	if after := b.broker.bought(); after > at+1 {
		t.Errorf("%d bought after the pause", after-at)
	}
}

// The settle time counts from the end of the first call, however long its record waited.
func TestSettleTimeCountsFromTheEndOfACall(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.broker.script(func(map[string]any) reply {
		b.exec("UPDATE transaction_history SET created_at = created_at - interval '30 seconds', send_until = send_until - interval '30 seconds'")
		return reply{book: true, drop: true}
	}, func(key string) reply {
		return reply{status: 404, body: map[string]any{"code": "order_not_found", "client_order_id": key}}
	})
	p := b.submit(order())
	if outcome := b.pass(p.ID); outcome.Result != "deferred" {
		t.Errorf("pass right after the call: %+v", outcome)
	}
	if n := len(b.broker.placed(p)); n != 1 {
		t.Errorf("placed %d times, want 1", n)
	}
}
