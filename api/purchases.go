package api

import (
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"

	"holdfast/account"
	"holdfast/auth"
	"holdfast/purchase"
)

const (
	defaultPage = 50
	maxPage     = 500
)

func (a *api) getPurchase(w http.ResponseWriter, r *http.Request) error {
	p, err := a.visiblePurchase(r)
	if err != nil {
		return err
	}
	a.Purchases.ExpediteDue(r.Context(), p)
	if wait := preferredWait(r); wait > 0 && !p.Status.Final() {
		if p, err = a.waitFinal(r, p, wait); err != nil {
			return err
		}
		w.Header().Set("Preference-Applied", "wait")
	}
	return a.answerTagged(w, r, p)
}

// visiblePurchase returns the purchase of the path, if the caller may see it. An id that
// is none, an unknown one and another account's are the same to a client.
func (a *api) visiblePurchase(r *http.Request) (purchase.Purchase, error) {
	id, ok := purchaseID(chi.URLParam(r, "id"))
	if !ok {
		return purchase.Purchase{}, purchase.ErrNotFound
	}
	return a.readVisible(r, id)
}

func (a *api) readVisible(r *http.Request, id uuid.UUID) (purchase.Purchase, error) {
	ctx, cancel := databaseContext(r)
	defer cancel()
	p, err := a.Purchases.Get(ctx, id)
	if err == nil && !auth.From(r.Context()).May(p.AccountID) {
		err = purchase.ErrNotFound
	}
	return p, err
}

// purchaseID reads an id in its one form; the library would take braces and URNs too.
func purchaseID(s string) (uuid.UUID, bool) {
	if len(s) != len(uuid.Nil.String()) {
		return uuid.UUID{}, false
	}
	id, err := uuid.Parse(s)
	return id, err == nil
}

type pageJSON struct {
	Data       []purchaseJSON `json:"data"`
	NextCursor *string        `json:"next_cursor"`
}

func (a *api) listPurchases(w http.ResponseWriter, r *http.Request) error {
	params, err := a.listParams(r)
	if err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	page := params.Limit
	params.Limit++ // one more reports whether there is a next page
	found, err := a.Purchases.List(ctx, params)
	if err != nil {
		return err
	}
	list := pageJSON{Data: make([]purchaseJSON, 0, len(found))}
	for _, p := range found[:min(page, len(found))] {
		list.Data = append(list.Data, a.representInList(p, auth.From(r.Context())))
	}
	if len(found) > page {
		next := cursorAfter(found[page-1].ID)
		list.NextCursor = &next
	}
	return answer(w, http.StatusOK, list)
}

func (a *api) listParams(r *http.Request) (purchase.ListParams, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return purchase.ListParams{}, invalid(fieldError{"query", "is not well formed"})
	}
	q := &queryReader{values: query}
	q.takes("account_id", "status", "limit", "cursor")
	params := purchase.ListParams{Limit: q.limit(), Status: q.status(), Before: q.cursor()}
	accountID := q.one("account_id")
	if len(q.faults) > 0 {
		return params, invalid(q.faults...)
	}
	params.AccountID, err = a.visibleAccount(r, accountID)
	return params, err
}

// visibleAccount narrows a client to its own account. Another's, or one that is none,
// is not found, for an operator too. None asked for is every one that the caller may see.
func (a *api) visibleAccount(r *http.Request, asked string) (*string, error) {
	p := auth.From(r.Context())
	if asked == "" {
		if p.Operator() {
			return nil, nil
		}
		return &p.AccountID, nil
	}
	if !account.ValidID(asked) || !p.May(asked) {
		return nil, account.ErrNotFound
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	_, err := a.Accounts.Currency(ctx, asked)
	return &asked, err
}

// queryReader reads parameters and collects what is wrong with them. An empty filter or
// cursor is as one not given, which is what a client writes that has none; an empty limit
// is a slip that would make a longer page than was meant.
type queryReader struct {
	values url.Values
	faults []fieldError
}

// takes refuses every other name: a misspelt filter would be none.
func (q *queryReader) takes(names ...string) {
	for _, name := range slices.Sorted(maps.Keys(q.values)) {
		if !slices.Contains(names, name) && len(q.faults) < maxErrors {
			q.faults = append(q.faults, fieldError{shorten(name), "is not a parameter of this route; it takes " + strings.Join(names, ", ")})
		}
	}
}

func (q *queryReader) one(name string) string {
	given := q.values[name]
	if len(given) > 1 {
		q.faults = append(q.faults, fieldError{name, "must be given once"})
	}
	return q.values.Get(name)
}

func (q *queryReader) limit() int {
	s := q.one("limit")
	if !q.values.Has("limit") {
		return defaultPage
	}
	n, err := strconv.Atoi(s)
	if err != nil || n < 1 || n > maxPage || s[0] == '+' {
		q.faults = append(q.faults, fieldError{"limit", "must be a number from 1 to 500"})
	}
	return n
}

func (q *queryReader) status() *purchase.Status {
	s := purchase.Status(q.one("status"))
	if s == "" {
		return nil
	}
	if !s.Valid() {
		q.faults = append(q.faults, fieldError{"status", "must be PENDING, COMPLETED, REJECTED, UNKNOWN or MANUAL_REVIEW"})
	}
	return &s
}

// cursor is the id of the last purchase of the page before, in an opaque coat.
func (q *queryReader) cursor() *uuid.UUID {
	s := q.one("cursor")
	if s == "" {
		return nil
	}
	id, err := readCursor(s)
	if err != nil {
		q.faults = append(q.faults, fieldError{"cursor", "must be the next_cursor of a page before"})
	}
	return &id
}

func cursorAfter(id uuid.UUID) string { return base64.RawURLEncoding.EncodeToString(id[:]) }

var errCursor = errors.New("not a cursor")

func readCursor(s string) (uuid.UUID, error) {
	raw, err := base64.RawURLEncoding.Strict().DecodeString(s)
	if err != nil || len(raw) != len(uuid.Nil) {
		return uuid.UUID{}, errCursor
	}
	return uuid.UUID(raw), nil
}

func (a *api) getHistory(w http.ResponseWriter, r *http.Request) error {
	p, err := a.visiblePurchase(r)
	if err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	entries, err := a.Purchases.History(ctx, p.ID)
	if err != nil {
		return err
	}
	data := make([]any, len(entries))
	for i, e := range entries {
		data[i] = representEntry(e)
	}
	return answer(w, http.StatusOK, map[string]any{"data": data})
}
