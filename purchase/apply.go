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

// applyTransitions alone changes a status. Each transition is applied whole (status, money,
// event, history, job, alert) or not at all; a purchase that has changed since the
// transition was made is left alone. It returns the purchases that changed. lockTimeout
// bounds the wait for a locked row.
func (s *Service) applyTransitions(ctx context.Context, changes []transition, lockTimeout time.Duration) ([]row, error) {
	for _, t := range changes {
		if !t.from.CanBecome(t.to) {
			return nil, fmt.Errorf("change purchase %s: %s cannot become %s", t.id, t.from, t.to)
		}
	}
	changed, err := s.commitTransitions(ctx, changes, lockTimeout)
	if err != nil {
		return nil, orderIDTaken(err)
	}
	s.publish(changes, changed)
	return changed, nil
}

// applyTransition changes one purchase; ok is false if it had changed since t was made.
func (s *Service) applyTransition(ctx context.Context, t transition) (changed row, ok bool, err error) {
	rows, err := s.applyTransitions(ctx, []transition{t}, laneLockTimeout)
	if err != nil || len(rows) == 0 {
		return row{}, false, err
	}
	return rows[0], true, nil
}

// commitTransitions runs the statement: in one round trip if no job must change with it.
func (s *Service) commitTransitions(ctx context.Context, changes []transition, lockTimeout time.Duration) ([]row, error) {
	params := paramsOf(changes)
	params.Brokers, params.CallTimeouts = s.brokers.limits.brokers, s.brokers.limits.callTimeouts
	params.LockTimeout = milliseconds(lockTimeout)
	if !slices.ContainsFunc(changes, needsFullStatement) {
		return settleRows(ctx, s.pool, params)
	}
	if !slices.ContainsFunc(changes, touchesJobs) {
		return applyRows(ctx, s.pool, params)
	}
	var changed []row
	err := pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) (err error) {
		if changed, err = applyRows(ctx, tx, params); err != nil {
			return err
		}
		work := workOf(changes, params, changed)
		if work.empty() {
			return nil
		}
		if err := s.scheduler.ScheduleTx(ctx, tx, work); err != nil {
			return fmt.Errorf("schedule work: %w", err)
		}
		return nil
	})
	return changed, err
}

func needsFullStatement(t transition) bool { return !t.short }

// settleRows runs the short statement: nearly every purchase's only transition, by its own
// first call's answer, at no more than was held.
func settleRows(ctx context.Context, conn db.DBTX, all db.ApplyTransitionsParams) ([]row, error) {
	rows, err := db.New(conn).SettleReplies(ctx, db.SettleRepliesParams{
		Ids: all.Ids, Statuses: all.Statuses, Reasons: all.Reasons, Costs: all.Costs,
		FilledQuantities: all.FilledQuantities, OrderIds: all.OrderIds, Results: all.Results,
		ResultReasons: all.ResultReasons, StatusCodes: all.StatusCodes, Bodies: all.Bodies,
		Truncated: all.Truncated, Durations: all.Durations, LockTimeout: all.LockTimeout, Pending: string(Pending),
	})
	if err != nil {
		return nil, fmt.Errorf("settle purchases: %w", err)
	}
	settled := make([]row, len(rows))
	for i, r := range rows {
		settled[i] = row(r)
	}
	return settled, nil
}

func applyRows(ctx context.Context, conn db.DBTX, params db.ApplyTransitionsParams) ([]row, error) {
	rows, err := db.New(conn).ApplyTransitions(ctx, params)
	if err != nil {
		return nil, fmt.Errorf("apply transitions: %w", err)
	}
	changed := make([]row, len(rows))
	for i, r := range rows {
		changed[i] = row(r)
	}
	return changed, nil
}

func touchesJobs(t transition) bool { return t.to == Unknown || t.to == ManualReview || t.job != 0 }

// workOf lists the jobs that the changed purchases need, and those they are done with.
func workOf(changes []transition, params db.ApplyTransitionsParams, changed []row) Work {
	alerts := make(map[uuid.UUID]uuid.UUID, len(changes))
	carried := make(map[uuid.UUID]int64, len(changes))
	for i, t := range changes {
		alerts[t.id], carried[t.id] = params.AlertIds[i], t.job
	}
	var work Work
	for _, r := range changed {
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

// publish wakes the relay, counts and logs what changed.
func (s *Service) publish(changes []transition, changed []row) {
	if len(changed) == 0 {
		return
	}
	s.committed()
	from := make(map[uuid.UUID]transition, len(changes))
	for _, t := range changes {
		from[t.id] = t
	}
	for _, r := range changed {
		t := from[r.ID]
		s.observer.StatusChanged(t.to)
		s.log.Info("status changed", slog.Any("purchase_id", r.ID), slog.Any("status_from", t.from), slog.Any("status_to", t.to),
			nonEmpty("reason", t.reason), nonEmpty("evidence", string(t.evidence)),
			slog.String("actor", t.actor), slog.Int("attempt", int(r.Attempts)))
	}
}

// nonEmpty leaves an empty value out of a log line.
func nonEmpty(key, value string) slog.Attr {
	if value == "" {
		return slog.Attr{} // handlers ignore it
	}
	return slog.String(key, value)
}

// orderIDTaken turns the database's refusal of a second owner of a broker order into
// ErrOrderIDTaken.
func orderIDTaken(err error) error {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) && pgErr.ConstraintName == "transaction_history_broker_order_id_idx" {
		return ErrOrderIDTaken
	}
	return err
}

// paramsOf turns transitions into the columns that the statement reads.
func paramsOf(changes []transition) db.ApplyTransitionsParams {
	var p db.ApplyTransitionsParams
	for _, t := range changes {
		p.Ids = append(p.Ids, t.id)
		p.FromStatuses = append(p.FromStatuses, string(t.from))
		p.Versions = append(p.Versions, t.version)
		p.Claims = append(p.Claims, t.claim)
		p.Statuses = append(p.Statuses, string(t.to))
		p.Reasons = append(p.Reasons, sanitizeReason(t.reason))
		p.Evidences = append(p.Evidences, string(t.evidence))
		p.Actors = append(p.Actors, t.actor)
		p.Costs = append(p.Costs, t.cost)
		p.FilledQuantities = append(p.FilledQuantities, t.filled)
		p.OrderIds = append(p.OrderIds, sanitizeText(t.orderID))
		p.Waits = append(p.Waits, t.wait.Seconds())
		p.AlertIds = append(p.AlertIds, uuid.New())
		p.Passes = append(p.Passes, t.passes)
		p.NoteCodes = append(p.NoteCodes, t.note.code)
		p.NoteDetails = append(p.NoteDetails, sanitizeText(t.note.detail))
		t.exchange.addTo(&p)
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
	p.ResultReasons = append(p.ResultReasons, sanitizeReason(resultReason(e.answer)))
	p.StatusCodes = append(p.StatusCodes, int32(e.answer.StatusCode))
	p.Bodies = append(p.Bodies, body)
	p.Truncated = append(p.Truncated, truncated)
	p.Durations = append(p.Durations, e.answer.Duration.Milliseconds())
	p.NamesOrder = append(p.NamesOrder, namesOrder(e.answer))
	p.NamedOrderIds = append(p.NamedOrderIds, sanitizeText(e.answer.OrderID))
	p.Telling = append(p.Telling, e.answer.StatusCode > 0 && (e.call == callPlace || mentionsOrder(e.answer)))
}

// mentionsOrder reports whether an answer is about an order, this purchase's or another.
func mentionsOrder(a broker.Answer) bool {
	return found(a) || a.OrderID != "" || a.Reason == broker.Mismatch
}

// resultReason is the reason that is stored with an attempt's result.
func resultReason(a broker.Answer) string {
	if a.Verdict == broker.Rejected {
		return a.Code
	}
	return string(a.Reason)
}

// sanitizeText makes a foreign string fit for a text column.
func sanitizeText(s string) string {
	text, _ := truncate([]byte(s), MaxStoredBody)
	return text
}

// maxReason is how many characters of a reason are stored: a broker's code may be longer.
const maxReason = 256

// sanitizeReason makes a reason, which may be a broker's code, fit for its column and for
// everyone who reads events.
func sanitizeReason(s string) string {
	text := []rune(sanitizeText(s))
	return string(text[:min(len(text), maxReason)])
}
