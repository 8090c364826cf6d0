package purchase

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"time"

	"holdfast/broker"
)

// decision is what a pass's evidence leads to: a status, a replay, or another wait
// (neither).
type decision struct {
	to       Status
	evidence Evidence
	reason   string
	replay   bool
	// mismatch is in what the answer speaks of another order.
	mismatch string

	// Of a wait.
	wait       time.Duration
	passes     int32
	replayCode string
	// absences is the number of consecutive counted "not found" answers from now on.
	absences int32
	// progress is how far the proof of absence has come, for the history.
	progress string
}

// decideLookup returns what a lookup's answer proves.
func (p *pass) decideLookup(by exchange) decision {
	a := by.answer
	if by.mismatch != "" {
		return mismatch(by.mismatch)
	}
	switch a.Verdict {
	case broker.Accepted:
		return decision{to: Completed, evidence: ByLookup}
	case broker.Rejected:
		return decision{to: Rejected, evidence: ByLookup, reason: a.Code}
	case broker.Absent:
		return p.decideAbsent(a)
	default:
		return p.wait(a)
	}
}

// decideUnasked returns what a pass does whose broker has no lookup: it replays, or waits
// for a limit. After the key retention there is nothing that it could still learn.
func (p *pass) decideUnasked() decision {
	switch {
	case p.via.can.Idempotent && p.keyExpired():
		return decision{to: ManualReview, reason: ReasonKeyExpired}
	case p.sentAge >= p.via.can.Settle && p.mayReplay():
		return decision{replay: true}
	default:
		return p.wait(broker.Answer{})
	}
}

func mismatch(said string) decision {
	return decision{to: ManualReview, reason: string(broker.Mismatch), mismatch: said}
}

// found reports whether the answer says what became of an order under this purchase's key.
func found(a broker.Answer) bool {
	return a.Verdict == broker.Accepted || a.Verdict == broker.Rejected || a.Verdict == broker.Processing
}

// namesOrder reports whether the answer names an order under this purchase's key, whatever
// it says about it.
func namesOrder(a broker.Answer) bool {
	return a.OrderID != "" || a.Verdict == broker.Accepted || a.Verdict == broker.Processing
}

// decideAbsent weighs a "not found". It counts only a settle time after the end of the last
// send, and never once the broker has named an order. Until the broker may have forgotten
// the key, the answer to it is a replay.
func (p *pass) decideAbsent(a broker.Answer) decision {
	switch {
	case p.sentAge < p.via.can.Settle:
		return p.wait(a)
	case p.row.OrderNamed:
		return mismatch("not found, but it named order " + orderName(p.row) + " before")
	case p.keyExpired():
		return p.provenAbsent(a, decision{to: ManualReview, reason: ReasonKeyExpired})
	case p.row.ReplayCode != nil:
		return p.provenAbsent(a, decision{to: Rejected, evidence: ByReplay, reason: *p.row.ReplayCode})
	case p.validFor <= time.Since(p.began):
		return p.provenAbsent(a, decision{to: Rejected, evidence: ByLookup, reason: ReasonExpired})
	case p.mayReplay():
		return decision{replay: true}
	default:
		return p.provenAbsent(a, decision{})
	}
}

func orderName(r row) string {
	if r.BrokerOrderID == nil {
		return "(without an id)"
	}
	return *r.BrokerOrderID
}

// keyExpired reports whether the broker may have forgotten the key by the time an answer
// to a replay could come.
func (p *pass) keyExpired() bool {
	return p.createdAge+time.Since(p.began)+p.via.can.Timeout >= p.via.can.KeyRetention
}

// mayReplay reports whether a replay would be permitted now. The intent's statement asks
// again, when it is written.
func (p *pass) mayReplay() bool {
	elapsed := time.Since(p.began)
	return p.via.can.Idempotent && !p.keyExpired() && p.unknownAge+elapsed < p.via.Policy.MaxAge && p.validFor > elapsed && p.intact()
}

// intact reports whether the stored request is the one that was recorded.
func (p *pass) intact() bool {
	hash := sha256.Sum256(p.row.BrokerRequest)
	return bytes.Equal(hash[:], p.row.RequestHash)
}

// provenAbsent returns proven once enough consecutive lookups, a settle time apart, have
// found nothing; until then the pass waits for the next of them. Without a proven status
// the answers are only counted.
func (p *pass) provenAbsent(a broker.Answer, proven decision) decision {
	needed := max(int32(p.via.can.AbsenceLookups), 1)
	counted := p.row.Absences
	if counted == 0 || p.absentAge >= p.via.can.Settle {
		counted++
	}
	progress := fmt.Sprintf("%d of %d", min(counted, needed), needed)
	if counted >= needed && proven.to != "" {
		proven.progress = progress
		return proven
	}
	d := p.wait(a)
	d.absences, d.progress = counted, progress
	d.wait = max(d.wait, p.via.can.Settle)
	return d
}

// decideReplay returns what a replay's answer proves. A 2xx is read as the first call's. A
// refusal proves nothing about the order that may exist already: it is kept until lookups
// confirm it, unless it concerns us and not the order. A broker without lookup cannot
// confirm it.
func (p *pass) decideReplay(by exchange) decision {
	a := by.answer
	if by.mismatch != "" {
		return mismatch(by.mismatch)
	}
	switch {
	case a.Verdict == broker.Accepted:
		return decision{to: Completed, evidence: ByReplay}
	case a.Verdict == broker.Rejected && a.StatusCode < 300:
		return decision{to: Rejected, evidence: ByReplay, reason: a.Code}
	case a.Verdict == broker.Rejected && a.BrokerRefusal && a.Code != "" && !a.AboutCaller && !a.Duplicate && !p.via.can.NoLookup:
		d := p.wait(a)
		d.replayCode = a.Code
		d.wait = max(d.wait, p.via.can.Settle)
		return d
	default:
		return p.wait(a)
	}
}

// wait ends the pass undecided: at a limit that means an operator, else another pass.
func (p *pass) wait(a broker.Answer) decision {
	age := p.unknownAge + time.Since(p.began)
	if age >= p.via.Policy.MaxAge {
		return decision{to: ManualReview, reason: ReasonAgeExceeded}
	}
	d := decision{passes: 1, reason: waitReason(a)}
	if a.Verdict == broker.Absent { // found too early to count
		d.absences = p.row.Absences
	}
	n := int(p.row.Attempts) + 1
	d.wait = p.via.Policy.Wait(n)
	if a.Verdict == broker.Processing && p.via.can.ProcessingInterval > 0 {
		d.passes, d.wait = 0, spread(p.via.can.ProcessingInterval, p.via.Policy.Jitter)
	} else if n >= p.via.Policy.MaxAttempts {
		return decision{to: ManualReview, reason: ReasonAttemptsExhausted}
	}
	// The pass that finds the age exceeded should not come later than necessary.
	d.wait = max(min(d.wait, p.via.Policy.MaxAge-age), p.via.Policy.obeyed(a.RetryAfter))
	return d
}

// waitReason is what the purchase's reason becomes: what was learned about the order.
// That a lookup could not be made says nothing about it and is in the history.
func waitReason(a broker.Answer) string {
	switch {
	case a.Verdict == broker.Processing:
		return string(broker.InProcessing)
	case a.Duplicate:
		return string(broker.DuplicateKey)
	case a.Reason == broker.UnconfirmedResponse, a.Reason == broker.Mismatch:
		return string(a.Reason)
	default:
		return ""
	}
}
