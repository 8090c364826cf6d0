package api

import (
	"context"
	"net/http"
	"time"

	"github.com/go-chi/chi/v5"

	"holdfast/auth"
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
