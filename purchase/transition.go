package purchase

import (
	"time"

	"github.com/google/uuid"

	"holdfast/broker"
)

// anyClaim says that a transition does not depend on a pass's claim.
const anyClaim = -1

// Who changes a status, apart from "operator:KEY-ID".
const (
	actorClient = "client"
	actorWorker = "worker"
	actorSweep  = "sweep"
)

// transition is one purchase's change of status, with everything that goes with it. It
// applies only to a purchase that still has the status and version it was made for. Each
// cause has one constructor; all of them are below.
type transition struct {
	id      uuid.UUID
	account string
	from    Status
	version int32
	claim   int64

	to       Status
	reason   string
	evidence Evidence
	actor    string

	cost    string
	filled  string
	orderID string
	// wait is the time until the next pass, into Unknown.
	wait time.Duration
	// passes is added to the attempts; -1 starts them again at 0.
	passes int32
	note   note

	exchange exchange
	// job carried the pass that makes the transition, and is done with it; 0: none did.
	job int64
	// short: the short statement writes everything that this transition changes.
	short bool
}

func (t transition) accountID() string { return t.account }

// exchange is the call that gave a transition its evidence; call is empty if none did.
type exchange struct {
	call      string
	brokerKey string
	// attemptID is the row of a replay, which is written before it is sent.
	attemptID   int64
	requestHash []byte
	answer      broker.Answer
	// mismatch says in what the answer names another order; see weigh.
	mismatch string
	// note goes with a transition to Completed that rests on this exchange.
	note note
}

// note is a remark in a purchase's history; without a code there is none.
type note struct{ code, detail string }

// replyTransition is what the first call's answer proves, and nothing more. wait is the
// minimum until the first pass.
func replyTransition(r row, by exchange, wait time.Duration) transition {
	t := transition{
		id: r.ID, account: r.AccountID, from: Pending, version: r.Version, claim: anyClaim, actor: actorClient, exchange: by,
	}
	switch {
	case by.mismatch != "":
		return t.uncertain(string(broker.Mismatch), wait).mismatched(by.mismatch)
	case by.answer.Verdict == broker.Accepted:
		t = t.completed(ByReply)
	case by.answer.Verdict == broker.Rejected:
		t = t.rejected(ByReply, by.answer.Code)
	default:
		return t.uncertain(uncertainReason(by.answer), wait)
	}
	t.short = by.answer.StatusCode != 0 && t.note.code == "" && !by.answer.Cost.Decimal.GreaterThan(r.Hold)
	return t
}

// lateReplyTransition is what a first call's answer proves of a purchase that the sweep
// took for interrupted. A confirmation stays true however late it comes; a refusal counts
// only while no pass has begun, for a replay may have bought since.
func lateReplyTransition(now row, reply transition) transition {
	reply.from, reply.version, reply.short = Unknown, now.Version, false
	if reply.to == Rejected {
		reply.claim = 0
	}
	return reply
}

// passTransition is what a pass decided.
func passTransition(p *pass, d decision, by exchange) transition {
	t := transition{
		id: p.row.ID, account: p.row.AccountID, from: Unknown, version: p.row.Version, claim: p.row.Claim,
		actor: actorWorker, passes: 1, exchange: by, job: p.job,
	}
	t.exchange.brokerKey = p.row.BrokerKey
	switch d.to {
	case Completed:
		return t.completed(d.evidence)
	case Rejected:
		return t.rejected(d.evidence, d.reason)
	default:
		t.to, t.reason = d.to, d.reason
		if d.mismatch != "" {
			return t.mismatched(d.mismatch)
		}
		return t
	}
}

// interruptionTransition takes a purchase that has been PENDING past its grace as UNKNOWN.
func interruptionTransition(id uuid.UUID, version int32) transition {
	return transition{
		id: id, from: Pending, version: version, claim: anyClaim,
		to: Unknown, reason: ReasonInterrupted, actor: actorSweep,
	}
}

// limitTransition gives an UNKNOWN purchase that has reached a limit to an operator.
func limitTransition(id uuid.UUID, version int32, reason string) transition {
	return transition{
		id: id, from: Unknown, version: version, claim: anyClaim,
		to: ManualReview, reason: reason, actor: actorSweep,
	}
}

// resolutionTransition is an operator's decision. It names the claim: a pass that begins
// meanwhile makes it void.
func resolutionTransition(now row, r Resolution) transition {
	t := transition{
		id: now.ID, from: Status(now.Status), version: now.Version, claim: now.Claim,
		evidence: ByOperator, actor: r.Actor, note: note{"resolution", r.Note}, orderID: r.OrderID,
	}
	if r.Outcome == OutcomeCompleted {
		t.to, t.cost = Completed, optional(r.Cost)
		return t
	}
	t.to, t.reason = Rejected, ReasonOperator
	return t
}

// reopeningTransition puts a purchase in review back to UNKNOWN for an operator, with its
// attempts and age counted from scratch.
func reopeningTransition(id uuid.UUID, version int32, actor string) transition {
	return transition{
		id: id, from: ManualReview, version: version, claim: anyClaim,
		to: Unknown, reason: ReasonReconcileRequested, actor: actor, passes: -1,
	}
}

func (t transition) completed(by Evidence) transition {
	t.to, t.evidence, t.note = Completed, by, t.exchange.note
	t.cost, t.filled = optional(t.exchange.answer.Cost), optional(t.exchange.answer.FilledQuantity)
	t.orderID = t.exchange.answer.OrderID
	return t
}

func (t transition) rejected(by Evidence, code string) transition {
	t.to, t.evidence, t.reason = Rejected, by, codeOr4xx(code)
	t.orderID = t.exchange.answer.OrderID
	return t
}

func codeOr4xx(code string) string {
	if code == "" {
		return ReasonBroker4xx
	}
	return code
}

func (t transition) uncertain(reason string, wait time.Duration) transition {
	t.to, t.reason, t.wait = Unknown, reason, wait
	if reason != string(broker.Mismatch) {
		t.orderID = t.exchange.answer.OrderID
	}
	return t
}

func uncertainReason(a broker.Answer) string {
	if a.Reason == "" {
		return string(broker.UnconfirmedResponse)
	}
	return string(a.Reason)
}

// mismatched marks a transition by an answer that names another order. That order is not
// this purchase's, so its id and amounts are not stored as if it were.
func (t transition) mismatched(said string) transition {
	t.reason = string(broker.Mismatch)
	t.exchange.answer.Verdict, t.exchange.answer.Reason = broker.Uncertain, broker.Mismatch
	t.note = note{string(broker.Mismatch), "the broker says " + said}
	t.evidence, t.cost, t.filled, t.orderID = "", "", "", ""
	return t
}
