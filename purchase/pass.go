package purchase

import (
	"context"
	"errors"
	"fmt"
	"strings"
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
	// resultPostponed: a pause, the breaker or a bound held the pass back; no attempt.
	resultPostponed = "put_off"
	// resultNothing: the purchase needs no pass now.
	resultNoop = "nothing"
)

// unservedWait is how soon to look again at a purchase whose broker is not served here.
const unservedWait = time.Minute

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
	row row
	// via is the broker that the purchase was placed with.
	via *member
	// began is before the claim's statement was sent, so that no age plus the time since
	// is less than the true one.
	began time.Time
	// How old things were, by the database's clock, when the pass began; sentAge counts
	// from the end of the last send, absentAge from the last counted "not found".
	unknownAge, createdAge, sentAge, absentAge time.Duration
	// validFor is the time that was left until valid_until.
	validFor time.Duration
	// uncertain: its lookup proved nothing, which restarts the proof of absence.
	uncertain bool
	// job carries it; 0: none does.
	job int64
}

// Pass runs one reconciliation of one purchase: claim, look up, maybe replay, settle or
// defer. job is what carries it (0: nothing does); where the pass moves the purchase, the
// scheduler is told in the same transaction that the job is done. An error means that
// nothing was decided and the same job may simply run again.
func (s *Service) Pass(ctx context.Context, id uuid.UUID, job int64) (PassOutcome, error) {
	via, outcome, err := s.brokerOf(ctx, id)
	if via == nil {
		return outcome, err
	}
	leave, wait := via.places.take()
	if leave == nil {
		return PassOutcome{Result: resultPostponed, Again: wait}, nil
	}
	defer leave()
	call, outcome, err := s.awaitTurn(ctx, via)
	if call == nil {
		return outcome, err
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

// brokerOf returns the broker that a purchase was placed with; nil if it is not served. A
// process with one broker need not read it: the claim takes no other's purchases.
func (s *Service) brokerOf(ctx context.Context, id uuid.UUID) (*member, PassOutcome, error) {
	if only := s.brokers.only(); only != nil {
		return only, PassOutcome{}, nil
	}
	name, err := s.brokerReads.do(id)
	if err != nil {
		return nil, PassOutcome{}, fmt.Errorf("read broker of purchase: %w", err)
	}
	if name == nil {
		return nil, PassOutcome{Result: resultNoop}, nil
	}
	if via := s.brokers.members[*name]; via != nil {
		return via, PassOutcome{}, nil
	}
	outcome, err := s.whenDue(ctx, id)
	return nil, outcome, err
}

// readBrokers reads the brokers of purchases in one statement; nil if there is no purchase.
func (s *Service) readBrokers(ctx context.Context, ids []uuid.UUID) []result[*string] {
	rows, err := db.New(s.pool).PurchaseBrokers(ctx, ids)
	names := make(map[uuid.UUID]*string, len(rows))
	for i := range rows {
		names[rows[i].ID] = &rows[i].Broker
	}
	done := make([]result[*string], len(ids))
	for i, id := range ids {
		done[i] = result[*string]{out: names[id], err: err}
	}
	return done
}

// awaitTurn waits for a pass's turn at the broker and returns the permission for its first
// call; nil if passes are paused or the pass must wait for longer.
func (s *Service) awaitTurn(ctx context.Context, via *member) (*broker.Call, PassOutcome, error) {
	if s.switches.PassesPaused(via.name) {
		return nil, paused(), nil
	}
	if err := via.Gate.WaitTurn(ctx); err != nil {
		outcome, err := via.throttled(ctx, err)
		return nil, outcome, err
	}
	if s.switches.PassesPaused(via.name) {
		return nil, paused(), nil
	}
	return via.enter()
}

func paused() PassOutcome {
	return PassOutcome{Result: resultPostponed, Again: spread(retryAfterTrouble, 0.5)}
}

// throttled postpones a pass that would not get its turn in time, unless it was stopped.
func (m *member) throttled(ctx context.Context, cause error) (PassOutcome, error) {
	if ctx.Err() != nil {
		return PassOutcome{}, cause
	}
	return PassOutcome{Result: resultPostponed, Again: spread(m.Policy.RescueAfter/2, 0.5)}, nil
}

// enter asks the gate for one call; if it is refused, the pass is postponed.
func (m *member) enter() (*broker.Call, PassOutcome, error) {
	call, err := m.Gate.Enter()
	var closed *broker.ClosedError
	if errors.As(err, &closed) {
		return nil, PassOutcome{Result: resultPostponed, Again: spread(max(closed.RetryAfter, time.Second), 0.2)}, nil
	}
	return call, PassOutcome{}, err
}

// claim takes the purchase for one pass; it returns nil if there is none to make.
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
		row: claimed.TransactionHistory, via: s.brokers.of(claimed.TransactionHistory.Broker), began: began, unknownAge: seconds(claimed.UnknownAge),
		createdAge: seconds(claimed.CreatedAge), sentAge: seconds(claimed.SentAge),
		absentAge: seconds(claimed.AbsentAge), validFor: seconds(claimed.ValidFor),
	}, PassOutcome{}, nil
}

// claimAll claims purchases in one statement, each for the first who asks.
func (s *Service) claimAll(ctx context.Context, ids []uuid.UUID) []result[*db.ClaimPassesRow] {
	rows, err := db.New(s.pool).ClaimPasses(ctx, db.ClaimPassesParams{
		Ids: ids, Brokers: s.brokers.limits.brokers, CallTimeouts: s.brokers.limits.callTimeouts,
		Lease: s.brokers.first.Policy.RescueAfter.Seconds(), Unknown: string(Unknown),
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

// whenDue returns when to ask again for a purchase that could not be claimed.
func (s *Service) whenDue(ctx context.Context, id uuid.UUID) (PassOutcome, error) {
	due, err := db.New(s.pool).PassDue(ctx, id)
	if errors.Is(err, pgx.ErrNoRows) {
		return PassOutcome{Result: resultNoop}, nil
	}
	if err == nil && Status(due.Status) != Unknown {
		return PassOutcome{Result: resultNoop}, s.noteLateAnswers(ctx, id)
	}
	if err != nil {
		return PassOutcome{}, fmt.Errorf("read when a pass is due: %w", err)
	}
	if !s.brokers.Serves(due.Broker) {
		s.log.Error("purchase was placed with a broker that this worker does not serve",
			"purchase_id", id, "broker", due.Broker, "serves", strings.Join(s.brokers.Names(), " "))
		return PassOutcome{Result: resultNoop, Again: unservedWait}, nil
	}
	if due.Paused {
		return paused(), nil
	}
	if due.DueIn <= 0 {
		return PassOutcome{Result: resultNoop, Again: busyAgain}, nil
	}
	return PassOutcome{Result: resultNoop, Again: max(seconds(due.DueIn), minAgain)}, nil
}

func seconds(s float64) time.Duration { return time.Duration(s * float64(time.Second)) }

// run makes the claimed pass, all of it within the lease. A pass that was held up after its
// claim, by a stalled commit or a frozen process, sends nothing any more: passes may have
// been paused since.
func (s *Service) run(ctx context.Context, p *pass, call *broker.Call) (PassOutcome, error) {
	ctx, cancel := context.WithDeadline(ctx, p.began.Add(p.via.Policy.RescueAfter))
	defer cancel()
	if p.via.can.NoLookup {
		call.Cancel() // a replay asks for a permission of its own
		return s.act(ctx, p, p.decideUnasked(), exchange{})
	}
	if time.Since(p.began) > sendWindow {
		return PassOutcome{Result: resultPostponed, Again: minAgain}, s.release(ctx, p, 0)
	}
	answer := s.exchange(ctx, p, callLookup, call, func(ctx context.Context) broker.Answer {
		return p.via.Broker.Lookup(ctx, broker.Query{
			Key: p.row.BrokerKey, Account: p.row.BrokerAccount, SendBefore: p.began.Add(sendWindow),
		})
	})
	p.uncertain = answer.Verdict == broker.Uncertain
	if err := ctx.Err(); err != nil && answer.Verdict == broker.Uncertain {
		return PassOutcome{}, s.releaseClaim(ctx, p, err)
	}
	looked := weigh(p.row, exchange{call: callLookup, answer: answer})
	return s.act(ctx, p, p.decideLookup(looked), looked)
}

// act does what was decided.
func (s *Service) act(ctx context.Context, p *pass, d decision, by exchange) (PassOutcome, error) {
	if d.replay {
		return s.replay(ctx, p, by)
	}
	return s.conclude(ctx, p, d, by)
}

// exchange makes one call under the broker's own deadline and tells the gate.
func (s *Service) exchange(ctx context.Context, p *pass, kind string, call *broker.Call, do func(context.Context) broker.Answer) broker.Answer {
	callCtx, cancel := context.WithTimeout(ctx, p.via.can.Timeout)
	defer cancel()
	answer := do(callCtx)
	if ctx.Err() != nil {
		call.Cancel()
	} else {
		call.Done(answer.Answered)
	}
	s.observeCall(ctx, p.via, kind, p.row.BrokerKey, answer)
	return answer
}

// releaseClaim gives up a claim whose pass was stopped before it could decide, by a shutdown
// or the end of its lease; the pass is no attempt.
func (s *Service) releaseClaim(ctx context.Context, p *pass, cause error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), settleTimeout)
	defer cancel()
	err := s.release(ctx, p, 0)
	return errors.Join(fmt.Errorf("pass stopped: %w", cause), err)
}

// postpone gives the claim back if the gate closed between lookup and replay.
func (s *Service) postpone(ctx context.Context, p *pass, outcome PassOutcome, cause error) (PassOutcome, error) {
	if cause != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, cause)
	}
	err := s.release(ctx, p, outcome.Again)
	return outcome, err
}

func (s *Service) release(ctx context.Context, p *pass, wait time.Duration) error {
	err := db.New(s.pool).ReleaseClaim(ctx, db.ReleaseClaimParams{
		ID: p.row.ID, Claim: p.row.Claim, Wait: wait.Seconds(), Unknown: string(Unknown), Uncertain: p.uncertain,
	})
	if err != nil {
		return fmt.Errorf("release claim: %w", err)
	}
	return nil
}
