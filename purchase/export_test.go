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
