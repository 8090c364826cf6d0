package client

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// The statuses of a purchase.
const (
	StatusPending      = "PENDING"
	StatusCompleted    = "COMPLETED"
	StatusRejected     = "REJECTED"
	StatusUnknown      = "UNKNOWN"
	StatusManualReview = "MANUAL_REVIEW"
)

// The outcomes: what may be concluded from a status.
const (
	OutcomeCompleted = "completed"
	OutcomeRejected  = "rejected"
	// OutcomePending: nobody may say that the stock was bought, nor that it was not.
	OutcomePending = "pending_reconciliation"
)

// Purchase is one buy order.
type Purchase struct {
	ID             string          `json:"id"`
	AccountID      string          `json:"account_id"`
	Status         string          `json:"status"`
	Outcome        string          `json:"outcome"`
	Symbol         string          `json:"symbol"`
	Side           string          `json:"side"`
	Quantity       *string         `json:"quantity"`
	LimitPrice     *string         `json:"limit_price"`
	Notional       *string         `json:"notional"`
	Currency       string          `json:"currency"`
	Reserved       string          `json:"reserved"`
	Cost           *string         `json:"cost"`
	FilledQuantity *string         `json:"filled_quantity"`
	Reason         *string         `json:"reason"`
	Evidence       *string         `json:"evidence"`
	Attempts       int             `json:"attempts"`
	AttemptsLimit  int             `json:"attempts_limit"`
	NextRetry      *time.Time      `json:"next_retry"`
	Version        int             `json:"version"`
	BrokerResponse *BrokerResponse `json:"broker_response"`
	// Broker is the name of the broker that the purchase was placed with.
	Broker string `json:"broker"`
	// BrokerKey is the key under which that broker knows it; only operators see it.
	BrokerKey string `json:"broker_key,omitempty"`
	// Certainty is settled, working, uncertain or review.
	Certainty string `json:"certainty"`
	// ResolveBy is when it will be final or in review at the latest; nil if it is.
	ResolveBy *time.Time `json:"resolve_by"`
	// ValidUntil is the time after which nothing more is sent for it; nil if there is none.
	ValidUntil *time.Time      `json:"valid_until"`
	Metadata   json.RawMessage `json:"metadata"`
	CreatedAt  time.Time       `json:"created_at"`
	UpdatedAt  time.Time       `json:"updated_at"`
	SettledAt  *time.Time      `json:"settled_at"`
}

// Final reports whether nothing will change any more.
func (p Purchase) Final() bool { return p.Outcome == OutcomeCompleted || p.Outcome == OutcomeRejected }

// BrokerResponse is what the broker answered.
type BrokerResponse struct {
	StatusCode int             `json:"status_code"`
	OrderID    *string         `json:"order_id"`
	Body       json.RawMessage `json:"body"`
	Truncated  bool            `json:"truncated,omitempty"`
}

// Order is what to buy: Quantity at LimitPrice, or for Notional in their place.
type Order struct {
	// IdempotencyKey makes a repeat the same purchase; 1 to 255 visible ASCII characters.
	IdempotencyKey string `json:"-"`
	AccountID      string `json:"account_id"`
	Symbol         string `json:"symbol"`
	Quantity       string `json:"quantity,omitempty"`
	LimitPrice     string `json:"limit_price,omitempty"`
	Notional       string `json:"notional,omitempty"`
	// Currency is the account's where it is empty.
	Currency string `json:"currency,omitempty"`
	// ValidUntil is the time after which nothing more is sent for the purchase; nil leaves
	// it to the server's default. A repeated request must give the same time.
	ValidUntil *time.Time      `json:"valid_until,omitempty"`
	Metadata   json.RawMessage `json:"metadata,omitempty"`
}

// Answer to an order.
type Answer struct {
	Purchase
	// Code is the HTTP status: 202 for an uncertain outcome, the broker's own where it
	// rejected.
	Code int
	// Replayed: the key was used before, and this is how that purchase stands now.
	Replayed bool
	// RetryAfter is when to ask again, of an uncertain one.
	RetryAfter time.Duration
}

// Buy places an order. An error that is no [*Problem] says nothing about the purchase:
// repeat it with the same key.
func (c *Client) Buy(ctx context.Context, order Order) (Answer, error) {
	var a Answer
	got, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/purchases", body: order,
		header: map[string]string{"Idempotency-Key": order.IdempotencyKey},
	}, &a.Purchase)
	if err != nil {
		return Answer{}, fmt.Errorf("buy: %w", err)
	}
	a.Code, a.Replayed = got.status, got.header.Get("Idempotent-Replayed") == "true"
	if seconds, err := strconv.Atoi(got.header.Get("Retry-After")); err == nil {
		a.RetryAfter = time.Duration(seconds) * time.Second
	}
	return a, nil
}

// Purchase returns one purchase as it is now.
func (c *Client) Purchase(ctx context.Context, id string) (Purchase, error) {
	return c.get(ctx, id, nil)
}

// MaxWait is the longest that the server holds one answer.
const MaxWait = 30 * time.Second

// Wait returns a purchase once it is final, or as it is after d (in whole seconds, up to
// [MaxWait]).
func (c *Client) Wait(ctx context.Context, id string, d time.Duration) (Purchase, error) {
	seconds := strconv.Itoa(int(min(d, MaxWait).Seconds()))
	return c.get(ctx, id, map[string]string{"Prefer": "wait=" + seconds})
}

func (c *Client) get(ctx context.Context, id string, header map[string]string) (Purchase, error) {
	var p Purchase
	_, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/purchases/" + url.PathEscape(id), header: header}, &p)
	if err != nil {
		return Purchase{}, fmt.Errorf("get purchase: %w", err)
	}
	return p, nil
}

// ListParams chooses purchases; all are optional.
type ListParams struct {
	AccountID string
	Status    string
	// Limit is 1 to 500; 0 means 50.
	Limit int
	// Cursor is a page's NextCursor.
	Cursor string
}

// Page of purchases, newest first.
type Page struct {
	Data       []Purchase `json:"data"`
	NextCursor *string    `json:"next_cursor"`
}

// List returns one page.
func (c *Client) List(ctx context.Context, p ListParams) (Page, error) {
	query := values("account_id", p.AccountID, "status", p.Status, "cursor", p.Cursor)
	if p.Limit != 0 {
		query.Set("limit", strconv.Itoa(p.Limit))
	}
	var page Page
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/purchases", query: query}, &page); err != nil {
		return Page{}, fmt.Errorf("list purchases: %w", err)
	}
	return page, nil
}

// Entry is one line of a purchase's history; which fields are set depends on Kind.
type Entry struct {
	At time.Time `json:"at"`
	// Kind is "status", "attempt" or "note".
	Kind string `json:"kind"`

	Status  string  `json:"status,omitempty"`
	Version int     `json:"version,omitempty"`
	Reason  *string `json:"reason,omitempty"`
	Actor   string  `json:"actor,omitempty"`

	Call       string  `json:"call,omitempty"`
	Result     *string `json:"result,omitempty"`
	StatusCode *int    `json:"status_code,omitempty"`
	DurationMS *int64  `json:"duration_ms,omitempty"`

	Code   string `json:"code,omitempty"`
	Detail string `json:"detail,omitempty"`
}

// History returns all that has happened to a purchase, in order.
func (c *Client) History(ctx context.Context, id string) ([]Entry, error) {
	var list struct {
		Data []Entry `json:"data"`
	}
	path := "/v1/purchases/" + url.PathEscape(id) + "/history"
	if _, err := c.do(ctx, call{method: http.MethodGet, path: path}, &list); err != nil {
		return nil, fmt.Errorf("get history: %w", err)
	}
	return list.Data, nil
}

// Account is an account's balances; deposited = available + reserved + spent.
type Account struct {
	ID        string `json:"id"`
	Currency  string `json:"currency"`
	Available string `json:"available"`
	Reserved  string `json:"reserved"`
	Spent     string `json:"spent"`
	Deposited string `json:"deposited"`
	// Broker and BrokerAccount are as in [NewAccount].
	Broker        string `json:"broker"`
	BrokerAccount string `json:"broker_account"`
}

// Account returns an account's balances.
func (c *Client) Account(ctx context.Context, id string) (Account, error) {
	var a Account
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/accounts/" + url.PathEscape(id)}, &a); err != nil {
		return Account{}, fmt.Errorf("get account: %w", err)
	}
	return a, nil
}
