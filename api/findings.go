package api

import (
	"net/http"
	"net/url"
	"slices"

	"github.com/go-chi/chi/v5"

	"holdfast/auth"
	"holdfast/statement"
)

// findingJSON is a finding on the wire: the order of its fields is the documented one.
type findingJSON struct {
	ID         string         `json:"id"`
	Kind       statement.Kind `json:"kind"`
	Broker     string         `json:"broker"`
	PurchaseID *string        `json:"purchase_id"`
	OrderID    *string        `json:"order_id"`
	Detail     string         `json:"detail"`
	CreatedAt  string         `json:"created_at"`
	ClosedAt   *string        `json:"closed_at"`
	Note       *string        `json:"note"`
}

func representFinding(f statement.Finding) findingJSON {
	shown := findingJSON{
		ID: f.ID.String(), Kind: f.Kind, Broker: f.Broker, OrderID: f.OrderID, Detail: f.Detail,
		CreatedAt: stamp(f.CreatedAt), ClosedAt: stampOrNil(f.ClosedAt), Note: f.Note,
	}
	if f.PurchaseID != nil {
		id := f.PurchaseID.String()
		shown.PurchaseID = &id
	}
	return shown
}

type findingsJSON struct {
	Data       []findingJSON `json:"data"`
	NextCursor *string       `json:"next_cursor"`
}

func (a *api) listFindings(w http.ResponseWriter, r *http.Request) error {
	params, err := findingParams(r)
	if err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	page := params.Limit
	params.Limit++ // one more reports whether there is a next page
	found, err := a.findings.List(ctx, params)
	if err != nil {
		return err
	}
	list := findingsJSON{Data: make([]findingJSON, 0, len(found))}
	for _, f := range found[:min(page, len(found))] {
		list.Data = append(list.Data, representFinding(f))
	}
	if len(found) > page {
		next := cursorAfter(found[page-1].ID)
		list.NextCursor = &next
	}
	return answer(w, http.StatusOK, list)
}

func findingParams(r *http.Request) (statement.ListParams, error) {
	query, err := url.ParseQuery(r.URL.RawQuery)
	if err != nil {
		return statement.ListParams{}, invalid(fieldError{"query", "is not well formed"})
	}
	q := &queryReader{values: query}
	q.takes("status", "kind", "limit", "cursor")
	params := statement.ListParams{Limit: q.limit(), Before: q.cursor(), Open: q.open(), Kind: q.kind()}
	if len(q.faults) > 0 {
		return params, invalid(q.faults...)
	}
	return params, nil
}

// open reads the status of findings; nil selects both.
func (q *queryReader) open() *bool {
	s := q.one("status")
	if s == "" {
		return nil
	}
	if s != "open" && s != "closed" {
		q.faults = append(q.faults, fieldError{"status", "must be open or closed"})
	}
	open := s == "open"
	return &open
}

func (q *queryReader) kind() *statement.Kind {
	kind := statement.Kind(q.one("kind"))
	if kind == "" {
		return nil
	}
	if !slices.Contains(statement.Kinds(), kind) {
		q.faults = append(q.faults, fieldError{"kind", "must be unknown_order, second_order, rejected_but_ordered, " +
			"completed_but_missing, quantity_differs or cost_differs"})
	}
	return &kind
}

func (a *api) closeFinding(w http.ResponseWriter, r *http.Request) error {
	id, ok := purchaseID(chi.URLParam(r, "id"))
	if !ok {
		return statement.ErrNotFound
	}
	b, err := decode(r)
	if err != nil {
		return err
	}
	note := b.text("note", true, maxNote)
	if err := b.problem(); err != nil {
		return err
	}
	ctx, cancel := databaseContext(r)
	defer cancel()
	closed, err := a.findings.Close(ctx, id, note, auth.From(r.Context()).Actor())
	if err != nil {
		return err
	}
	return answer(w, http.StatusOK, representFinding(closed))
}
