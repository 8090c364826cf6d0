package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/shopspring/decimal"

	"holdfast/auth"
	"holdfast/internal/money"
	"holdfast/purchase"
)

const (
	maxNote    = 2000
	maxOrderID = 128
	costDigits = 12
)

// said is what a page may be asked to say after a redirect: only these words.
var said = map[string]string{
	"finding-closed": "The finding is closed; the same discrepancy is not reported again.",
	"resolved":       "Resolved. Your word and your note stand in the history.",
	"reconciled":     "The purchase is due now. Reload in a moment.",
	"switched":       "Switched. Every process follows within five seconds.",
}

func purchasePath(id uuid.UUID) string { return "/console/purchases/" + id.String() }

type purchaseView struct {
	view
	Purchase      purchase.Purchase
	AttemptsLimit int
	History       []purchase.Entry
	// JobID is the newest River job, zero where there is none.
	JobID                    int64
	Resolvable, Reconcilable bool
	// ByOperator: an operator's word ended it.
	ByOperator bool
	Form       resolutionForm
}

type resolutionForm struct {
	Outcome, Note, OrderID, Cost string
}

func (c *console) show(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		c.nothing(w, r)
		return
	}
	c.showPurchase(w, r, id, http.StatusOK, "", resolutionForm{})
}

func (c *console) showPurchase(w http.ResponseWriter, r *http.Request, id uuid.UUID, status int, trouble string, form resolutionForm) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
	defer cancel()
	v, err := c.purchaseView(ctx, id)
	if errors.Is(err, purchase.ErrNotFound) {
		c.nothing(w, r)
		return
	}
	if err != nil {
		c.fail(w, r, err)
		return
	}
	v.Trouble, v.Form = trouble, form
	if word := r.URL.Query().Get("said"); trouble == "" && v.bearsOut(word) {
		v.Message = said[word]
	}
	render(w, status, "purchase", v)
}

// bearsOut reports whether what a link asks the page to say is so.
func (v purchaseView) bearsOut(word string) bool {
	switch word {
	case "resolved":
		return v.ByOperator
	case "reconciled":
		return v.Purchase.Status == purchase.Unknown && slices.ContainsFunc(v.History, func(e purchase.Entry) bool {
			return e.Code == purchase.ReasonReconcileRequested ||
				e.Reason != nil && *e.Reason == purchase.ReasonReconcileRequested
		})
	}
	return false
}

func (c *console) purchaseView(ctx context.Context, id uuid.UUID) (purchaseView, error) {
	v := purchaseView{view: c.view(ctx)}
	var err error
	if v.Purchase, err = c.Purchases.Get(ctx, id); err != nil {
		return v, err
	}
	v.AttemptsLimit = c.Purchases.AttemptsLimit(v.Purchase)
	if v.History, err = c.Purchases.History(ctx, id); err != nil {
		return v, err
	}
	v.JobID, err = c.queries.JobOfPurchase(ctx, id.String())
	if err != nil && !errors.Is(err, pgx.ErrNoRows) {
		return v, fmt.Errorf("find job: %w", err)
	}
	open := v.Purchase.Status == purchase.Unknown || v.Purchase.Status == purchase.ManualReview
	v.Resolvable, v.Reconcilable = open, open
	v.ByOperator = v.Purchase.Evidence != nil && *v.Purchase.Evidence == purchase.ByOperator
	return v, nil
}

func (c *console) resolve(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		c.nothing(w, r)
		return
	}
	form := resolutionForm{
		Outcome: r.PostFormValue("outcome"), Note: strings.TrimSpace(r.PostFormValue("note")),
		OrderID: strings.TrimSpace(r.PostFormValue("order_id")), Cost: strings.TrimSpace(r.PostFormValue("cost")),
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
	defer cancel()
	resolution, trouble, err := c.readResolution(ctx, id, form)
	if err == nil && trouble == "" {
		_, err = c.Purchases.Resolve(ctx, resolution)
	}
	c.afterward(w, r, id, err, trouble, form, "resolved")
}

func (c *console) readResolution(ctx context.Context, id uuid.UUID, form resolutionForm) (purchase.Resolution, string, error) {
	p, err := c.Purchases.Get(ctx, id)
	if err != nil {
		return purchase.Resolution{}, "", err
	}
	resolution := purchase.Resolution{
		ID: id, Outcome: purchase.Outcome(form.Outcome), Note: form.Note, OrderID: form.OrderID, Actor: auth.From(ctx).Actor(),
	}
	var trouble string
	resolution.Cost, trouble = readCost(form, p.Order.Currency)
	if trouble == "" {
		trouble = formTrouble(form)
	}
	return resolution, trouble, nil
}

func formTrouble(form resolutionForm) string {
	switch {
	case form.Outcome != string(purchase.OutcomeCompleted) && form.Outcome != string(purchase.OutcomeRejected):
		return "Choose an outcome."
	case form.Note == "":
		return "Say in the note how you know."
	case form.Outcome == string(purchase.OutcomeRejected) && form.Cost != "":
		return "A rejected purchase has no cost."
	case len(form.OrderID) > maxOrderID || strings.ContainsFunc(form.OrderID, func(r rune) bool { return r <= ' ' || r > '~' }):
		return "The order id must be up to 128 visible characters."
	}
	return noteTrouble(form.Note)
}

func noteTrouble(note string) string {
	switch {
	case utf8.RuneCountInString(note) > maxNote:
		return fmt.Sprintf("The note must have at most %d characters.", maxNote)
	case !utf8.ValidString(note) || strings.ContainsRune(note, 0):
		return "The note must be plain text."
	}
	return ""
}

func readCost(form resolutionForm, currency string) (decimal.NullDecimal, string) {
	if form.Cost == "" {
		return decimal.NullDecimal{}, ""
	}
	decimals, _ := money.CurrencyDecimals(currency)
	cost, err := money.Parse(form.Cost, costDigits, int(decimals))
	if err != nil {
		return decimal.NullDecimal{}, "The cost " + err.Error() + "."
	}
	return decimal.NewNullDecimal(cost), ""
}

func (c *console) reconcile(w http.ResponseWriter, r *http.Request) {
	id, err := uuid.Parse(r.PathValue("id"))
	if err != nil {
		c.nothing(w, r)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
	defer cancel()
	_, err = c.Purchases.Reconcile(ctx, id, auth.From(ctx).Actor())
	c.afterward(w, r, id, err, "", resolutionForm{}, "reconciled")
}

// afterward shows the purchase again: by a redirect where all is done, so that a reload
// repeats nothing, else with what is wrong and the form as it was filled in.
func (c *console) afterward(w http.ResponseWriter, r *http.Request, id uuid.UUID, err error, trouble string, form resolutionForm, done string) {
	status := http.StatusBadRequest
	if known := troubleOf(err); known != "" {
		status, trouble, err = http.StatusConflict, known, nil
	}
	switch {
	case errors.Is(err, purchase.ErrNotFound):
		c.nothing(w, r)
	case err != nil:
		c.fail(w, r, err)
	case trouble != "":
		c.showPurchase(w, r, id, status, trouble, form)
	default:
		http.Redirect(w, r, purchasePath(id)+"?said="+done, http.StatusSeeOther)
	}
}

func troubleOf(err error) string {
	var busy *purchase.InProgressError
	switch {
	case errors.As(err, &busy):
		return "The purchase cannot be resolved now: " + PassInProgress + ". Try again in a few seconds."
	case errors.Is(err, purchase.ErrAlreadySettled):
		return "The purchase is settled already; what is below is final."
	case errors.Is(err, purchase.ErrNotResolvable):
		return "The purchase is PENDING: " + StillPending + "."
	case errors.Is(err, purchase.ErrNotReconcilable):
		return "This purchase cannot be reconciled: " + NotOpen + "."
	case errors.Is(err, purchase.ErrOrderIDTaken):
		return "This order id belongs to another purchase."
	}
	return ""
}
