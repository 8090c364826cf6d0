package console

import (
	"context"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/auth"
	"holdfast/broker"
	"holdfast/purchase"
)

const (
	// queryTimeout bounds what one page asks of the database.
	queryTimeout = 10 * time.Second
	// shortList is how many purchases the overview shows of each kind, pageSize how many
	// a list does.
	shortList = 20
	pageSize  = 100
)

func (c *console) home(w http.ResponseWriter, r *http.Request) {
	http.Redirect(w, r, homePath, http.StatusSeeOther)
}

type overviewView struct {
	view
	Summary   purchase.Summary
	Statuses  []purchase.Status
	Unsettled []held
	InReview  []held
	Findings  int64
	Broker    broker.State
	Switches  []switchState
	Review    []purchase.Purchase
	Unknown   []purchase.Purchase
}

type held struct {
	Amount   decimal.Decimal
	Currency string
}

type switchState struct {
	Name, What string
	Paused     bool
}

func (c *console) overview(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	v := overviewView{view: c.view(ctx), Statuses: purchase.Statuses(), Broker: c.Purchases.Brokers().WorstState()}
	if word := r.URL.Query().Get("said"); word == "switched" {
		v.Message = said[word]
	}
	if err := c.fill(ctx, &v); err != nil {
		c.fail(w, r, err)
		return
	}
	render(w, http.StatusOK, "overview", v)
}

func (c *console) fill(ctx context.Context, v *overviewView) (err error) {
	if v.Summary, err = c.Purchases.Summary(ctx); err != nil {
		return err
	}
	for currency, amount := range v.Summary.ReservedUnknown {
		v.Unsettled = append(v.Unsettled, held{amount, currency})
	}
	slices.SortFunc(v.Unsettled, func(a, b held) int { return strings.Compare(a.Currency, b.Currency) })
	if v.InReview, err = c.heldInReview(ctx); err != nil {
		return err
	}
	paused, err := c.Switches.All(ctx)
	if err != nil {
		return err
	}
	v.Switches = []switchState{
		{"intake", "New purchases", paused.Of("intake", "")}, {"passes", "Workers' passes", paused.Of("passes", "")},
	}
	if v.Review, err = c.newest(ctx, purchase.ManualReview); err != nil {
		return err
	}
	if v.Findings, err = c.findings.CountOpen(ctx); err != nil {
		return err
	}
	v.Unknown, err = c.newest(ctx, purchase.Unknown)
	return err
}

func (c *console) heldInReview(ctx context.Context) ([]held, error) {
	rows, err := c.queries.ReservedInReview(ctx)
	if err != nil {
		return nil, fmt.Errorf("read what is held in review: %w", err)
	}
	sums := make([]held, len(rows))
	for i, r := range rows {
		sums[i] = held{r.Reserved, r.Currency}
	}
	return sums, nil
}

func (c *console) newest(ctx context.Context, status purchase.Status) ([]purchase.Purchase, error) {
	return c.Purchases.List(ctx, purchase.ListParams{Status: &status, Limit: shortList})
}

func (c *console) setSwitch(w http.ResponseWriter, r *http.Request) {
	name, paused := r.PathValue("name"), r.PostFormValue("paused")
	if (name != "intake" && name != "passes") || (paused != "true" && paused != "false") {
		c.nothing(w, r)
		return
	}
	note := strings.TrimSpace(r.PostFormValue("note"))
	if trouble := noteTrouble(note); trouble != "" {
		c.message(w, r, http.StatusBadRequest, "Not switched", trouble)
		return
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), queryTimeout)
	defer cancel()
	if err := c.Switches.Set(ctx, name, paused == "true", note, auth.From(ctx).Actor()); err != nil {
		c.fail(w, r, err)
		return
	}
	http.Redirect(w, r, homePath+"?said=switched", http.StatusSeeOther)
}

type listView struct {
	view
	Status    string
	Account   string
	Statuses  []purchase.Status
	Purchases []purchase.Purchase
	Next      string
}

func (c *console) list(w http.ResponseWriter, r *http.Request) {
	query := r.URL.Query()
	if id, err := uuid.Parse(strings.TrimSpace(query.Get("id"))); err == nil {
		http.Redirect(w, r, purchasePath(id), http.StatusSeeOther) //nolint:gosec // A path of ours and a parsed id.
		return
	}
	ctx, cancel := context.WithTimeout(r.Context(), queryTimeout)
	defer cancel()
	v := listView{
		view: c.view(ctx), Status: query.Get("status"), Account: strings.TrimSpace(query.Get("account_id")),
		Statuses: purchase.Statuses(),
	}
	if query.Get("id") != "" {
		v.Trouble = "That is no purchase's id."
	}
	if v.Status != "" && !purchase.Status(v.Status).Valid() {
		v.Trouble = "There is no such status; purchases of every status are shown."
	}
	found, err := c.Purchases.List(ctx, listParams(v, query.Get("before")))
	if err != nil {
		c.fail(w, r, err)
		return
	}
	v.Purchases = found[:min(pageSize, len(found))]
	if len(found) > pageSize {
		v.Next = found[pageSize-1].ID.String()
	}
	render(w, http.StatusOK, "list", v)
}

// listParams ignores what is no filter: a person sees what the form then says.
func listParams(v listView, before string) purchase.ListParams {
	params := purchase.ListParams{Limit: pageSize + 1}
	if status := purchase.Status(v.Status); status.Valid() {
		params.Status = &status
	}
	if v.Account != "" {
		clean := strings.ToValidUTF8(strings.ReplaceAll(v.Account, "\x00", ""), "")
		params.AccountID = &clean
	}
	if id, err := uuid.Parse(before); err == nil {
		params.Before = &id
	}
	return params
}
