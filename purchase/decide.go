package purchase

import (
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
}

// decideLookup says what a lookup's answer proves.
func (s *Service) decideLookup(p *pass, by exchange) decision {
	a := by.answer
	if by.mismatch != "" {
		return decision{to: ManualReview, reason: string(broker.Mismatch), mismatch: by.mismatch}
	}
	switch a.Verdict {
	case broker.Accepted:
		return decision{to: Completed, evidence: ByLookup}
	case broker.Rejected:
		return decision{to: Rejected, evidence: ByLookup, reason: a.Code}
	case broker.Absent:
		return s.decideAbsent(p, a)
	default:
		return s.wait(p, a)
	}
}

// found reports whether the answer speaks of an order under this purchase's key.
func found(a broker.Answer) bool {
	return a.Verdict == broker.Accepted || a.Verdict == broker.Rejected || a.Verdict == broker.Processing
}

// decideAbsent weighs a "not found": it is believed only a settle time after the last
// place or replay, and a replay follows it only within the key's life.
func (s *Service) decideAbsent(p *pass, a broker.Answer) decision {
	elapsed := time.Since(p.began)
	if p.sentAge <= s.can.Settle {
		return s.wait(p, a)
	}
	if p.row.ReplayCode != nil {
		return decision{to: Rejected, evidence: ByReplay, reason: *p.row.ReplayCode}
	}
	if p.createdAge+elapsed+s.can.Timeout >= s.can.KeyRetention {
		return decision{to: ManualReview, reason: ReasonKeyExpired}
	}
	if !s.can.Idempotent {
		return s.wait(p, a)
	}
	return decision{replay: true}
}

// decideReplay says what a replay's answer proves. A 2xx is read as the first call's. A
// refusal proves nothing about the order that may exist already: it is kept until a
// lookup confirms it, unless it speaks of us and not of the order.
func (s *Service) decideReplay(p *pass, by exchange) decision {
	a := by.answer
	if by.mismatch != "" {
		return decision{to: ManualReview, reason: string(broker.Mismatch), mismatch: by.mismatch}
	}
	switch {
	case a.Verdict == broker.Accepted:
		return decision{to: Completed, evidence: ByReplay}
	case a.Verdict == broker.Rejected && a.StatusCode < 300:
		return decision{to: Rejected, evidence: ByReplay, reason: a.Code}
	case a.Verdict == broker.Rejected && !a.AboutCaller && !a.Duplicate:
		d := s.wait(p, a)
		d.replayCode = codeOr4xx(a.Code)
		return d
	default:
		return s.wait(p, a)
	}
}

// wait ends the pass undecided: at the limits that means a person, else another pass.
func (s *Service) wait(p *pass, a broker.Answer) decision {
	age := p.unknownAge + time.Since(p.began)
	if age >= s.policy.MaxAge {
		return decision{to: ManualReview, reason: ReasonAgeExceeded}
	}
	d := decision{passes: 1, reason: waitReason(a)}
	n := int(p.row.Attempts) + 1
	d.wait = s.policy.Wait(n)
	if a.Verdict == broker.Processing && s.can.ProcessingInterval > 0 {
		d.passes, d.wait = 0, spread(s.can.ProcessingInterval, s.policy.Jitter)
	} else if n >= s.policy.MaxAttempts {
		return decision{to: ManualReview, reason: ReasonAttemptsExhausted}
	}
	// The pass that finds the age exceeded should not come later than need be.
	d.wait = max(min(d.wait, s.policy.MaxAge-age), s.policy.obeyed(a.RetryAfter))
	return d
}

// waitReason is what the purchase's reason becomes: what was learned about the order.
// That a lookup could not be made says nothing about it and stands in the history.
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
