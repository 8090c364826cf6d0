package purchase

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"holdfast/broker"
)

const (
	// settleTimeout bounds one try to store an outcome, settleTries how often it is
	// tried before it is left to the sweep.
	settleTimeout = 5 * time.Second
	settleTries   = 3
	settlePause   = 200 * time.Millisecond
	// retryAfterTrouble is a client's Retry-After while the database is unavailable.
	retryAfterTrouble = 2 * time.Second
)

// Submit asks the broker once for a purchase and stores what came back: record, call,
// settle. A client that hangs up changes nothing; a key that was used before gets the
// purchase as it is now. Errors come before any call is made: [ErrAccountNotFound],
// [ErrInsufficientFunds], [ErrCurrency], [ErrKeyReused], [*FieldError],
// [*UnavailableError] if nothing was recorded and nothing will be, and
// [*FateUnknownError] if that is unknown.
func (s *Service) Submit(ctx context.Context, sub Submission) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	d, err := s.draft(ctx, sub)
	if err != nil {
		return Result{}, err
	}
	call, refusal := s.admit()
	if refusal != nil {
		return s.repeatOr(ctx, d, refusal)
	}
	defer call.Cancel()
	began := time.Now()
	recorded, err := s.record(ctx, d)
	if err != nil {
		return s.refused(ctx, d, err)
	}
	s.observer.StatusChanged(Pending)
	answer := s.place(ctx, s.sendBefore(began, recorded), recorded)
	call.Done(answer.Answered)
	return Result{Purchase: fromRow(s.settleReply(ctx, recorded, answer))}, nil
}

// refused answers a submission that was not recorded: with the purchase that its key
// belongs to, if there is one.
func (s *Service) refused(ctx context.Context, d draft, cause error) (Result, error) {
	var unknown *FateUnknownError
	if errors.As(cause, &unknown) {
		return Result{}, cause
	}
	return s.repeatOr(ctx, d, cause)
}

// whyClosed says to clients why the gate is closed.
var whyClosed = map[broker.ClosedReason]string{
	broker.ReasonBreaker:  "the broker does not answer at the moment; nothing was recorded",
	broker.ReasonOverload: "too many calls to the broker are in progress; nothing was recorded",
}

// admit asks the operators' switch and the gate for one purchase's permission.
func (s *Service) admit() (*broker.Call, error) {
	if s.switches.IntakePaused(s.can.Name) {
		return nil, &UnavailableError{Detail: "an operator has paused new purchases", RetryAfter: retryAfterTrouble}
	}
	call, err := s.gate.Enter()
	var closed *broker.ClosedError
	if errors.As(err, &closed) {
		return nil, &UnavailableError{Detail: whyClosed[closed.Reason], RetryAfter: closed.RetryAfter}
	}
	return call, err
}

// placeWindow is how long after a record began its first call may be sent: the call must
// have ended when others may take the purchase for interrupted. The record stores its end,
// or valid_until if that is sooner, as the purchase's send_until.
func (s *Service) placeWindow() time.Duration { return s.policy.PendingGrace - s.can.Timeout }

// sendBefore is when the first byte of the first call must have been sent, by this
// process's own clock. It counts from before the purchase was recorded, so it is never
// later than the send_until that was recorded.
func (s *Service) sendBefore(began time.Time, r row) time.Time {
	window := s.placeWindow()
	if r.ValidUntil != nil {
		window = min(window, r.ValidUntil.Sub(r.CreatedAt))
	}
	return began.Add(window)
}

// place makes the first call, once, with a deadline of its own.
func (s *Service) place(ctx context.Context, sendBefore time.Time, r row) broker.Answer {
	if !time.Now().Before(sendBefore) {
		return broker.Answer{Verdict: broker.NotSent, Reason: broker.Timeout}
	}
	ctx, cancel := context.WithTimeout(ctx, s.can.Timeout)
	defer cancel()
	answer := s.broker.Place(ctx, broker.Request{
		Key: r.BrokerKey, Account: r.BrokerAccount, Body: r.BrokerRequest, SendBefore: sendBefore,
	})
	s.observeCall(ctx, callPlace, r.BrokerKey, answer)
	return answer
}

func (s *Service) observeCall(ctx context.Context, call, key string, answer broker.Answer) {
	s.observer.BrokerCall(call, string(answer.Verdict), answer.Duration)
	s.log.InfoContext(ctx, "broker call", slog.String("call", call), slog.String("broker_key", key), slog.Any("result", answer.Verdict),
		nonEmpty("reason", string(answer.Reason)), slog.Int("status_code", answer.StatusCode),
		slog.Int64("duration_ms", answer.Duration.Milliseconds()))
	if answer.CredentialsRefused {
		s.alerts.Report(ctx, AlertCredentialsRefused, map[string]any{"call": call, "status_code": answer.StatusCode})
	}
}
