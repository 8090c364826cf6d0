package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// The kinds of attempt.
const (
	callPlace  = "place"
	callLookup = "lookup"
	callReplay = "replay"
)

// replyMove says what the first call's answer proves, and nothing more.
func (s *Service) replyTransition(r row, a broker.Answer) transition {
	m := transition{
		id: r.ID, from: Pending, version: r.Version, claim: anyClaim, actor: actorClient,
		recorded: &r,
		exchange: exchange{call: callPlace, brokerKey: r.BrokerKey, requestHash: r.RequestHash, answer: a},
	}
	if said := contradiction(r, a); said != "" {
		return s.uncertain(m, string(broker.Mismatch)).mismatched(said)
	}
	if a.Verdict == broker.Accepted {
		return m.completed(ByReply)
	}
	if a.Verdict == broker.Rejected {
		return m.rejected(ByReply, a.Code)
	}
	return s.uncertain(m, uncertainReason(a))
}

// contradiction says in what an answer speaks of another order than the purchase's: by
// what it repeats, or by more filled than was asked for. Empty where it does not, or where
// it speaks of no order.
func contradiction(r row, a broker.Answer) string {
	if !found(a) {
		return ""
	}
	if said := a.Echo.Contradiction(orderOf(r)); said != "" {
		return said
	}
	if a.FilledQuantity.Valid && r.Quantity.Valid && a.FilledQuantity.Decimal.GreaterThan(r.Quantity.Decimal) {
		return fmt.Sprintf("filled %s, ordered %s", a.FilledQuantity.Decimal, r.Quantity.Decimal)
	}
	return ""
}

// mismatched marks a move by an answer that speaks of another order.
func (m transition) mismatched(said string) transition {
	m.reason, m.exchange.answer.Reason = string(broker.Mismatch), broker.Mismatch
	m.noteCode, m.noteDetail = string(broker.Mismatch), "the broker says "+said
	return m
}

func uncertainReason(a broker.Answer) string {
	if a.Reason == "" {
		return string(broker.UnconfirmedResponse)
	}
	return string(a.Reason)
}

func (m transition) completed(by Evidence) transition {
	m.to, m.evidence = Completed, by
	m.cost, m.filled = optional(m.exchange.answer.Cost), optional(m.exchange.answer.FilledQuantity)
	m.orderID = m.exchange.answer.OrderID
	return m
}

func (m transition) rejected(by Evidence, code string) transition {
	m.to, m.evidence, m.reason = Rejected, by, codeOr4xx(code)
	m.orderID = m.exchange.answer.OrderID
	return m
}

func codeOr4xx(code string) string {
	if code == "" {
		return ReasonBroker4xx
	}
	return code
}

func (s *Service) uncertain(m transition, reason string) transition {
	m.to, m.reason = Unknown, reason
	m.wait = s.policy.obeyed(m.exchange.answer.RetryAfter)
	if reason != string(broker.Mismatch) {
		m.orderID = m.exchange.answer.OrderID
	}
	return m
}

// settleReply stores what the first call proved and returns the purchase as it stands.
// Where it cannot be stored, the purchase stays PENDING for the sweep.
func (s *Service) settleReply(ctx context.Context, recorded row, a broker.Answer) row {
	m := s.replyTransition(recorded, a)
	for try := 1; ; try++ {
		settled, err := s.trySettle(ctx, recorded, m)
		if err == nil {
			return settled
		}
		if errors.Is(err, ErrOrderIDTaken) {
			m = s.uncertain(m, string(broker.Mismatch)).mismatched("order id " + m.orderID + ", which another purchase has")
			m.evidence, m.cost, m.filled, m.orderID = "", "", "", ""
			continue
		}
		if try == settleTries {
			s.log.Error("outcome not stored: the sweep will find it out", "purchase_id", recorded.ID, "error", err)
			return recorded
		}
		<-time.After(settlePause * time.Duration(try))
	}
}

func (s *Service) trySettle(ctx context.Context, recorded row, m transition) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	settled, ok, err := s.applyReply(ctx, m)
	if err != nil || ok {
		return settled, err
	}
	return s.settleLate(ctx, recorded, m)
}

// settlement is what came of one move.
type settleResult struct {
	row    row
	ok     bool
	err    error
	shared bool
}

// errTwice: two of a batch would move one purchase.
var errTwice = errors.New("purchase moves twice in one statement")

// moveReply moves a purchase by its reply. A final one needs nothing but the door's
// statement, and under load shares it with others.
func (s *Service) applyReply(ctx context.Context, m transition) (row, bool, error) {
	if m.to.Final() {
		return s.applyBatched(ctx, m, s.settleBatcher)
	}
	return s.applyTransition(ctx, m)
}

// moveShared moves a purchase in company; what that may be to blame for is tried again
// alone.
func (s *Service) applyBatched(ctx context.Context, m transition, with *batcher[transition, settleResult]) (row, bool, error) {
	done := with.do(m)
	if done.err == nil || !done.shared {
		return done.row, done.ok, done.err
	}
	return s.applyTransition(ctx, m)
}

func (s *Service) settleAll(ctx context.Context, changes []transition) []settleResult {
	done := make([]settleResult, len(changes))
	at := make(map[uuid.UUID]int, len(changes))
	once := make([]transition, 0, len(changes))
	for i, m := range changes {
		done[i] = settleResult{err: errTwice, shared: true}
		if _, twice := at[m.id]; !twice {
			at[m.id] = i
			once = append(once, m)
		}
	}
	rows, err := s.applyTransitions(ctx, once)
	for _, i := range at {
		done[i] = settleResult{err: err, shared: len(changes) > 1}
	}
	for _, r := range rows {
		done[at[r.ID]].row, done[at[r.ID]].ok = r, true
	}
	return done
}

// settleLate deals with a first call's answer whose purchase has moved on meanwhile:
// the sweep took it for interrupted, or an earlier try's commit went through after all.
// The answer itself is kept. That it was bought stays true however late it is said; a
// refusal counts only while no pass has begun, for a replay may have bought since.
func (s *Service) settleLate(ctx context.Context, recorded row, m transition) (row, error) {
	now, err := db.New(s.pool).PurchaseByID(ctx, recorded.ID)
	if err != nil {
		return row{}, fmt.Errorf("read purchase: %w", err)
	}
	if Status(now.Status).Final() {
		return now, s.noteContradiction(ctx, now, m.to, m.exchange)
	}
	if Status(now.Status) != Unknown || !m.to.Final() {
		return now, nil
	}
	m.from, m.version = Unknown, now.Version
	if m.to == Rejected {
		m.claim = 0
	}
	settled, ok, err := s.applyTransition(ctx, m)
	if err != nil {
		return row{}, err
	}
	if !ok {
		return now, nil
	}
	return settled, nil
}
