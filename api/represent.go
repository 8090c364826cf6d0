package api

import (
	"fmt"
	"net/http"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/auth"
	"holdfast/internal/money"
	"holdfast/purchase"
)

// purchaseJSON is a purchase on the wire: the order of its fields is the documented one.
type purchaseJSON struct {
	ID             string             `json:"id"`
	AccountID      string             `json:"account_id"`
	Status         purchase.Status    `json:"status"`
	Outcome        purchase.Outcome   `json:"outcome"`
	Symbol         string             `json:"symbol"`
	Side           string             `json:"side"`
	Quantity       *string            `json:"quantity"`
	LimitPrice     *string            `json:"limit_price"`
	Notional       *string            `json:"notional"`
	Currency       string             `json:"currency"`
	Reserved       string             `json:"reserved"`
	Cost           *string            `json:"cost"`
	FilledQuantity *string            `json:"filled_quantity"`
	Reason         *string            `json:"reason"`
	Evidence       *purchase.Evidence `json:"evidence"`
	Attempts       int                `json:"attempts"`
	AttemptsLimit  int                `json:"attempts_limit"`
	NextRetry      *string            `json:"next_retry"`
	Version        int                `json:"version"`
	BrokerResponse *responseJSON      `json:"broker_response"`
	Broker         string             `json:"broker"`
	// BrokerKey is for operators, who ask the broker about it.
	BrokerKey  string             `json:"broker_key,omitzero"`
	Certainty  purchase.Certainty `json:"certainty"`
	ResolveBy  *string            `json:"resolve_by"`
	ValidUntil *string            `json:"valid_until"`
	Metadata   jsontext.Value     `json:"metadata"`
	CreatedAt  string             `json:"created_at"`
	UpdatedAt  string             `json:"updated_at"`
	SettledAt  *string            `json:"settled_at"`
}

type responseJSON struct {
	StatusCode int     `json:"status_code"`
	OrderID    *string `json:"order_id"`
	// Body is left out of lists, and of what a client may not see.
	Body      jsontext.Value `json:"body,omitzero"`
	Truncated bool           `json:"truncated,omitzero"`
}

// represent writes a purchase for who asks.
func (a *api) represent(p purchase.Purchase, who auth.Principal) purchaseJSON {
	written := a.representInList(p, who)
	if written.BrokerResponse != nil && showsBody(p.Response, who) {
		written.BrokerResponse.Body, written.BrokerResponse.Truncated = brokerBody(p.Response), p.Response.Truncated
	}
	return written
}

// showsBody: what the broker says about our own credentials is for operators only.
func showsBody(r *purchase.Response, who auth.Principal) bool {
	return !aboutCredentials(r.StatusCode) || who.Operator()
}

// aboutCredentials: a 401 or 407 of the broker concerns our credentials there.
func aboutCredentials(status int) bool {
	return status == http.StatusUnauthorized || status == http.StatusProxyAuthRequired
}

// representInList leaves the body of the broker's answer out.
func (a *api) representInList(p purchase.Purchase, who auth.Principal) purchaseJSON {
	written := a.representForAll(p)
	if who.Operator() {
		written.BrokerKey = p.BrokerKey
	}
	return written
}

// representForAll is what everyone who may see a purchase sees of it.
func (a *api) representForAll(p purchase.Purchase) purchaseJSON {
	return purchaseJSON{
		ID: p.ID.String(), AccountID: p.AccountID, Status: p.Status, Outcome: p.Status.Outcome(),
		Symbol: p.Order.Symbol, Side: "buy",
		Quantity: asWritten(p.Order.Quantity), LimitPrice: asWritten(p.Order.LimitPrice), Notional: asWritten(p.Order.Notional),
		Currency: p.Order.Currency, Reserved: money.FormatCurrency(p.Reserved(), p.Order.Currency),
		Cost: inCurrency(p.Cost, p.Order.Currency), FilledQuantity: asWritten(p.FilledQuantity),
		Reason: p.Reason, Evidence: p.Evidence,
		Attempts: p.Attempts, AttemptsLimit: a.Purchases.AttemptsLimit(p), NextRetry: stampOrNil(p.NextRetry),
		Version: p.Version, BrokerResponse: representResponse(p.Response),
		Broker: p.Broker, Certainty: p.Certainty(), ResolveBy: stampOrNil(a.Purchases.ResolveBy(p)),
		ValidUntil: stampOrNil(p.ValidUntil), Metadata: jsontext.Value(p.Metadata),
		CreatedAt: stamp(p.CreatedAt), UpdatedAt: stamp(p.UpdatedAt), SettledAt: stampOrNil(p.SettledAt),
	}
}

func representResponse(r *purchase.Response) *responseJSON {
	if r == nil {
		return nil
	}
	return &responseJSON{StatusCode: r.StatusCode, OrderID: r.OrderID}
}

// brokerBody is the JSON that the broker sent, or its text as a JSON string where it is
// none or was cut.
func brokerBody(r *purchase.Response) jsontext.Value {
	raw := jsontext.Value(r.Body)
	if !r.Truncated && raw.IsValid(jsontext.AllowDuplicateNames(true)) {
		return raw
	}
	quoted, err := jsontext.AppendQuote(nil, r.Body)
	if err != nil {
		// The text is not UTF-8 after all; what can be quoted is.
		quoted, _ = jsontext.AppendQuote(nil, fmt.Sprintf("%q", r.Body))
	}
	return quoted
}

// asWritten keeps the scale that the client, or the broker, gave a decimal.
func asWritten(d decimal.NullDecimal) *string {
	if !d.Valid {
		return nil
	}
	s := money.Format(d.Decimal)
	return &s
}

func inCurrency(d decimal.NullDecimal, currency string) *string {
	if !d.Valid {
		return nil
	}
	s := money.FormatCurrency(d.Decimal, currency)
	return &s
}

// stamp writes a time as RFC 3339 in UTC, with the microseconds that the database keeps.
func stamp(t time.Time) string { return t.UTC().Format("2006-01-02T15:04:05.000000Z07:00") }

func stampOrNil(t *time.Time) *string {
	if t == nil {
		return nil
	}
	s := stamp(*t)
	return &s
}

type accountJSON struct {
	ID        string `json:"id"`
	Currency  string `json:"currency"`
	Available string `json:"available"`
	Reserved  string `json:"reserved"`
	Spent     string `json:"spent"`
	Deposited string `json:"deposited"`
	// Broker and BrokerAccount are absent unless they were set.
	Broker        string `json:"broker,omitempty"`
	BrokerAccount string `json:"broker_account,omitempty"`
}

func representAccount(acc account.Account) accountJSON {
	money := func(d decimal.Decimal) string { return money.FormatCurrency(d, acc.Currency) }
	return accountJSON{
		ID: acc.ID, Currency: acc.Currency, Available: money(acc.Available), Reserved: money(acc.Reserved),
		Spent: money(acc.Spent), Deposited: money(acc.Deposited),
		Broker: acc.Broker, BrokerAccount: acc.BrokerAccount,
	}
}

// encode writes JSON. A broker's body may have a name twice and is repeated as it is.
func encode(v any) ([]byte, error) {
	body, err := json.Marshal(v, jsontext.AllowDuplicateNames(true), jsontext.PreserveRawStrings(true))
	if err != nil {
		return nil, fmt.Errorf("encode answer: %w", err)
	}
	return body, nil
}

func answer(w http.ResponseWriter, status int, v any) error {
	body, err := encode(v)
	if err != nil {
		return err
	}
	answerBytes(w, status, body)
	return nil
}

func answerBytes(w http.ResponseWriter, status int, body []byte) {
	h := w.Header()
	h.Set("Content-Type", "application/json")
	if h.Get("Cache-Control") == "" {
		h.Set("Cache-Control", "no-store")
	}
	w.WriteHeader(status)
	w.Write(body) //nolint:gosec // JSON, as application/json and nosniff.
}
