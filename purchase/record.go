package purchase

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/internal/money"
	"holdfast/purchase/db"
)

const (
	// recordTimeout bounds a record, and recoverTimeout finding out whether one exists whose
	// answer was lost: a database that crashed is back in that time. Both come before the
	// broker's call.
	recordTimeout  = 5 * time.Second
	recoverTimeout = 5 * time.Second
	recoverPause   = 100 * time.Millisecond
)

// recordOutcome is what RecordPurchases says of one draft.
type recordOutcome string

const (
	outcomeRecorded     recordOutcome = "recorded"
	outcomeRepeated     recordOutcome = "repeated"
	outcomeInFlight     recordOutcome = "in_flight"
	outcomeNoAccount    recordOutcome = "no_account"
	outcomeRerouted     recordOutcome = "rerouted"
	outcomeExpired      recordOutcome = "expired"
	outcomeInsufficient recordOutcome = "insufficient"
	outcomeContended    recordOutcome = "contended"
)

// errContended: affordable alone, but not together with the others of its batch.
var errContended = errors.New("not affordable together with its batch")

// recordsAlone reports whether a draft of a failed batch may be recorded alone: if the batch
// recorded nothing for certain, and not for want of a connection.
func recordsAlone(err error) bool { return answered(err) && !neverSent(err) }

// errRepeated: the key was used before.
var errRepeated = errors.New("idempotency key was used before")

// errRerouted: the account has another broker than was known; the submission starts again.
var errRerouted = errors.New("the account's broker has changed")

// recordResult is what became of one draft; row is set if it was recorded.
type recordResult struct {
	outcome recordOutcome
	row     row
}

// record holds the money and writes PENDING, in one round trip, which under load it
// shares with others. A client who is told that nothing was recorded must be right: an
// error other than [*FateUnknownError] says that this request recorded nothing, now or later.
func (s *Service) record(ctx context.Context, d draft) (row, error) {
	done, err := s.records.do(d)
	if done.outcome == outcomeInFlight || !answered(err) {
		return s.pursue(ctx, d, err)
	}
	return done.recorded(err)
}

// recorded is what an outcome means to the request that asked.
func (r recordResult) recorded(err error) (row, error) {
	if err != nil {
		return row{}, unavailable(fmt.Errorf("record purchase: %w", err))
	}
	return r.row, refusals[r.outcome]
}

// refusals are the errors of what was not recorded.
var refusals = map[recordOutcome]error{
	outcomeRepeated:     errRepeated,
	outcomeNoAccount:    ErrAccountNotFound,
	outcomeRerouted:     errRerouted,
	outcomeExpired:      &FieldError{Field: "valid_until", Message: "must be in the future"},
	outcomeInsufficient: ErrInsufficientFunds,
}

// pursue finds out what became of a record whose answer was lost, or of another request's
// under the same key. A lost statement may still reach the database, read by a server
// process that was stopped before: so the record is made again, and what comes late finds
// its key used. As long as one is lost, no refusal of another is definitive.
func (s *Service) pursue(ctx context.Context, d draft, lost error) (row, error) {
	ctx, cancel := context.WithTimeout(ctx, recoverTimeout)
	defer cancel()
	for {
		select {
		case <-ctx.Done():
			return row{}, &FateUnknownError{RetryAfter: retryAfterTrouble, Err: lost}
		case <-time.After(recoverPause):
		}
		again := s.recordAll(ctx, []draft{d}, laneLockTimeout)[0]
		switch {
		case again.err == nil && again.out.outcome == outcomeRecorded:
			return again.out.row, nil
		case again.err == nil && again.out.outcome == outcomeRepeated:
			return s.own(ctx, d)
		case again.err == nil && again.out.outcome != outcomeInFlight && lost == nil:
			return again.out.recorded(nil)
		case !answered(again.err):
			lost = again.err
		}
	}
}

// own returns the purchase under the draft's key if it is this draft's, whose record was
// only thought to be lost and still waits for its call.
func (s *Service) own(ctx context.Context, d draft) (row, error) {
	found, err := db.New(s.pool).PurchaseByKey(ctx, d.submission.AccountID, d.submission.IdempotencyKey)
	if err != nil {
		return row{}, &FateUnknownError{RetryAfter: retryAfterTrouble, Err: err}
	}
	if found.ID != d.id || Status(found.Status) != Pending {
		return row{}, errRepeated
	}
	return found, nil
}

// recordAll records drafts in one statement, each for itself.
func (s *Service) recordAll(ctx context.Context, drafts []draft, lockTimeout time.Duration) []result[recordResult] {
	rows, err := s.recordRows(ctx, recordParams(drafts, lockTimeout))
	if err != nil {
		return failed[recordResult](len(drafts), err)
	}
	at := make(map[uuid.UUID]db.RecordPurchasesRow, len(rows))
	for _, r := range rows {
		at[r.ID] = r
	}
	done := make([]result[recordResult], len(drafts))
	for i, d := range drafts {
		done[i] = d.result(at[d.id])
	}
	return done
}

// recordRows runs the statement. An error before it has a connection says that nothing was
// sent.
func (s *Service) recordRows(ctx context.Context, p db.RecordPurchasesParams) ([]db.RecordPurchasesRow, error) {
	conn, err := s.pool.Acquire(ctx)
	if err != nil {
		return nil, &notSentError{err}
	}
	defer conn.Release()
	return db.New(conn).RecordPurchases(ctx, p)
}

func (d draft) result(r db.RecordPurchasesRow) result[recordResult] {
	switch outcome := recordOutcome(r.Outcome); outcome {
	case outcomeContended:
		return result[recordResult]{err: errContended}
	case outcomeRecorded:
		return result[recordResult]{out: recordResult{outcome, d.row(r)}}
	default:
		return result[recordResult]{out: recordResult{outcome: outcome}}
	}
}

// row is the draft as it was recorded.
func (d draft) row(r db.RecordPurchasesRow) row {
	return row{
		ID: d.id, AccountID: d.submission.AccountID, IdempotencyKey: d.submission.IdempotencyKey,
		Fingerprint: d.fingerprint, Status: string(Pending), Version: 1, Symbol: d.order.Symbol,
		Quantity: d.order.Quantity, LimitPrice: d.order.LimitPrice, Notional: d.order.Notional,
		Currency: d.order.Currency, Hold: d.hold, ValidUntil: r.ValidUntil, Metadata: d.submission.Metadata,
		Broker: d.via.name, BrokerAccount: d.request.Account, BrokerKey: d.request.Key, BrokerRequest: d.request.Body,
		RequestHash: d.hash[:], CreatedAt: r.RecordedAt, UpdatedAt: r.RecordedAt,
	}
}

func recordParams(drafts []draft, lockTimeout time.Duration) db.RecordPurchasesParams {
	p := db.RecordPurchasesParams{LockTimeout: milliseconds(lockTimeout)}
	for _, d := range drafts {
		p.Ids = append(p.Ids, d.id)
		p.AccountIds = append(p.AccountIds, d.submission.AccountID)
		p.IdempotencyKeys = append(p.IdempotencyKeys, d.submission.IdempotencyKey)
		p.Fingerprints = append(p.Fingerprints, d.fingerprint)
		p.Symbols = append(p.Symbols, d.order.Symbol)
		p.Quantities = append(p.Quantities, optional(d.order.Quantity))
		p.LimitPrices = append(p.LimitPrices, optional(d.order.LimitPrice))
		p.Notionals = append(p.Notionals, optional(d.order.Notional))
		p.Currencies = append(p.Currencies, d.order.Currency)
		p.Holds = append(p.Holds, money.Format(d.hold))
		p.ValidUntils = append(p.ValidUntils, instant(d.submission.ValidUntil))
		p.Ttls = append(p.Ttls, d.ttl.Seconds())
		p.Metadata = append(p.Metadata, d.submission.Metadata)
		p.Routes = append(p.Routes, d.terms.Broker)
		p.RouteAccounts = append(p.RouteAccounts, d.terms.BrokerAccount)
		p.Brokers = append(p.Brokers, d.via.name)
		p.BrokerAccounts = append(p.BrokerAccounts, d.request.Account)
		p.BrokerKeys = append(p.BrokerKeys, d.request.Key)
		p.BrokerRequests = append(p.BrokerRequests, d.request.Body)
		p.RequestHashes = append(p.RequestHashes, d.hash[:])
		p.SendWithins = append(p.SendWithins, d.via.placeWindow().Seconds())
	}
	return p
}

// milliseconds writes a timeout as Postgres reads it.
func milliseconds(d time.Duration) string { return fmt.Sprintf("%dms", d.Milliseconds()) }

// instant writes a time as one string, whatever its zone; a missing one is empty.
func instant(t *time.Time) string {
	if t == nil {
		return ""
	}
	return t.UTC().Format(time.RFC3339Nano)
}

// repeatOr returns the purchase that the key belongs to, or refusal if there is none.
func (s *Service) repeatOr(ctx context.Context, d draft, refusal error) (Result, error) {
	ctx, cancel := context.WithTimeout(ctx, recordTimeout)
	defer cancel()
	first, err := db.New(s.pool).PurchaseByKey(ctx, d.submission.AccountID, d.submission.IdempotencyKey)
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
