package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"
)

// Resolution is an operator's word on a purchase that nothing else can settle.
type Resolution struct {
	// Outcome is [OutcomeCompleted] or [OutcomeRejected].
	Outcome string `json:"outcome"`
	Note    string `json:"note"`
	OrderID string `json:"order_id,omitempty"`
	// Cost of a completed one; empty for what is reserved.
	Cost string `json:"cost,omitempty"`
}

// Resolve settles a purchase by an operator's word.
func (c *Client) Resolve(ctx context.Context, id string, r Resolution) (Purchase, error) {
	var p Purchase
	path := "/v1/purchases/" + url.PathEscape(id) + "/resolution"
	if _, err := c.do(ctx, call{method: http.MethodPost, path: path, body: r}, &p); err != nil {
		return Purchase{}, fmt.Errorf("resolve: %w", err)
	}
	return p, nil
}

// Reconcile makes a purchase due now, or sends one in review back to the workers.
func (c *Client) Reconcile(ctx context.Context, id string) (Purchase, error) {
	var p Purchase
	path := "/v1/purchases/" + url.PathEscape(id) + "/reconciliation"
	if _, err := c.do(ctx, call{method: http.MethodPost, path: path}, &p); err != nil {
		return Purchase{}, fmt.Errorf("reconcile: %w", err)
	}
	return p, nil
}

// Reconciliation chooses many purchases to reconcile.
type Reconciliation struct {
	// Status is [StatusManualReview] or [StatusUnknown].
	Status    string `json:"status"`
	AccountID string `json:"account_id,omitempty"`
	Reason    string `json:"reason,omitempty"`
	// OlderThan is a Go duration, such as "30m".
	OlderThan string `json:"older_than,omitempty"`
	DryRun    bool   `json:"dry_run,omitempty"`
}

// ReconcileMany does as [Client.Reconcile] to each chosen, and returns how many that were.
func (c *Client) ReconcileMany(ctx context.Context, r Reconciliation) (int, error) {
	var done struct {
		Count int `json:"count"`
	}
	if _, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/reconciliations", body: r}, &done); err != nil {
		return 0, fmt.Errorf("reconcile many: %w", err)
	}
	return done.Count, nil
}

// Switch is something that operators can pause.
type Switch struct {
	// Name is "intake" or "passes".
	Name   string `json:"-"`
	Paused bool   `json:"paused"`
	Note   string `json:"note"`
	// Broker is the name of one; empty for all.
	Broker string `json:"broker,omitempty"`
}

// SetSwitch pauses new purchases or the workers' passes in every process, or resumes them.
func (c *Client) SetSwitch(ctx context.Context, s Switch) error {
	var ignored any
	if _, err := c.do(ctx, call{method: http.MethodPut, path: "/v1/switches/" + url.PathEscape(s.Name), body: s}, &ignored); err != nil {
		return fmt.Errorf("set switch: %w", err)
	}
	return nil
}

// Summary is what an operator looks at first.
type Summary struct {
	Counts                map[string]int64  `json:"counts"`
	OldestDueRetrySeconds float64           `json:"oldest_due_retry_seconds"`
	OldestUnknownSeconds  float64           `json:"oldest_unknown_seconds"`
	ReservedUnknown       map[string]string `json:"reserved_unknown"`
	PassesTotal           int64             `json:"passes_total"`
	ManualReviewsTotal    int64             `json:"manual_reviews_total"`
	Broker                struct {
		State string `json:"state"`
	} `json:"broker"`
	Switches map[string]string `json:"switches"`
	// Queues are "on" or "paused".
	Queues map[string]string `json:"queues"`
	// Brokers are those with open purchases, and the one that the process serves.
	Brokers map[string]BrokerSummary `json:"brokers"`
}

// BrokerSummary is how things stand with one broker.
type BrokerSummary struct {
	// State is nil for a broker that the process does not serve.
	State           *string           `json:"state"`
	Intake          string            `json:"intake"`
	Passes          string            `json:"passes"`
	Unknown         int64             `json:"unknown"`
	Working         int64             `json:"working"`
	ReservedUnknown map[string]string `json:"reserved_unknown"`
}

// Summary returns how things stand.
func (c *Client) Summary(ctx context.Context) (Summary, error) {
	var s Summary
	if _, err := c.do(ctx, call{method: http.MethodGet, path: "/v1/summary"}, &s); err != nil {
		return Summary{}, fmt.Errorf("get summary: %w", err)
	}
	return s, nil
}

// NewAccount is an account to be created.
type NewAccount struct {
	ID       string `json:"id"`
	Currency string `json:"currency"`
	// Available is the opening balance; empty for none.
	Available string `json:"available,omitempty"`
	// Broker takes its purchases; empty for the default one. BrokerAccount is its name
	// there; empty if that is its id.
	Broker        string `json:"broker,omitempty"`
	BrokerAccount string `json:"broker_account,omitempty"`
}

// CreateAccount creates an account.
func (c *Client) CreateAccount(ctx context.Context, n NewAccount) (Account, error) {
	var a Account
	if _, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/accounts", body: n}, &a); err != nil {
		return Account{}, fmt.Errorf("create account: %w", err)
	}
	return a, nil
}

// AccountChange is what to change of an account; nil leaves a field as it is.
type AccountChange struct {
	// Broker and BrokerAccount are as in [NewAccount].
	Broker        *string `json:"broker,omitempty"`
	BrokerAccount *string `json:"broker_account,omitempty"`
}

// UpdateAccount changes which broker takes an account's purchases. Open purchases keep
// theirs.
func (c *Client) UpdateAccount(ctx context.Context, id string, change AccountChange) (Account, error) {
	var a Account
	path := "/v1/accounts/" + url.PathEscape(id)
	if _, err := c.do(ctx, call{method: http.MethodPatch, path: path, body: change}, &a); err != nil {
		return Account{}, fmt.Errorf("update account: %w", err)
	}
	return a, nil
}

// Deposit is money that comes into an account.
type Deposit struct {
	// IdempotencyKey makes a repeat the same deposit.
	IdempotencyKey string `json:"-"`
	AccountID      string `json:"-"`
	Amount         string `json:"amount"`
	Note           string `json:"note,omitempty"`
}

// Deposit adds to an account, once a key.
func (c *Client) Deposit(ctx context.Context, d Deposit) (Account, error) {
	var a Account
	_, err := c.do(ctx, call{
		method: http.MethodPost, path: "/v1/accounts/" + url.PathEscape(d.AccountID) + "/deposits", body: d,
		header: map[string]string{"Idempotency-Key": d.IdempotencyKey},
	}, &a)
	if err != nil {
		return Account{}, fmt.Errorf("deposit: %w", err)
	}
	return a, nil
}

// StreamTicket stands in for a key in a browser's EventSource: one use, one minute.
type StreamTicket struct {
	Ticket    string    `json:"ticket"`
	ExpiresAt time.Time `json:"expires_at"`
}

// StreamTicket makes one that may see what this client's key may see.
func (c *Client) StreamTicket(ctx context.Context) (StreamTicket, error) {
	var t StreamTicket
	if _, err := c.do(ctx, call{method: http.MethodPost, path: "/v1/stream-tickets"}, &t); err != nil {
		return StreamTicket{}, fmt.Errorf("make stream ticket: %w", err)
	}
	return t, nil
}
