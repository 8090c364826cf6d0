package purchase

import "time"

// Observer is told what to count.
type Observer interface {
	// StatusChanged: a purchase was recorded or moved into a status.
	StatusChanged(to Status)
	// BrokerCall: one exchange took so long and was taken to prove result.
	BrokerCall(call, result string, d time.Duration)
	// PassEnded: result is completed, rejected, deferred, manual_review or lost_race.
	PassEnded(result string)
	// OrphanRepaired: kind is pending or job.
	OrphanRepaired(kind string)
	// Contradiction: an answer contradicts a final status.
	Contradiction()
}
