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

// conclude stores what the pass came to. An answer is not lost for one failed statement.
func (s *Service) conclude(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	ctx = context.WithoutCancel(ctx)
	for try := 1; ; try++ {
		outcome, err := s.tryConclude(ctx, p, d, by)
		if err == nil || try == settleTries {
			return outcome, err
		}
		<-time.After(settlePause * time.Duration(try))
	}
}

func (s *Service) tryConclude(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	ctx, cancel := context.WithTimeout(ctx, settleTimeout)
	defer cancel()
	outcome, err := s.store(ctx, p, d, by)
	if errors.Is(err, ErrOrderIDTaken) {
		return s.settlePass(ctx, p, mismatch("order id "+by.answer.OrderID+", which another purchase has"), by)
	}
	return outcome, err
}

func (s *Service) store(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	if d.progress != "" {
		by.answer.Reason = broker.Reason(d.progress)
	}
	if d.to == "" {
		return s.deferPass(ctx, p, d, by)
	}
	return s.settlePass(ctx, p, d, by)
}

func (s *Service) settlePass(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	t := passTransition(p, d, by)
	done, err := s.passBatcher.do(t)
	if err != nil {
		return PassOutcome{}, err
	}
	if !done.ok {
		return s.lostRace(ctx, p, t.to, by)
	}
	return PassOutcome{Result: resultOf(Status(done.row.Status))}, nil
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

func (s *Service) deferPass(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	text, truncated := truncate(by.answer.Body, MaxStoredBody)
	_, err := db.New(s.pool).DeferPass(ctx, db.DeferPassParams{
		ID: p.row.ID, BrokerKey: p.row.BrokerKey, Claim: p.row.Claim, Unknown: string(Unknown), Passes: d.passes, Wait: d.wait.Seconds(),
		Reason: pointer(d.reason), ReplayCode: pointer(sanitizeReason(d.replayCode)), Absences: d.absences,
		NamesOrder: namesOrder(by.answer), OrderID: pointer(sanitizeText(by.answer.OrderID)),
		AttemptID: by.attemptID, DurationMs: by.answer.Duration.Milliseconds(),
		Took:   by.answer.Duration.Seconds(),
		Result: string(by.answer.Verdict), ResultReason: sanitizeReason(resultReason(by.answer)),
		StatusCode: int32(by.answer.StatusCode), Answer: text, Truncated: truncated,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return s.lostRace(ctx, p, "", by)
	}
	if err != nil {
		return PassOutcome{}, fmt.Errorf("defer pass: %w", orderIDTaken(err))
	}
	return PassOutcome{Result: resultDeferred, Again: max(d.wait, minAgain)}, nil
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
	now, err := s.remember(ctx, p.row.ID, by.answer)
	if err != nil {
		return PassOutcome{}, err
	}
	outcome := PassOutcome{Result: resultLostRace}
	if Status(now.Status) == Unknown {
		outcome.Again = time.Second
	}
	if said == "" && namesOrder(by.answer) && Status(now.Status) == Rejected {
		said = Completed
	}
	return outcome, s.noteContradiction(ctx, now, said, by)
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
