package outbox

import (
	"time"

	"github.com/google/uuid"

	"holdfast/outbox/db"
)

// Event is one status change of one purchase, as it stands in the log.
type Event struct {
	// ID rises by one from event to event and is the same for everyone.
	ID            int64
	TransactionID uuid.UUID
	AccountID     string
	// Version counts the purchase's changes; its events carry 2, 3, and so on.
	Version        int
	Status         string
	PreviousStatus string
	Reason         *string
	// OccurredAt is when the change was made, LoggedAt when it got its number, both by
	// the database's clock.
	OccurredAt time.Time
	LoggedAt   time.Time
}

// Filter chooses events; the zero Filter chooses all. Where both are set, both must fit.
type Filter struct {
	AccountID  string
	PurchaseID uuid.UUID
}

// Match reports whether f chooses e.
func (f Filter) Match(e *Event) bool {
	return (f.AccountID == "" || f.AccountID == e.AccountID) &&
		(f.PurchaseID == uuid.Nil || f.PurchaseID == e.TransactionID)
}

// Message is an event with the one encoded copy that all its receivers share. Nobody
// may change it.
type Message struct {
	Event
	Wire []byte
}

func events(rows []db.PurchaseEvent) []Event {
	list := make([]Event, len(rows))
	for i, r := range rows {
		list[i] = Event{
			ID: r.ID, TransactionID: r.TransactionID, AccountID: r.AccountID, Version: int(r.Version),
			Status: r.Status, PreviousStatus: r.PreviousStatus, Reason: r.Reason,
			OccurredAt: r.OccurredAt, LoggedAt: r.LoggedAt,
		}
	}
	return list
}
