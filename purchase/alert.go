package purchase

import (
	"context"
	"errors"
	"fmt"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// The types of alert beside purchase.manual_review; each is raised at most once an hour.
const (
	AlertCredentialsRefused = "broker.credentials_refused"
	AlertBrokerUnavailable  = "broker.unavailable"
	AlertBrokerRecovered    = "broker.recovered"
	AlertBrokerUnserved     = "broker.unserved"
	AlertContradiction      = "purchase.contradiction"
	AlertOverdue            = "purchases.overdue"
)

// noteContradicted is the code of a note on an answer that contradicts a final status.
const noteContradicted = "contradiction"

// noteContradiction notes, counts and alerts, once, that an answer argues for another final
// status than the purchase has, or names another order. It changes nothing else. If the note
// cannot be stored the alert is raised all the same, and an error returned.
func (s *Service) noteContradiction(ctx context.Context, now row, said Status, by exchange) error {
	if !Status(now.Status).Final() || !said.Final() {
		return nil
	}
	detail := fmt.Sprintf("a %s says %s; the purchase is %s", by.call, said, now.Status)
	if said == Status(now.Status) {
		other := by.answer.OrderID
		if said != Completed || other == "" || now.BrokerOrderID == nil || *now.BrokerOrderID == other {
			return nil
		}
		detail = fmt.Sprintf("a %s says order %s; the purchase has order %s: bought twice?", by.call, other, *now.BrokerOrderID)
	}
	var noted int64
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		noted, err = db.New(s.pool).InsertNoteOnce(ctx, db.InsertNoteOnceParams{
			ID: now.ID, Code: noteContradicted, Detail: detail, Actor: actorWorker,
		})
		return err
	})
	if err == nil && noted == 0 {
		return nil
	}
	if err == nil {
		s.observer.Contradiction()
	}
	s.log.Error("answer contradicts a final status", "purchase_id", now.ID, "detail", detail)
	s.alerts.Report(ctx, AlertContradiction, map[string]any{
		"purchase_id": now.ID, "account_id": now.AccountID, "status": now.Status, "said": said, "call": by.call,
	})
	if err != nil { // the caller tries again, and counts it then
		return fmt.Errorf("note contradiction: %w", err)
	}
	return nil
}

// noteLateAnswers notes what stored answers that came after a purchase was settled
// contradict: the process that received one may have lost the database before it could.
func (s *Service) noteLateAnswers(ctx context.Context, id uuid.UUID) error {
	now, err := s.read(ctx, id)
	if err != nil {
		return err
	}
	late, err := db.New(s.pool).LateAnswers(ctx, id)
	if err != nil {
		return fmt.Errorf("read late answers: %w", err)
	}
	var failed error
	for _, l := range late {
		said := Completed
		if broker.Verdict(l.Result) == broker.Rejected {
			said = Rejected
		}
		by := exchange{call: l.Call, answer: broker.Answer{OrderID: deref(l.OrderID)}}
		failed = errors.Join(failed, s.noteContradiction(ctx, now, said, by))
	}
	return failed
}
