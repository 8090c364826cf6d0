package purchase

import "context"

// Abandon records a submission and stops there, as a process does that dies before its
// call.
func (s *Service) Abandon(ctx context.Context, sub Submission) (Purchase, error) {
	d, err := s.draft(ctx, sub)
	if err != nil {
		return Purchase{}, err
	}
	if err := d.address(); err != nil {
		return Purchase{}, err
	}
	recorded, err := s.record(ctx, d)
	return fromRow(recorded), err
}

// ApplyTwice puts two transitions of one PENDING purchase into one batch and returns which
// of them were applied, and which must run again alone.
func (s *Service) ApplyTwice(ctx context.Context, p Purchase) (applied, again [2]bool) {
	t := interruptionTransition(p.ID, 1)
	for i, done := range s.settleAll(ctx, []transition{t, t}, laneLockTimeout) {
		applied[i], again[i] = done.out.ok, done.err != nil
	}
	return applied, again
}
