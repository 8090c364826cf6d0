package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// conclude stores what the pass came to.
func (s *Service) conclude(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	var outcome PassOutcome
	var ok bool
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		outcome, ok, err = s.store(ctx, p, d, by)
		if errors.Is(err, ErrOrderIDTaken) {
			d = mismatch("order id " + by.answer.OrderID + ", which another purchase has")
			outcome, ok, err = s.store(ctx, p, d, by)
		}
		return err
	})
	if err == nil && !ok {
		return s.lostRace(ctx, p, d.to, by)
	}
	return outcome, err
}

// persist runs a statement, again if it fails, so that no answer is lost for one failure.
func (s *Service) persist(ctx context.Context, run func(context.Context) error) error {
	once := func() error {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
		defer cancel()
		return run(ctx)
	}
	for try := 1; ; try++ {
		if err := once(); err == nil || try == settleTries {
			return err
		}
		<-time.After(settlePause * time.Duration(try))
	}
}

// store writes the decision and the exchange; ok is false if the claim was lost.
func (s *Service) store(ctx context.Context, p *pass, d decision, by exchange) (outcome PassOutcome, ok bool, err error) {
	if d.progress != "" {
		by.answer.Reason = broker.Reason(d.progress)
	}
	if d.to == "" {
		return s.deferPass(ctx, p, d, by)
	}
	done, err := s.passBatcher.do(passTransition(p, d, by))
	return PassOutcome{Result: resultOf(Status(done.row.Status))}, done.ok, err
}

func resultOf(status Status) string {
	switch status {
	case Completed:
		return "completed"
	case Rejected:
		return "rejected"
	default:
		return "manual_review"
	}
}

// deferPass ends a pass that settled nothing. Its job waits from the same commit on: whatever
// makes the purchase due afterwards finds a job that can be run now.
func (s *Service) deferPass(ctx context.Context, p *pass, d decision, by exchange) (outcome PassOutcome, ok bool, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		deferred, err := db.New(tx).DeferPass(ctx, deferParams(p, d, by))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil // the exchange is stored all the same
		}
		if err != nil {
			return fmt.Errorf("defer pass: %w", orderIDTaken(err))
		}
		wait := d.wait
		if deferred.NextRetry != nil && !deferred.NextRetry.After(deferred.UpdatedAt) { // made due during the pass
			wait = 0
		}
		outcome, ok = PassOutcome{Result: resultDeferred, Again: max(wait, minAgain)}, true
		if p.job == 0 {
			return nil
		}
		return s.scheduler.ScheduleTx(ctx, tx, Work{Deferred: []DeferredJob{{ID: p.job, Wait: outcome.Again}}})
	})
	return outcome, ok, err
}

func deferParams(p *pass, d decision, by exchange) db.DeferPassParams {
	text, truncated := truncate(by.answer.Body, MaxStoredBody)
	return db.DeferPassParams{
		ID: p.row.ID, BrokerKey: p.row.BrokerKey, Claim: p.row.Claim, Unknown: string(Unknown), Passes: d.passes, Wait: d.wait.Seconds(),
		Reason: pointer(d.reason), ReplayCode: pointer(sanitizeReason(d.replayCode)), Absences: d.absences,
		NamesOrder: namesOrder(by.answer), OrderID: pointer(sanitizeText(by.answer.OrderID)),
		AttemptID: by.attemptID, DurationMs: by.answer.Duration.Milliseconds(),
		Took:   by.answer.Duration.Seconds(),
		Result: string(by.answer.Verdict), ResultReason: sanitizeReason(resultReason(by.answer)),
		StatusCode: int32(by.answer.StatusCode), Answer: text, Truncated: truncated,
	}
}

func pointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// lostRace looks at what the purchase has become meanwhile. The exchange was stored with
// the statement that lost; what it proves is not forgotten: that the broker named an order
// goes into the purchase, and what contradicts a final status is noted.
func (s *Service) lostRace(ctx context.Context, p *pass, said Status, by exchange) (PassOutcome, error) {
	var now row
	err := s.persist(ctx, func(ctx context.Context) (err error) {
		now, err = s.remember(ctx, p.row.ID, by.answer)
		return err
	})
	if err != nil {
		return PassOutcome{}, fmt.Errorf("read purchase: %w", err)
	}
	outcome := PassOutcome{Result: resultLostRace}
	if Status(now.Status) == Unknown {
		outcome.Again = time.Second
	}
	return outcome, s.noteContradiction(ctx, now, impliedStatus(said, by.answer), by)
}

// impliedStatus is the final status that a late answer argues for: an order that the broker
// is processing contradicts a rejection.
func impliedStatus(said Status, a broker.Answer) Status {
	if !said.Final() && namesOrder(a) {
		return Completed
	}
	return said
}

// remember keeps that a late answer named an order and returns the purchase as it is now.
func (s *Service) remember(ctx context.Context, id uuid.UUID, a broker.Answer) (row, error) {
	queries := db.New(s.pool)
	if !namesOrder(a) {
		return queries.PurchaseByID(ctx, id)
	}
	now, err := queries.RememberOrder(ctx, pointer(sanitizeText(a.OrderID)), string(Unknown), id)
	if errors.Is(err, pgx.ErrNoRows) {
		return queries.PurchaseByID(ctx, id)
	}
	if errors.Is(orderIDTaken(err), ErrOrderIDTaken) {
		return queries.RememberOrder(ctx, nil, string(Unknown), id)
	}
	return now, err
}
