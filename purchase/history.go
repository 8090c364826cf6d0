package purchase

import (
	"context"
	"fmt"
	"slices"

	"github.com/google/uuid"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// History returns everything that happened to a purchase, in order.
func (s *Service) History(ctx context.Context, id uuid.UUID) ([]Entry, error) {
	r, err := s.read(ctx, id)
	if err != nil {
		return nil, err
	}
	queries := db.New(s.pool)
	diagram, err := queries.Transitions(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read transitions: %w", err)
	}
	attempts, err := queries.Attempts(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read attempts: %w", err)
	}
	notes, err := queries.Notes(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("read notes: %w", err)
	}
	return assemble(r, diagram, attempts, notes), nil
}

// assemble puts together what the purchase's own row tells (its birth, its place call
// and, where that ended it, its end) and what was written beside it.
func assemble(r row, diagram []db.PurchaseTransition, attempts []db.AttemptsRow, notes []db.PurchaseNote) []Entry {
	entries := []Entry{{At: r.CreatedAt, Kind: EntryStatus, Status: Pending, Version: 1, Actor: actorClient}}
	late := slices.ContainsFunc(attempts, func(a db.AttemptsRow) bool { return a.Call == callPlace })
	if !late && Status(r.Status) != Pending {
		entries = append(entries, placeEntry(r))
	}
	for _, a := range attempts {
		entries = append(entries, attemptEntry(a))
	}
	if plain(r) {
		entries = append(entries, Entry{
			At: *r.SettledAt, Kind: EntryStatus, Status: Status(r.Status), Version: int(r.Version),
			Reason: r.Reason, Actor: actorClient,
		})
	}
	for _, t := range diagram {
		entries = append(entries, Entry{
			At: t.At, Kind: EntryStatus, Status: Status(t.Status), Version: int(t.Version), Reason: t.Reason, Actor: t.Actor,
		})
	}
	for _, n := range notes {
		entries = append(entries, Entry{At: n.At, Kind: EntryNote, Code: n.Code, Detail: n.Detail, Actor: n.Actor})
	}
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.At.Compare(b.At) })
	return entries
}

// plain reports whether the first call ended the purchase: then no transition is written.
func plain(r row) bool {
	return r.Version == 2 && deref(r.Evidence) == string(ByReply)
}

// placeEntry is the first call as the row tells it; where the process died, its answer
// was never seen.
func placeEntry(r row) Entry {
	entry := Entry{At: r.CreatedAt, Kind: EntryAttempt, Call: callPlace}
	if r.PlaceResult == nil {
		entry.Result, entry.Reason = string(broker.Uncertain), pointer(ReasonInterrupted)
		return entry
	}
	entry.Result, entry.Reason, entry.DurationMS = *r.PlaceResult, r.PlaceReason, r.PlaceDurationMs
	entry.StatusCode = intPointer(r.PlaceStatusCode)
	return entry
}

func attemptEntry(a db.AttemptsRow) Entry {
	entry := Entry{
		At: a.StartedAt, Kind: EntryAttempt, Call: a.Call, Reason: a.Reason,
		StatusCode: intPointer(a.StatusCode), DurationMS: a.DurationMs,
	}
	if a.Result == nil {
		entry.Result, entry.Reason = string(broker.Uncertain), pointer(ReasonInterrupted)
		return entry
	}
	entry.Result = *a.Result
	return entry
}

func intPointer(n *int32) *int {
	if n == nil {
		return nil
	}
	wide := int(*n)
	return &wide
}
