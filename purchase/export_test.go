package purchase

import "context"

// Abandon records a submission and stops there, as a process does that dies before its
// call.
func (s *Service) Abandon(ctx context.Context, sub Submission) (Purchase, error) {
	d, err := s.draft(ctx, sub)
	if err != nil {
		return Purchase{}, err
	}
	recorded, err := s.record(ctx, d)
	return fromRow(recorded), err
}

// MoveTwice puts two moves of one PENDING purchase into one batch and tells which of
// them were made, and which are to be tried again alone.
func (s *Service) MoveTwice(ctx context.Context, p Purchase) (moved, again [2]bool) {
	m := transition{id: p.ID, from: Pending, version: 1, claim: anyClaim, to: Unknown, reason: ReasonInterrupted, actor: actorSweep}
	for i, done := range s.settleAll(ctx, []transition{m, m}) {
		moved[i], again[i] = done.ok, done.err != nil && done.shared
	}
	return moved, again
}
