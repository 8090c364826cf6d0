package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// Finding is one discrepancy between a broker's order list and the purchases.
type Finding struct {
	ID string `json:"id"`
	// Kind is "unknown_order", "second_order", "rejected_but_ordered",
	// "completed_but_missing", "quantity_differs" or "cost_differs".
	Kind   string `json:"kind"`
	Broker string `json:"broker"`
	// PurchaseID is nil for an order that no purchase accounts for, OrderID if the list has
	// no order.
	PurchaseID *string   `json:"purchase_id"`
	OrderID    *string   `json:"order_id"`
	Detail     string    `json:"detail"`
	CreatedAt  time.Time `json:"created_at"`
	// ClosedAt and Note are nil while the finding is open.
	ClosedAt *time.Time `json:"closed_at"`
	Note     *string    `json:"note"`
}

// FindingListParams selects findings; empty fields select all.
type FindingListParams struct {
	// Status is "open" or "closed".
	Status string
	Kind   string
	// Limit is 1 to 500; 0 means 50.
	Limit  int
	Cursor string
}

// FindingPage is one page of findings, newest first.
type FindingPage struct {
	Data       []Finding `json:"data"`
	NextCursor *string   `json:"next_cursor"`
}

// Findings returns a page of findings.
func (c *Client) Findings(ctx context.Context, p FindingListParams) (FindingPage, error) {
	query := values("status", p.Status, "kind", p.Kind, "cursor", p.Cursor)
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	var page FindingPage
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/findings", query: query}, &page); err != nil {
		return FindingPage{}, fmt.Errorf("list findings: %w", err)
	}
	return page, nil
}

// CloseFinding closes a finding. One that is closed already is returned as it is.
func (c *Client) CloseFinding(ctx context.Context, id, note string) (Finding, error) {
	body := struct {
		Note string `json:"note"`
	}{note}
	var f Finding
	path := "/v1/findings/" + url.PathEscape(id) + "/closing"
	if _, err := c.do(ctx, call{method: http.MethodPost, path: path, body: body}, &f); err != nil {
		return Finding{}, fmt.Errorf("close finding: %w", err)
	}
	return f, nil
}
