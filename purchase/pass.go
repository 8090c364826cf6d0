package purchase

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// What a pass came to, beside the statuses it may have moved a purchase into.
const (
	resultDeferred = "deferred"
	resultLostRace = "lost_race"
	// resultPutOff: a pause, the breaker or the bound held the pass back; no attempt.
	resultPostponed = "put_off"
	// resultNothing: the purchase needs no pass now.
	resultNoop = "nothing"
)

// foreignBrokerWait is how soon to look again at a purchase that another broker took.
const foreignBrokerWait = time.Minute

// minAgain keeps a job from running again and again without a pause.
const minAgain = 10 * time.Millisecond

// busyAgain is how soon to try again for a purchase that is due but that another
// transaction holds.
const busyAgain = 200 * time.Millisecond

// PassOutcome tells the carrier of a pass what to do with its job.
type PassOutcome struct {
	// Result is completed, rejected, deferred, manual_review, lost_race, put_off or nothing.
	Result string
	// Again is when to run the job again; zero: never.
	Again time.Duration
}

// pass is one reconciliation in progress: the claimed purchase and what time it is.
type pass struct {
	row   row
	began time.Time
	// How old things were, by the database's clock, when the pass began.
	unknownAge, sentAge, createdAge time.Duration
	// job carries it; 0: none does.
	job int64
}

// Pass runs one reconciliation of one purchase: claim, look up, maybe replay, settle or
// defer. job is what carries it (0: nothing does); where the pass moves the purchase, the
// scheduler is told in the same transaction that the job is done. An error means that
// nothing was decided and the same job may simply run again.
func (s *Service) Pass(ctx context.Context, id uuid.UUID, job int64) (PassOutcome, error) {
	if s.switches.PassesPaused() {
		return PassOutcome{Result: resultPostponed, Again: spread(retryAfterTrouble, 0.5)}, nil
	}
	if err := s.gate.WaitTurn(ctx); err != nil {
		return s.throttled(ctx, err)
	}
	call, postpone, err := s.enter()
	if call == nil {
		return postpone, err
	}
	defer call.Cancel()
	p, outcome, err := s.claim(ctx, id)
	if p == nil {
		return outcome, err
	}
	p.job = job
	outcome, err = s.run(ctx, p, call)
	if err == nil && outcome.Result != resultPostponed {
		s.observer.PassEnded(outcome.Result)
	}
	return outcome, err
}

// noTurn puts a pass off that would not get its turn in time, unless it was stopped.
func (s *Service) throttled(ctx context.Context, cause error) (PassOutcome, error) {
	if ctx.Err() != nil {
		return PassOutcome{}, cause
	}
	return PassOutcome{Result: resultPostponed, Again: spread(s.policy.RescueAfter/2, 0.5)}, nil
}

// enter asks the gate for one call; where it is refused, the pass is put off.
func (s *Service) enter() (*broker.Call, PassOutcome, error) {
	call, err := s.gate.Enter()
	var closed *broker.ClosedError
	if errors.As(err, &closed) {
		return nil, PassOutcome{Result: resultPostponed, Again: spread(max(closed.RetryAfter, time.Second), 0.2)}, nil
	}
	return call, PassOutcome{}, err
}

// claim takes the purchase for one pass; it returns nil where there is none to make.
func (s *Service) claim(ctx context.Context, id uuid.UUID) (*pass, PassOutcome, error) {
	began := time.Now()
	claimed, err := s.claims.do(id)
	if err != nil {
		return nil, PassOutcome{}, fmt.Errorf("claim pass: %w", err)
	}
	if claimed == nil {
		outcome, err := s.whenDue(ctx, id)
		return nil, outcome, err
	}
	return &pass{
		row: claimed.TransactionHistory, began: began, unknownAge: seconds(claimed.UnknownAge),
		sentAge: seconds(claimed.SentAge), createdAge: seconds(claimed.CreatedAge),
	}, PassOutcome{}, nil
}

// claimAll claims purchases in one statement, each for the first who asks.
func (s *Service) claimAll(ctx context.Context, ids []uuid.UUID) []result[*db.ClaimPassesRow] {
	rows, err := db.New(s.pool).ClaimPasses(ctx, db.ClaimPassesParams{
		Ids: ids, Broker: s.can.Name, Lease: s.policy.RescueAfter.Seconds(), Unknown: string(Unknown),
	})
	claimed := make(map[uuid.UUID]*db.ClaimPassesRow, len(rows))
	for i := range rows {
		claimed[rows[i].TransactionHistory.ID] = &rows[i]
	}
	done := make([]result[*db.ClaimPassesRow], len(ids))
	for i, id := range ids {
		done[i] = result[*db.ClaimPassesRow]{out: claimed[id], err: err}
		delete(claimed, id)
	}
	return done
}

// notNow says when to ask again for a purchase that could not be claimed.
func (s *Service) whenDue(ctx context.Context, id uuid.UUID) (PassOutcome, error) {
	due, err := db.New(s.pool).PassDue(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) || (err == nil && Status(due.Status) != Unknown) {
		return PassOutcome{Result: resultNoop}, nil
	}
	if err != nil {
		return PassOutcome{}, fmt.Errorf("read when a pass is due: %w", err)
	}
	if due.Broker != s.can.Name {
		s.log.Error("purchase was placed with another broker than this worker serves",
			"purchase_id", id, "broker", due.Broker, "serves", s.can.Name)
		return PassOutcome{Result: resultNoop, Again: foreignBrokerWait}, nil
	}
	if due.DueIn <= 0 {
		return PassOutcome{Result: resultNoop, Again: busyAgain}, nil
	}
	return PassOutcome{Result: resultNoop, Again: max(seconds(due.DueIn), minAgain)}, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// run makes the claimed pass, all of it within the lease.
func (s *Service) run(ctx context.Context, p *pass, call *broker.Call) (PassOutcome, error) {
	ctx, cancel := context.WithDeadline(ctx, p.began.Add(s.policy.RescueAfter))
	defer cancel()
	answer := s.exchange(ctx, callLookup, p.row.BrokerKey, call, func(ctx context.Context) broker.Answer {
		return s.broker.Lookup(ctx, broker.Query{Key: p.row.BrokerKey})
	})
	if err := ctx.Err(); err != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, err)
	}
	looked := weigh(p.row, exchange{call: callLookup, answer: answer})
	decided := s.decideLookup(p, looked)
	if decided.replay {
		return s.replay(ctx, p, looked)
	}
	return s.conclude(ctx, p, decided, looked)
}

// exchange makes one call under the broker's own deadline and tells the gate.
func (s *Service) exchange(ctx context.Context, kind, key string, call *broker.Call, do func(context.Context) broker.Answer) broker.Answer {
	callCtx, cancel := context.WithTimeout(ctx, s.can.Timeout)
	defer cancel()
	answer := do(callCtx)
	if ctx.Err() != nil {
		call.Cancel()
	} else {
		call.Done(answer.Answered)
	}
	s.observeCall(ctx, kind, key, answer)
	return answer
}

// giveBack returns a claim whose pass was stopped before it could decide, by a shutdown
// or the end of its lease; the pass is no attempt.
func (s *Service) releaseClaim(ctx context.Context, p *pass, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err := s.release(ctx, p, 0)
	return errors.Join(fmt.Errorf("pass stopped: %w", cause), err)
}

// replay sends the original request once more, under the original key, after writing
// down that it will.
func (s *Service) replay(ctx context.Context, p *pass, looked exchange) (PassOutcome, error) {
	call, postpone, err := s.enter()
	if call == nil {
		return s.postpone(ctx, p, postpone, err)
	}
	defer call.Cancel()
	if err := s.gate.WaitTurn(ctx); err != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, err)
	}
	attemptID, err := s.intend(ctx, p, looked)
	if err != nil {
		if errors.Is(err, pgx.ErrNoRows) {
			return PassOutcome{Result: resultLostRace, Again: time.Second}, nil
		}
		return PassOutcome{}, err
	}
	request := broker.Request{Key: p.row.BrokerKey, Body: p.row.BrokerRequest}
	answer := s.exchange(ctx, callReplay, request.Key, call, func(ctx context.Context) broker.Answer {
		return s.broker.Place(ctx, request)
	})
	if err := ctx.Err(); err != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, err)
	}
	replayed := weigh(p.row, exchange{call: callReplay, attemptID: attemptID, answer: answer})
	return s.conclude(ctx, p, s.decideReplay(p, replayed), replayed)
}

// intend keeps the lookup that led to the replay and writes the replay down. It returns
// pgx.ErrNoRows where the claim was lost or the key's life ends before an answer could
// come.
func (s *Service) intend(ctx context.Context, p *pass, looked exchange) (int64, error) {
	hash := sha256.Sum256(p.row.BrokerRequest)
	if string(hash[:]) != string(p.row.RequestHash) {
		return 0, fmt.Errorf("purchase %s: stored request does not have its hash: not replayed", p.row.ID)
	}
	text, _ := truncate(looked.answer.Body, MaxStoredBody)
	queries := db.New(s.pool)
	err := queries.InsertLookup(ctx, db.InsertLookupParams{
		ID: p.row.ID, BrokerKey: p.row.BrokerKey, Claim: p.row.Claim, DurationMs: looked.answer.Duration.Milliseconds(),
		Took:   looked.answer.Duration.Seconds(),
		Result: string(looked.answer.Verdict), ResultReason: sanitizeText(resultReason(looked.answer)),
		StatusCode: int32(looked.answer.StatusCode), Answer: text,
	})
	if err != nil {
		return 0, fmt.Errorf("keep lookup: %w", err)
	}
	id, err := queries.IntendReplay(ctx, db.IntendReplayParams{
		ID: p.row.ID, Claim: p.row.Claim, Unknown: string(Unknown), RequestHash: hash[:],
		KeyLife: (s.can.KeyRetention - s.can.Timeout).Seconds(),
	})
	if err != nil {
		return 0, fmt.Errorf("intend replay: %w", err)
	}
	return id, nil
}

// putOff gives the claim back where the gate closed between lookup and replay.
func (s *Service) postpone(ctx context.Context, p *pass, outcome PassOutcome, cause error) (PassOutcome, error) {
	if cause != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, cause)
	}
	err := s.release(ctx, p, outcome.Again)
	return outcome, err
}

func (s *Service) release(ctx context.Context, p *pass, wait time.Duration) error {
	err := db.New(s.pool).ReleaseClaim(ctx, db.ReleaseClaimParams{
		ID: p.row.ID, Claim: p.row.Claim, Wait: wait.Seconds(), Unknown: string(Unknown),
	})
	if err != nil {
		return fmt.Errorf("give claim back: %w", err)
	}
	return nil
}

// conclude writes what the pass came to.
func (s *Service) conclude(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	if d.to == "" {
		return s.deferPass(ctx, p, d, by)
	}
	t := passTransition(p, d, by)
	done, err := s.passBatcher.do(t)
	if errors.Is(err, ErrOrderIDTaken) {
		t = passTransition(p, decision{
			to: ManualReview, reason: string(broker.Mismatch), mismatch: "order id " + t.orderID + ", which another purchase has",
		}, by)
		done.row, done.ok, err = s.applyTransition(ctx, t)
	}
	if err != nil {
		return PassOutcome{}, err
	}
	if !done.ok {
		return s.lostRace(ctx, p, t)
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
		Reason: pointer(d.reason), ReplayCode: pointer(sanitizeText(d.replayCode)),
		AttemptID: by.attemptID, DurationMs: by.answer.Duration.Milliseconds(),
		Took:   by.answer.Duration.Seconds(),
		Result: string(by.answer.Verdict), ResultReason: sanitizeText(resultReason(by.answer)),
		StatusCode: int32(by.answer.StatusCode), Answer: text, Truncated: truncated,
	})
	if errors.Is(err, pgx.ErrNoRows) {
		return PassOutcome{Result: resultLostRace, Again: time.Second}, nil
	}
	if err != nil {
		return PassOutcome{}, fmt.Errorf("defer pass: %w", err)
	}
	return PassOutcome{Result: resultDeferred, Again: max(d.wait, minAgain)}, nil
}

func pointer(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// lostRace looks at what the purchase has become meanwhile; the exchange is kept.
func (s *Service) lostRace(ctx context.Context, p *pass, m transition) (PassOutcome, error) {
	now, err := db.New(s.pool).PurchaseByID(ctx, p.row.ID)
	if err != nil {
		return PassOutcome{}, fmt.Errorf("read purchase: %w", err)
	}
	outcome := PassOutcome{Result: resultLostRace}
	if Status(now.Status) == Unknown {
		outcome.Again = time.Second
	}
	return outcome, s.noteContradiction(ctx, now, m.to, m.exchange)
}
