package purchase

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/broker"
	"holdfast/internal/money"
	"holdfast/purchase/db"
)

const (
	// recordTimeout bounds a record, and recoverTimeout finding out what became of one
	// whose answer was lost: a database that crashed is back in that time. Both come before
	// the broker's call.
	recordTimeout  = 5 * time.Second
	recoverTimeout = 5 * time.Second
	recoverPause   = 100 * time.Millisecond
	// settleTimeout bounds one try to store an outcome, settleTries how often it is
	// tried before the sweep has to find it out.
	settleTimeout = 5 * time.Second
	settleTries   = 3
	settlePause   = 200 * time.Millisecond
	// retryAfterTrouble is what a client is told to wait while the database is away.
	retryAfterTrouble = 2 * time.Second
)

// draft is a submission that is ready to be recorded.
type draft struct {
	id          uuid.UUID
	submission  Submission
	order       broker.Order
	hold        decimal.Decimal
	fingerprint []byte
	request     broker.Request
	hash        [sha256.Size]byte
}

// Submit asks the broker once for a purchase and stores what came back: record, call,
// settle. A client that hangs up changes nothing; a key that was used before gets the
// purchase as it stands. Errors come before any call is made: [ErrAccountNotFound],
// [ErrInsufficientFunds], [ErrCurrency], [ErrKeyReused], [*FieldError], and
// [*UnavailableError] where nothing was recorded.
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
		return s.repeatOr(ctx, d, err)
	}
	s.observer.StatusChanged(Pending)
	answer := s.place(ctx, began, d.request)
	call.Done(answer.Answered)
	return Result{Purchase: fromRow(s.settleReply(ctx, recorded, answer))}, nil
}

// whyClosed says to clients why the gate is closed.
var whyClosed = map[broker.ClosedReason]string{
	broker.ReasonBreaker:  "the broker does not answer at the moment; nothing was recorded",
	broker.ReasonOverload: "too many calls to the broker are in progress; nothing was recorded",
}

// admit asks the operators' switch and the gate for one purchase's permission.
func (s *Service) admit() (*broker.Call, error) {
	if s.switches.IntakePaused() {
		return nil, &UnavailableError{Detail: "an operator has paused new purchases", RetryAfter: retryAfterTrouble}
	}
	call, err := s.gate.Enter()
	var closed *broker.ClosedError
	if errors.As(err, &closed) {
		return nil, &UnavailableError{Detail: whyClosed[closed.Reason], RetryAfter: closed.RetryAfter}
	}
	return call, err
}

// draft works out what the submission means for its account.
func (s *Service) draft(ctx context.Context, sub Submission) (draft, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	currency, err := s.accounts.Currency(ctx, sub.AccountID)
	if errors.Is(err, account.ErrNotFound) {
		return draft{}, ErrAccountNotFound
	}
	if err != nil {
		return draft{}, unavailable(err)
	}
	if sub.Currency != "" && sub.Currency != currency {
		return draft{}, s.otherCurrency(ctx, sub)
	}
	order := broker.Order{
		Account: sub.AccountID, Symbol: sub.Symbol, Currency: currency,
		Quantity: sub.Quantity, LimitPrice: sub.LimitPrice, Notional: sub.Notional,
	}
	hold, err := holdOf(order)
	if err != nil {
		return draft{}, err
	}
	return s.newDraft(sub, order, hold)
}

// otherCurrency refuses a currency that is not the account's; under a key that was used
// before it is another meaning.
func (s *Service) otherCurrency(ctx context.Context, sub Submission) error {
	lookupDraft := draft{submission: sub, order: broker.Order{Account: sub.AccountID}}
	_, err := s.repeatOr(ctx, lookupDraft, ErrCurrency)
	return err
}

// sealed gives the draft its id, and what follows from it permanently: the broker key and
// the bytes of every attempt.
func (s *Service) newDraft(sub Submission, order broker.Order, hold decimal.Decimal) (draft, error) {
	canonicalRequest, err := fingerprint(order, sub.Metadata)
	if err != nil {
		return draft{}, err
	}
	id, err := uuid.NewV7()
	if err != nil {
		return draft{}, fmt.Errorf("make purchase id: %w", err)
	}
	key := brokerKey(id)
	body, err := s.broker.Encode(key, order)
	var unsupported *broker.UnsupportedError
	if errors.As(err, &unsupported) {
		return draft{}, &FieldError{Field: unsupported.Field, Message: unsupported.Message}
	}
	if err != nil {
		return draft{}, fmt.Errorf("encode order: %w", err)
	}
	return draft{
		id: id, submission: sub, order: order, hold: hold, fingerprint: canonicalRequest,
		request: broker.Request{Key: key, Body: body}, hash: sha256.Sum256(body),
	}, nil
}

// brokerKey derives the key that the broker gets from the purchase's id, once.
func brokerKey(id uuid.UUID) string { return "hf-" + id.String() }

// holdOf is what an order reserves: its notional, or quantity times limit price rounded
// up to the currency's smallest unit.
func holdOf(order broker.Order) (decimal.Decimal, error) {
	decimals, known := money.CurrencyDecimals(order.Currency)
	if !known {
		return decimal.Decimal{}, &FieldError{Field: "currency", Message: "is no ISO 4217 currency"}
	}
	if !order.Notional.Valid {
		return order.Quantity.Decimal.Mul(order.LimitPrice.Decimal).RoundCeil(decimals), nil
	}
	if order.Notional.Decimal.Exponent() < -decimals {
		return decimal.Decimal{}, &FieldError{
			Field:   "notional",
			Message: fmt.Sprintf("has more decimals than %s has (%d)", order.Currency, decimals),
		}
	}
	return order.Notional.Decimal, nil
}

// recordResult is a recorded purchase; ok is false if nothing was recorded.
type recordResult struct {
	row row
	ok  bool
}

// errMember: a batch recorded nothing for this draft, which may be the others' fault: they
// may have used up the account's money.
var errMember = errors.New("not recorded in a batch")

// runsAlone reports whether a draft of a failed batch may be recorded alone: only if the
// batch certainly recorded nothing for it.
func runsAlone(err error) bool { return answered(err) }

// record holds the money and writes PENDING, in one round trip, which under load it
// shares with others.
func (s *Service) record(ctx context.Context, d draft) (row, error) {
	done, err := s.records.do(d)
	return s.recorded(ctx, d, done, err)
}

// recorded returns what was recorded, though the answer that says so may be lost: what is
// recorded must be called, and a client who is told that nothing was must be right.
func (s *Service) recorded(ctx context.Context, d draft, done recordResult, err error) (row, error) {
	if !answered(err) && !neverSent(err) {
		done, err = s.recoverRecord(ctx, d, err)
	}
	if err != nil {
		return row{}, unavailable(fmt.Errorf("record purchase: %w", err))
	}
	if !done.ok {
		return row{}, ErrInsufficientFunds
	}
	return done.row, nil
}

// answered reports whether the database itself said what went wrong, if anything did: then
// nothing was recorded. A server that goes down says so to a commit that it has made, too.
func answered(err error) bool {
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		return err == nil || errors.Is(err, errMember)
	}
	return pgErr.Code != pgerrcode.AdminShutdown && pgErr.Code != pgerrcode.CrashShutdown
}

// neverSent reports whether a statement cannot have reached the database.
func neverSent(err error) bool {
	var unconnected *pgconn.ConnectError
	return errors.As(err, &unconnected) || pgconn.SafeToRetry(err)
}

// recordAll records drafts in one statement, each for itself.
func (s *Service) recordAll(ctx context.Context, drafts []draft) []result[recordResult] {
	done := make([]result[recordResult], len(drafts))
	rows, err := db.New(s.pool).RecordPurchases(ctx, s.recordParams(drafts))
	createdAt := make(map[uuid.UUID]time.Time, len(rows))
	for _, r := range rows {
		createdAt[r.ID] = r.CreatedAt
	}
	for i, d := range drafts {
		birth, ok := createdAt[d.id]
		done[i].err = err
		if ok {
			done[i].out = recordResult{row: d.row(s.can.Name, birth), ok: true}
		} else if err == nil && len(drafts) > 1 {
			done[i].err = errMember
		}
	}
	return done
}

// row is the draft as it was recorded.
func (d draft) row(brokerName string, birth time.Time) row {
	return row{
		ID: d.id, AccountID: d.order.Account, IdempotencyKey: d.submission.IdempotencyKey,
		Fingerprint: d.fingerprint, Status: string(Pending), Version: 1, Symbol: d.order.Symbol,
		Quantity: d.order.Quantity, LimitPrice: d.order.LimitPrice, Notional: d.order.Notional,
		Currency: d.order.Currency, Hold: d.hold, Metadata: d.submission.Metadata,
		Broker: brokerName, BrokerKey: d.request.Key, BrokerRequest: d.request.Body, RequestHash: d.hash[:],
		CreatedAt: birth, UpdatedAt: birth,
	}
}

// recoverRecord finds out what became of a record whose answer was lost, for as long as
// that makes sense. One that is not there may still come, by a server process that was
// stopped before it read the statement: so it is made again, and what comes late finds its
// key taken.
func (s *Service) recoverRecord(ctx context.Context, d draft, lost error) (recordResult, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	for refused := false; ; {
		found, err := s.readRecord(ctx, d)
		if err == nil {
			return recordResult{row: found, ok: true}, nil
		}
		if errors.Is(err, pgx.ErrNoRows) {
			if refused {
				return recordResult{}, nil
			}
			again := s.recordAll(ctx, []draft{d})[0]
			if again.out.ok {
				return again.out, nil
			}
			if refused = again.err == nil; refused {
				continue // perhaps because the lost one has come just now: look once more
			}
		}
		select {
		case <-ctx.Done():
			return recordResult{}, lost
		case <-time.After(recoverPause):
		}
	}
}

// readRecord reads a purchase once nobody writes its account: a record may be about to
// commit that nobody waits for any more, and holds the account until it has.
func (s *Service) readRecord(ctx context.Context, d draft) (found row, err error) {
	err = pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		queries := db.New(tx)
		if _, err := queries.LockAccount(ctx, d.order.Account); err != nil {
			return err
		}
		found, err = queries.PurchaseByID(ctx, d.id)
		return err
	})
	return found, err
}

func (s *Service) recordParams(drafts []draft) db.RecordPurchasesParams {
	p := db.RecordPurchasesParams{SendWithin: s.placeWindow().Seconds()}
	for _, d := range drafts {
		p.Ids = append(p.Ids, d.id)
		p.AccountIds = append(p.AccountIds, d.order.Account)
		p.IdempotencyKeys = append(p.IdempotencyKeys, d.submission.IdempotencyKey)
		p.Fingerprints = append(p.Fingerprints, d.fingerprint)
		p.Symbols = append(p.Symbols, d.order.Symbol)
		p.Quantities = append(p.Quantities, optional(d.order.Quantity))
		p.LimitPrices = append(p.LimitPrices, optional(d.order.LimitPrice))
		p.Notionals = append(p.Notionals, optional(d.order.Notional))
		p.Currencies = append(p.Currencies, d.order.Currency)
		p.Holds = append(p.Holds, money.Format(d.hold))
		p.Metadata = append(p.Metadata, d.submission.Metadata)
		p.Brokers = append(p.Brokers, s.can.Name)
		p.BrokerKeys = append(p.BrokerKeys, d.request.Key)
		p.BrokerRequests = append(p.BrokerRequests, d.request.Body)
		p.RequestHashes = append(p.RequestHashes, d.hash[:])
	}
	return p
}

// repeatOr returns the purchase that the key belongs to, or refusal where there is none.
func (s *Service) repeatOr(ctx context.Context, d draft, refusal error) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	first, err := db.New(s.pool).PurchaseByKey(ctx, d.order.Account, d.submission.IdempotencyKey)
	if errors.Is(err, pgx.ErrNoRows) {
		return Result{}, refusal
	}
	if err != nil {
		return Result{}, unavailable(fmt.Errorf("read purchase by key: %w", err))
	}
	if string(first.Fingerprint) != string(d.fingerprint) {
		return Result{}, ErrKeyReused
	}
	return Result{Purchase: fromRow(first), Repeated: true}, nil
}

// placeWindow is how long after a record began its first call may be sent: the call must
// have ended when others may take the purchase for interrupted. The record stores its end
// as the purchase's send_until.
func (s *Service) placeWindow() time.Duration { return s.policy.PendingGrace - s.can.Timeout }

// place makes the first call, once, with a deadline of its own. Counted from before the
// purchase was recorded, its first byte must leave within the window: a process that was
// stopped for longer must not call at all.
func (s *Service) place(ctx context.Context, began time.Time, request broker.Request) broker.Answer {
	request.SendBefore = began.Add(s.placeWindow())
	ctx, cancel := context.WithDeadline(ctx, began.Add(s.policy.PendingGrace))
	defer cancel()
	ctx, cancel = context.WithTimeout(ctx, s.can.Timeout)
	defer cancel()
	answer := s.broker.Place(ctx, request)
	s.observeCall(ctx, callPlace, request.Key, answer)
	return answer
}

func (s *Service) observeCall(ctx context.Context, call, key string, answer broker.Answer) {
	s.observer.BrokerCall(call, string(answer.Verdict), answer.Duration)
	s.log.Info("broker call", slog.String("call", call), slog.String("broker_key", key), slog.Any("result", answer.Verdict),
		nonEmpty("reason", string(answer.Reason)), slog.Int("status_code", answer.StatusCode),
		slog.Int64("duration_ms", answer.Duration.Milliseconds()))
	if answer.CredentialsRefused {
		s.alarm(ctx, AlertCredentialsRefused, map[string]any{"call": call, "status_code": answer.StatusCode})
	}
}
