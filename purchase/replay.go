package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/broker"
	"holdfast/purchase/db"
)

// sendWindow is how long after a statement that found passes not paused something may be
// sent because of it. Five seconds after a pause nothing is sent any more.
const sendWindow = 4 * time.Second

// intent is a replay that was written down before it is sent.
type intent struct {
	attemptID int64
	// sendBefore is when its first byte must have left.
	sendBefore time.Time
}

// replay sends the original request once more, under the original key, after writing
// down that it will.
func (s *Service) replay(ctx context.Context, p *pass, looked exchange) (PassOutcome, error) {
	call, postpone, err := p.via.enter()
	if call == nil {
		return s.postpone(ctx, p, postpone, err)
	}
	defer call.Cancel()
	if err := p.via.Gate.WaitTurn(ctx); err != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, err)
	}
	in, err := s.intend(ctx, p, looked)
	if errors.Is(err, pgx.ErrNoRows) {
		return PassOutcome{Result: resultPostponed, Again: time.Second}, s.release(ctx, p, 0)
	}
	if err != nil {
		return PassOutcome{}, s.releaseClaim(ctx, p, err)
	}
	replayed := weigh(p.row, exchange{
		call: callReplay, attemptID: in.attemptID, answer: s.sendReplay(ctx, p, in, call),
	})
	return s.conclude(ctx, p, p.decideReplay(replayed), replayed)
}

// sendReplay sends the replay, unless its deadline passed while the intent was written.
func (s *Service) sendReplay(ctx context.Context, p *pass, in intent, call *broker.Call) broker.Answer {
	if !time.Now().Before(in.sendBefore) {
		return broker.Answer{Verdict: broker.NotSent, Reason: broker.Timeout}
	}
	request := broker.Request{Key: p.row.BrokerKey, Account: p.row.BrokerAccount, Body: p.row.BrokerRequest, SendBefore: in.sendBefore}
	return s.exchange(ctx, p, callReplay, call, func(ctx context.Context) broker.Answer {
		return p.via.Broker.Place(ctx, request)
	})
}

// intend keeps the lookup that led to the replay and writes the replay down. It returns
// pgx.ErrNoRows if the replay is no longer permitted.
func (s *Service) intend(ctx context.Context, p *pass, looked exchange) (intent, error) {
	queries := db.New(s.pool)
	if looked.call == callLookup {
		if err := insertLookup(ctx, queries, p, looked.answer); err != nil {
			return intent{}, err
		}
	}
	began := time.Now()
	intended, err := queries.IntendReplay(ctx, db.IntendReplayParams{
		ID: p.row.ID, Claim: p.row.Claim, Unknown: string(Unknown), RequestHash: p.row.RequestHash,
		SendWindow: sendWindow.Seconds(), CallTimeout: p.via.can.Timeout.Seconds(),
		KeyLife: (p.via.can.KeyRetention - p.via.can.Timeout).Seconds(), MaxAge: p.via.Policy.MaxAge.Seconds(),
	})
	if err != nil {
		return intent{}, fmt.Errorf("intend replay: %w", err)
	}
	return intent{attemptID: intended.ID, sendBefore: began.Add(seconds(intended.SendWithin))}, nil
}

func insertLookup(ctx context.Context, queries *db.Queries, p *pass, a broker.Answer) error {
	text, _ := truncate(a.Body, MaxStoredBody)
	err := queries.InsertLookup(ctx, db.InsertLookupParams{
		ID: p.row.ID, BrokerKey: p.row.BrokerKey, Claim: p.row.Claim, DurationMs: a.Duration.Milliseconds(),
		Took: a.Duration.Seconds(), Result: string(a.Verdict), ResultReason: sanitizeReason(resultReason(a)),
		StatusCode: int32(a.StatusCode), Answer: text,
	})
	if err != nil {
		return fmt.Errorf("keep lookup: %w", err)
	}
	return nil
}
