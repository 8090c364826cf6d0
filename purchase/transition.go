package purchase

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// anyClaim says that a move does not depend on a pass's claim.
const anyClaim = -1

// Who moves a purchase, beside "operator:KEY-ID".
const (
	actorClient = "client"
	actorWorker = "worker"
	actorSweep  = "sweep"
)

// move is one purchase's change of status, with all that goes with it. It applies only
// to a purchase that has the status and version the mover saw.
type transition struct {
	id      uuid.UUID
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
	passes     int32
	noteCode   string
	noteDetail string

	exchange exchange
	// job carried the pass that makes the move, and is done with it; 0: none did.
	job int64
	// recorded is the purchase as its own process recorded it, where that is the mover.
	recorded *row
}

// exchange is the call that gave a move its evidence; call is empty where none did.
type exchange struct {
	call      string
	brokerKey string
	// attemptID is the row of a replay, which is written before it is sent.
	attemptID   int64
	requestHash []byte
	answer      broker.Answer
}

// applyTransitions is the one door: it alone changes a status. Each move is made whole (status,
// money, event, history, job, alert) or not at all; what it finds changed since the
// mover looked, it leaves alone. It returns the purchases that moved.
func (s *Service) applyTransitions(ctx context.Context, changes []transition) ([]row, error) {
	for _, m := range changes {
		if !m.from.CanBecome(m.to) {
			return nil, fmt.Errorf("move purchase %s: %s cannot become %s", m.id, m.from, m.to)
		}
	}
	moved, err := s.commitTransitions(ctx, changes)
	if err != nil {
		return nil, orderIDTaken(err)
	}
	s.publish(changes, moved)
	return moved, nil
}

// applyTransition moves one purchase; ok is false where it was no longer what the mover saw.
func (s *Service) applyTransition(ctx context.Context, m transition) (moved row, ok bool, err error) {
	rows, err := s.applyTransitions(ctx, []transition{m})
	if err != nil || len(rows) == 0 {
		return row{}, false, err
	}
	return rows[0], true, nil
}

// commitMoves runs the door's statement: alone, in one round trip, where nothing else
// must happen with it.
func (s *Service) commitTransitions(ctx context.Context, changes []transition) ([]row, error) {
	if !slices.ContainsFunc(changes, needsFullUpdate) {
		return settleRows(ctx, s.pool, changes)
	}
	params := paramsOf(changes)
	if !slices.ContainsFunc(changes, touchesJobs) {
		return applyRows(ctx, s.pool, params)
	}
	var moved []row
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if moved, err = applyRows(ctx, tx, params); err != nil {
			return err
		}
		work := workOf(changes, params, moved)
		if work.empty() {
			return nil
		}
		if err := s.scheduler.ScheduleTx(ctx, tx, work); err != nil {
			return fmt.Errorf("schedule work: %w", err)
		}
		return nil
	})
	return moved, err
}

func applyRows(ctx context.Context, conn db.DBTX, params db.ApplyTransitionsParams) ([]row, error) {
	rows, err := db.New(conn).ApplyTransitions(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("move purchases: %w", err)
	}
	moved := make([]row, len(rows))
	for i, r := range rows {
		moved[i] = row(r)
	}
	return moved, nil
}

func touchesJobs(m transition) bool { return m.to == Unknown || m.to == ManualReview || m.job != 0 }

// workOf lists the jobs that what moved needs, and those it is done with.
func workOf(changes []transition, params db.ApplyTransitionsParams, moved []row) Work {
	alerts := make(map[uuid.UUID]uuid.UUID, len(changes))
	carried := make(map[uuid.UUID]int64, len(changes))
	for i, m := range changes {
		alerts[m.id], carried[m.id] = params.AlertIds[i], m.job
	}
	var work Work
	for _, r := range moved {
		if job := carried[r.ID]; job != 0 {
			work.Done = append(work.Done, job)
		}
		if Status(r.Status) == Unknown {
			work.Purchases = append(work.Purchases, r.ID)
		}
		if Status(r.Status) == ManualReview {
			work.Alerts = append(work.Alerts, alerts[r.ID])
		}
	}
	return work
}

// tell wakes the relay, counts and logs what moved.
func (s *Service) publish(changes []transition, moved []row) {
	if len(moved) == 0 {
		return
	}
	s.committed()
	from := make(map[uuid.UUID]transition, len(changes))
	for _, m := range changes {
		from[m.id] = m
	}
	for _, r := range moved {
		m := from[r.ID]
		s.observer.StatusChanged(m.to)
		s.log.Info("status changed", slog.Any("purchase_id", r.ID), slog.Any("status_from", m.from), slog.Any("status_to", m.to),
			nonEmpty("reason", m.reason), nonEmpty("evidence", string(m.evidence)),
			slog.String("actor", m.actor), slog.Int("attempt", int(r.Attempts)))
	}
}

// worthTelling leaves out of a log line what is empty.
func nonEmpty(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{} // a handler passes over it
	}
	return slog.String(key, value)
}

// orderIDTaken turns the database's refusal of a second owner of a broker order into
// the domain's word for it.
func orderIDTaken(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.ConstraintName == "transaction_history_broker_order_id_idx" {
		return ErrOrderIDTaken
	}
	return err
}

// paramsOf turns moves into the columns that the door's statement reads.
func paramsOf(changes []transition) db.ApplyTransitionsParams {
	var p db.ApplyTransitionsParams
	for _, m := range changes {
		p.Ids = append(p.Ids, m.id)
		p.FromStatuses = append(p.FromStatuses, string(m.from))
		p.Versions = append(p.Versions, m.version)
		p.Claims = append(p.Claims, m.claim)
		p.Statuses = append(p.Statuses, string(m.to))
		p.Reasons = append(p.Reasons, sanitizeText(m.reason))
		p.Evidences = append(p.Evidences, string(m.evidence))
		p.Actors = append(p.Actors, m.actor)
		p.Costs = append(p.Costs, m.cost)
		p.FilledQuantities = append(p.FilledQuantities, m.filled)
		p.OrderIds = append(p.OrderIds, sanitizeText(m.orderID))
		p.Waits = append(p.Waits, m.wait.Seconds())
		p.AlertIds = append(p.AlertIds, uuid.New())
		p.Passes = append(p.Passes, m.passes)
		p.NoteCodes = append(p.NoteCodes, m.noteCode)
		p.NoteDetails = append(p.NoteDetails, sanitizeText(m.noteDetail))
		m.exchange.addTo(&p)
	}
	return p
}

func (e exchange) addTo(p *db.ApplyTransitionsParams) {
	body, truncated := truncate(e.answer.Body, MaxStoredBody)
	p.Calls = append(p.Calls, e.call)
	p.BrokerKeys = append(p.BrokerKeys, e.brokerKey)
	p.AttemptIds = append(p.AttemptIds, e.attemptID)
	p.RequestHashes = append(p.RequestHashes, append([]byte{}, e.requestHash...))
	p.Results = append(p.Results, string(e.answer.Verdict))
	p.ResultReasons = append(p.ResultReasons, sanitizeText(resultReason(e.answer)))
	p.StatusCodes = append(p.StatusCodes, int32(e.answer.StatusCode))
	p.Bodies = append(p.Bodies, body)
	p.Truncated = append(p.Truncated, truncated)
	p.Durations = append(p.Durations, e.answer.Duration.Milliseconds())
	p.Telling = append(p.Telling, e.answer.StatusCode > 0 && (e.call == callPlace || found(e.answer)))
}

// resultReason is what an attempt's row says beside its result.
func resultReason(a broker.Answer) string {
	if a.Verdict == broker.Rejected {
		return a.Code
	}
	return string(a.Reason)
}

// storable makes a foreign string fit for a text column.
func sanitizeText(s string) string {
	text, _ := truncate([]byte(s), MaxStoredBody)
	return text
}
