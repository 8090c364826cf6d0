package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/shopspring/decimal"

	"holdfast/auth"
	"holdfast/internal/money"
	"holdfast/purchase"
)

// bulkTimeout bounds a bulk reconciliation, which goes in batches.
const bulkTimeout = time.Minute

const maxOrderID = 128

func (a *api) resolve(w http.ResponseWriter, r *http.Request) error {
	p, err := a.visiblePurchase(r)
	if err != nil {
		return err
	}
	b, err := decode(r)
	if err != nil {
		return err
	}
	resolution := purchase.Resolution{
		ID:      p.ID,
		Outcome: purchase.Outcome(b.oneOf("outcome", string(purchase.OutcomeCompleted), string(purchase.OutcomeRejected))),
		Note:    b.text("note", true, maxNote), OrderID: b.orderID("order_id"),
		Cost:  b.amount("cost", currencyDecimals(p.Order.Currency), true),
		Actor: auth.From(r.Context()).Actor(),
	}
	if resolution.Outcome == purchase.OutcomeRejected && b.has("cost") {
		b.fault("cost", "must not stand beside the outcome rejected")
	}
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	resolved, err := a.Purchases.Resolve(ctx, resolution)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, a.represent(resolved, auth.From(r.Context())))
}

func (a *api) reconcile(w http.ResponseWriter, r *http.Request) error {
	id, ok := purchaseID(chi.URLParam(r, "id"))
	if !ok {
		return purchase.ErrNotFound
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	p, err := a.Purchases.Reconcile(ctx, id, auth.From(r.Context()).Actor())
	if err != nil {
		return err
	}
	w.Header().Set("Location", location(p))
	w.Header().Set("Retry-After", seconds(a.Purchases.RetryIn(p)))
	return answer(w, http.StatusAccepted, a.represent(p, auth.From(r.Context())))
}

type bulkJSON struct {
	Count     int      `json:"count"`
	DryRun    bool     `json:"dry_run"`
	Purchases []string `json:"purchases"`
}

func (a *api) reconcileMany(w http.ResponseWriter, r *http.Request) error {
	bulk, err := readBulk(r)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), bulkTimeout)
	defer cancel()
	if bulk.AccountID != nil {
		if _, err := a.Accounts.Currency(ctx, *bulk.AccountID); err != nil {
			return err
		}
	}
	bulk.Actor = auth.From(r.Context()).Actor()
	ids, err := a.Purchases.ReconcileMany(ctx, bulk)
	if err != nil {
		return err
	}
	touched := bulkJSON{Count: len(ids), DryRun: bulk.DryRun, Purchases: make([]string, len(ids))}
	for i, id := range ids {
		touched.Purchases[i] = id.String()
	}
	return answer(w, http.StatusOK, touched)
}

func readBulk(r *http.Request) (purchase.BulkReconciliation, error) {
	b, err := decode(r)
	if err != nil {
		return purchase.BulkReconciliation{}, err
	}
	bulk := purchase.BulkReconciliation{
		Status:    purchase.Status(b.oneOf("status", string(purchase.ManualReview), string(purchase.Unknown))),
		OlderThan: b.duration("older_than"), DryRun: b.truth("dry_run", false),
	}
	if id := b.accountID("account_id", false); b.has("account_id") {
		bulk.AccountID = &id
	}
	if reason := b.text("reason", false, maxNote); b.has("reason") {
		bulk.Reason = &reason
	}
	return bulk, b.problem()
}

type switchJSON struct {
	Name   string `json:"name"`
	Paused bool   `json:"paused"`
	Note   string `json:"note"`
}

func (a *api) setSwitch(w http.ResponseWriter, r *http.Request) error {
	name := chi.URLParam(r, "name")
	if name != "intake" && name != "passes" {
		return because(notFound, "there is no such switch")
	}
	b, err := decode(r)
	if err != nil {
		return err
	}
	set := switchJSON{Name: name, Paused: b.truth("paused", true), Note: b.text("note", false, maxNote)}
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	if err := a.Switches.Set(ctx, set.Name, set.Paused, set.Note, auth.From(r.Context()).Actor()); err != nil {
		return err
	}
	return answer(w, http.StatusOK, set)
}

type summaryJSON struct {
	Counts          map[purchase.Status]int64 `json:"counts"`
	OldestDueRetry  float64                   `json:"oldest_due_retry_seconds"`
	OldestUnknown   float64                   `json:"oldest_unknown_seconds"`
	ReservedUnknown map[string]string         `json:"reserved_unknown"`
	Passes          int64                     `json:"passes_total"`
	ManualReviews   int64                     `json:"manual_reviews_total"`
	Broker          map[string]string         `json:"broker"`
	Switches        map[string]string         `json:"switches"`
	Queues          map[string]string         `json:"queues"`
}

func (a *api) summary(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := databaseContext(r)
	defer cancel()
	s, err := a.Purchases.Summary(ctx)
	if err != nil {
		return err
	}
	paused, err := a.Switches.All(ctx)
	if err != nil {
		return err
	}
	queues, err := a.Queues(ctx)
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, summaryJSON{
		Counts: s.Counts, OldestDueRetry: wholeMillis(s.OldestDueRetry), OldestUnknown: wholeMillis(s.OldestUnknown),
		ReservedUnknown: byCurrency(s.ReservedUnknown), Passes: s.PassesTotal, ManualReviews: s.ManualReviewsTotal,
		Broker: map[string]string{"state": string(a.Gate.State())}, Switches: states(paused, "off"),
		Queues: states(queues, "paused"),
	})
}

func wholeMillis(d time.Duration) float64 { return d.Round(time.Millisecond).Seconds() }

func byCurrency(sums map[string]decimal.Decimal) map[string]string {
	written := make(map[string]string, len(sums))
	for currency, sum := range sums {
		written[currency] = money.FormatCurrency(sum, currency)
	}
	return written
}

// states names what runs "on", and what is paused as given.
func states(paused map[string]bool, off string) map[string]string {
	named := make(map[string]string, len(paused))
	for name, isPaused := range paused {
		named[name] = "on"
		if isPaused {
			named[name] = off
		}
	}
	return named
}

type ticketJSON struct {
	Ticket    string `json:"ticket"`
	ExpiresAt string `json:"expires_at"`
}

func (a *api) issueTicket(w http.ResponseWriter, r *http.Request) error {
	ctx, cancel := databaseContext(r)
	defer cancel()
	ticket, expiresAt, err := a.Keys.IssueTicket(ctx, auth.From(r.Context()))
	if err != nil {
		return err
	}
	return answer(w, http.StatusCreated, ticketJSON{ticket, stamp(expiresAt)})
}
