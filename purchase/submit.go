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
	// retryAfterUnserved is a client's Retry-After if the account's broker is not served:
	// settings must change, or another process must get the request.
	retryAfterUnserved = 30 * time.Second
	// routeTries is how often a submission begins because its account's broker has changed,
	// and termsFresh how old what is known of that may be without being read again before a
	// purchase is refused because of it.
	routeTries = 3
	termsFresh = time.Second
)

// Submit asks the broker once for a purchase and stores what came back: record, call,
// settle. A client that hangs up changes nothing; a key that was used before gets the
// purchase as it is now. Errors come before any call is made: [ErrAccountNotFound],
// [ErrInsufficientFunds], [ErrCurrency], [ErrKeyReused], [*FieldError],
// [*UnavailableError] if nothing was recorded and nothing will be, and
// [*FateUnknownError] if that is unknown.
func (s *Service) Submit(ctx context.Context, sub Submission) (Result, error) {
	ctx = context.WithoutCancel(ctx)
	for range routeTries {
		result, err := s.submit(ctx, sub)
		if !errors.Is(err, errRerouted) {
			return result, err
		}
		s.accounts.Forget(sub.AccountID)
	}
	return Result{}, &UnavailableError{
		Detail: "the account's broker is being changed; nothing was recorded", RetryAfter: retryAfterTrouble, Err: errRerouted,
	}
}

// submit is Submit with what is known of the account's broker; it returns errRerouted, and
// has recorded nothing, if that is out of date.
func (s *Service) submit(ctx context.Context, sub Submission) (Result, error) {
	d, err := s.draft(ctx, sub)
	if err != nil {
		return Result{}, err
	}
	call, refusal := s.admit(&d)
	if refusal != nil {
		return s.repeatOr(ctx, d, s.unlessRerouted(d, refusal))
	}
	defer call.Cancel()
	began := time.Now()
	recorded, err := s.record(ctx, d)
	if err != nil {
		return s.refused(ctx, d, err)
	}
	s.observer.StatusChanged(Pending)
	answer := s.place(ctx, d.via, sendBefore(d.via, began, recorded), recorded)
	call.Done(answer.Answered)
	return Result{Purchase: fromRow(s.settleReply(ctx, d.via, recorded, answer))}, nil
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

// unlessRerouted returns errRerouted in place of a refusal that another broker might not
// give, if the account's broker was read so long ago that it may have been changed since.
func (s *Service) unlessRerouted(d draft, refusal error) error {
	alternative := d.via == nil || s.brokers.only() == nil
	if alternative && time.Since(d.terms.ReadAt) > termsFresh {
		return errRerouted
	}
	return refusal
}

// whyClosed says to clients why the gate is closed.
var whyClosed = map[broker.ClosedReason]string{
	broker.ReasonBreaker:  "the broker does not answer at the moment; nothing was recorded",
	broker.ReasonOverload: "too many calls to the broker are in progress; nothing was recorded",
}

// admit addresses the draft to its broker and asks the operators' switch and the broker's
// gate for one purchase's permission.
func (s *Service) admit(d *draft) (*broker.Call, error) {
	if d.via == nil {
		return nil, &UnavailableError{
			Detail:     "the account's broker, " + d.terms.Broker + ", is not served here; nothing was recorded",
			RetryAfter: retryAfterUnserved,
		}
	}
	if err := d.address(); err != nil {
		return nil, err
	}
	if s.switches.IntakePaused(d.via.name) {
		return nil, &UnavailableError{Detail: "an operator has paused new purchases", RetryAfter: retryAfterTrouble}
	}
	call, err := d.via.Gate.Enter()
	var closed *broker.ClosedError
	if errors.As(err, &closed) {
		return nil, &UnavailableError{Detail: whyClosed[closed.Reason], RetryAfter: closed.RetryAfter}
	}
	return call, err
}

// sendBefore is when the first byte of the first call must have been sent, by this
// process's own clock. It counts from before the purchase was recorded, so it is never
// later than the send_until that was recorded.
func sendBefore(via *member, began time.Time, r row) time.Time {
	window := via.placeWindow()
	if r.ValidUntil != nil {
		window = min(window, r.ValidUntil.Sub(r.CreatedAt))
	}
	return began.Add(window)
}

// place makes the first call, once, with a deadline of its own.
func (s *Service) place(ctx context.Context, via *member, sendBefore time.Time, r row) broker.Answer {
	if !time.Now().Before(sendBefore) {
		return broker.Answer{Verdict: broker.NotSent, Reason: broker.Timeout}
	}
	ctx, cancel := context.WithTimeout(ctx, via.can.Timeout)
	defer cancel()
	answer := via.Broker.Place(ctx, broker.Request{
		Key: r.BrokerKey, Account: r.BrokerAccount, Body: r.BrokerRequest, SendBefore: sendBefore,
	})
	s.observeCall(ctx, via, callPlace, r.BrokerKey, answer)
	return answer
}

func (s *Service) observeCall(ctx context.Context, via *member, call, key string, answer broker.Answer) {
	s.observer.BrokerCall(call, string(answer.Verdict), answer.Duration)
	s.log.InfoContext(ctx, "broker call", slog.String("broker", via.name), slog.String("call", call), slog.String("broker_key", key), slog.Any("result", answer.Verdict),
		nonEmpty("reason", string(answer.Reason)), slog.Int("status_code", answer.StatusCode),
		slog.Int64("duration_ms", answer.Duration.Milliseconds()))
	if answer.CredentialsRefused {
		s.alerts.Report(ctx, AlertCredentialsRefused, map[string]any{"broker": via.name, "call": call, "status_code": answer.StatusCode})
	}
}
