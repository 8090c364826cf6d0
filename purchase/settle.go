package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
)

// The kinds of attempt.
const (
	callPlace  = "place"
	callLookup = "lookup"
	callReplay = "replay"
)

// settleReply stores what the first call proved and returns the purchase as it stands.
// If it cannot be stored, the purchase stays PENDING for the sweep.
func (s *Service) settleReply(ctx context.Context, via *member, recorded row, a broker.Answer) row {
	by := weigh(recorded, exchange{
		call: callPlace, brokerKey: recorded.BrokerKey, requestHash: recorded.RequestHash, answer: a,
	})
	t := replyTransition(recorded, by, via.Policy.obeyed(a.RetryAfter))
	for try := 1; ; try++ {
		settled, err := s.trySettle(ctx, recorded, t)
		if err == nil {
			return settled
		}
		if errors.Is(err, ErrOrderIDTaken) {
			by.mismatch = "order id " + t.orderID + ", which another purchase has"
			t = replyTransition(recorded, by, t.wait)
			continue
		}
		if try == settleTries {
			s.log.Error("outcome not stored: the sweep will find it out", "purchase_id", recorded.ID, "error", err)
			return recorded
		}
		<-time.After(settlePause * time.Duration(try))
	}
}

func (s *Service) trySettle(ctx context.Context, recorded row, t transition) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	settled, ok, err := s.applyReply(ctx, t)
	if err != nil || ok {
		return settled, err
	}
	return s.settleLate(ctx, recorded, t)
}

// settleResult is a purchase after its transition; ok is false if it had changed before.
type settleResult struct {
	row row
	ok  bool
}

// errTwice: two transitions of one purchase met in a batch.
var errTwice = errors.New("two transitions of one purchase in one statement")

// applyReply applies a first call's transition. A final one needs only the short
// statement, and under load shares it with others.
func (s *Service) applyReply(ctx context.Context, t transition) (row, bool, error) {
	if t.to.Final() {
		done, err := s.settleBatcher.do(t)
		return done.row, done.ok, err
	}
	return s.applyTransition(ctx, t)
}

// settleAll applies transitions in one statement, at most one of each purchase.
func (s *Service) settleAll(ctx context.Context, changes []transition, lockTimeout time.Duration) []result[settleResult] {
	done := make([]result[settleResult], len(changes))
	at := make(map[uuid.UUID]int, len(changes))
	once := make([]transition, 0, len(changes))
	for i, t := range changes {
		done[i].err = errTwice
		if _, twice := at[t.id]; !twice {
			at[t.id] = i
			once = append(once, t)
		}
	}
	rows, err := s.applyTransitions(ctx, once, lockTimeout)
	for _, i := range at {
		done[i].err = err
	}
	for _, r := range rows {
		done[at[r.ID]].out = settleResult{row: r, ok: true}
	}
	return done
}

// settleLate deals with a first call's answer whose purchase has changed meanwhile: the
// sweep took it for interrupted, or an earlier try's commit went through after all. The
// answer is stored as an attempt, whatever the purchase has become, and that it names an
// order is not forgotten. A confirmation stays true however late it comes; see
// lateReplyTransition for a refusal.
func (s *Service) settleLate(ctx context.Context, recorded row, t transition) (row, error) {
	if t.short {
		t.short = false // the full statement stores the attempt of a purchase that has changed
		if settled, ok, err := s.applyTransition(ctx, t); err != nil || ok {
			return settled, err
		}
	}
	now, err := s.remember(ctx, recorded.ID, t.exchange.answer)
	if err != nil {
		return row{}, fmt.Errorf("remember late answer: %w", err)
	}
	if Status(now.Status).Final() {
		return now, s.noteContradiction(ctx, now, impliedStatus(t.to, t.exchange.answer), t.exchange)
	}
	if Status(now.Status) != Unknown || !t.to.Final() {
		return now, nil
	}
	settled, ok, err := s.applyTransition(ctx, lateReplyTransition(now, t))
	if err != nil || ok {
		return settled, err
	}
	return now, nil
}
