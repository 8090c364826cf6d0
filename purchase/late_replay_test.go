package purchase_test

import (
	"context"
	"testing"
	"time"

	"holdfast/broker"
	"holdfast/purchase"
)

// thawed makes a pass whose process was frozen while its replay was answered: its lease
// ended and meanwhile happened before it could store the answer.
func (b *bundle) thawed(answer reply, meanwhile func(purchase.Purchase)) (purchase.Purchase, purchase.PassOutcome, error) {
	b.t.Helper()
	p := b.lost(false)
	b.age(p.ID, time.Minute)
	b.due(p)
	b.broker.script(func(order map[string]any) reply {
		if body, ok := answer.body.(map[string]any); ok {
			body["client_order_id"] = order["client_order_id"]
		}
		b.exec("UPDATE transaction_history SET leased_until = now() - interval '1 minute', send_until = now() - interval '1 minute'")
		meanwhile(p)
		return answer
	}, absent)
	outcome, err := b.Pass(b.t.Context(), p.ID, 0)
	return p, outcome, err
}

func (b *bundle) mustResolveRejected(p purchase.Purchase) {
	b.t.Helper()
	if _, err := b.resolveRejected(p); err != nil {
		b.t.Fatal(err)
	}
}

func (b *bundle) contradictions(p purchase.Purchase) int {
	b.t.Helper()
	return b.count("SELECT count(*) FROM purchase_note WHERE code = 'contradiction' AND transaction_id = $1", p.ID)
}

func TestLateAnswerToAReplayContradicts(t *testing.T) {
	t.Parallel()
	for _, status := range []string{"completed", "processing"} {
		t.Run(status, func(t *testing.T) {
			t.Parallel()
			b := setup(t)
			p, outcome, err := b.thawed(reply{status: 201, body: map[string]any{
				"order_id": "77", "status": status,
			}}, b.mustResolveRejected)
			if err != nil || outcome.Result != "lost_race" {
				t.Errorf("pass: %+v, %v", outcome, err)
			}
			b.wantEnd(b.get(p.ID), purchase.Rejected, "operator", purchase.ByOperator)
			if n := b.count("SELECT count(*) FROM broker_attempt WHERE call = 'replay' AND order_id = '77' AND answer LIKE '%77%'"); n != 1 {
				t.Errorf("%d attempts with the late order, want 1", n)
			}
			if n := b.contradictions(p); n != 1 {
				t.Errorf("%d notes, want 1", n)
			}
			if n := b.count("SELECT count(*) FROM alert WHERE type = 'purchase.contradiction'"); n != 1 {
				t.Errorf("%d alerts, want 1", n)
			}
		})
	}
}

// A contradiction whose note could not be stored is noted when the job runs again.
func TestContradictionIsNotLostWithItsNote(t *testing.T) {
	t.Parallel()
	b := setup(t)
	b.exec("CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN RAISE 'no notes today'; END $$")
	p, _, err := b.thawed(reply{book: true, status: 201}, func(p purchase.Purchase) {
		b.mustResolveRejected(p)
		b.exec("CREATE TRIGGER refuse BEFORE INSERT ON purchase_note FOR EACH ROW EXECUTE FUNCTION refuse()")
	})
	if err == nil || b.contradictions(p) != 0 {
		t.Fatalf("the note was stored (%v)", err)
	}
	if n := b.count("SELECT count(*) FROM alert WHERE type = 'purchase.contradiction'"); n != 1 {
		t.Errorf("%d alerts, want 1", n)
	}
	b.exec("DROP TRIGGER refuse ON purchase_note")
	for range 2 {
		if outcome := b.pass(p.ID); outcome.Result != "nothing" {
			t.Errorf("pass of a final purchase: %+v", outcome)
		}
		if n := b.contradictions(p); n != 1 {
			t.Errorf("%d notes, want 1", n)
		}
	}
}

// An order that a stale claimant was told of is known to those who come after.
func TestLateAnswerToAReplayNamesTheOrder(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p, outcome, err := b.thawed(reply{book: true, status: 201}, func(p purchase.Purchase) {
		b.exec("UPDATE transaction_history SET claim = claim + 1")
	})
	if err != nil || outcome.Result != "lost_race" || outcome.Again == 0 {
		t.Errorf("pass: %+v, %v", outcome, err)
	}
	b.wantEnd(b.get(p.ID), purchase.Unknown, "connection_closed", "")
	b.exec("UPDATE transaction_history SET leased_until = NULL")
	b.age(p.ID, time.Minute)
	b.pass(p.ID)
	b.wantEnd(b.get(p.ID), purchase.ManualReview, "mismatch", "")
	if n := len(b.broker.placed(p)); n != 2 {
		t.Errorf("placed %d times, want 2", n)
	}
	b.audit()
}

// A complete answer counts though the pass was stopped when it came.
func TestAnswerToAReplayOutlivesAShutdown(t *testing.T) {
	t.Parallel()
	b := setup(t)
	p := b.lost(false)
	b.age(p.ID, time.Minute)
	b.due(p)
	ctx, cancel := context.WithCancel(t.Context())
	s := b.serviceOver(afterPlace{b.wire, cancel}, broker.GateConfig{})
	outcome, err := s.Pass(ctx, p.ID, 0)
	if err != nil || outcome.Result != "completed" {
		t.Errorf("pass: %+v, %v", outcome, err)
	}
	b.wantEnd(b.get(p.ID), purchase.Completed, "", purchase.ByReplay)
	b.audit()
}

// afterPlace is a broker after whose answer something happens.
type afterPlace struct {
	broker.Broker
	do func()
}

func (b afterPlace) Place(ctx context.Context, r broker.Request) broker.Answer {
	defer b.do()
	return b.Broker.Place(ctx, r)
}
