package sandbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"github.com/shopspring/decimal"

	"holdfast/internal/money"
)

// maxRequest bounds a request's body; an order has some hundred bytes.
const maxRequest = 64 << 10

// request is a place request.
type request struct {
	ClientOrderID string  `json:"client_order_id"`
	Account       string  `json:"account"`
	Symbol        string  `json:"symbol"`
	Side          string  `json:"side"`
	Quantity      *string `json:"quantity"`
	LimitPrice    *string `json:"limit_price"`
	Notional      *string `json:"notional"`
	Currency      string  `json:"currency"`
}

// readRequest reads a place request; its error is the broker's message.
func readRequest(r *http.Request) (request, error) {
	body, err := io.ReadAll(http.MaxBytesReader(nil, r.Body, maxRequest))
	if err != nil {
		return request{}, errors.New("the body cannot be read")
	}
	var read request
	if err := json.Unmarshal(body, &read); err != nil {
		return request{}, errors.New("the body is no order")
	}
	if read.ClientOrderID == "" || read.ClientOrderID != r.Header.Get("Idempotency-Key") {
		return request{}, errors.New("Idempotency-Key and client_order_id must be there and equal")
	}
	return read, read.check()
}

func (r request) check() error {
	if r.Symbol == "" || r.Side != "buy" {
		return errors.New("symbol must be there and side must be buy")
	}
	byQuantity := r.Quantity != nil && r.LimitPrice != nil && r.Notional == nil
	byNotional := r.Quantity == nil && r.LimitPrice == nil && r.Notional != nil
	if !byQuantity && !byNotional {
		return errors.New("quantity and limit_price, or notional, must be there")
	}
	for _, amount := range []*string{r.Quantity, r.LimitPrice, r.Notional} {
		if amount == nil {
			continue
		}
		if d, err := money.Parse(*amount, 15, 12); err != nil || !d.IsPositive() {
			return errors.New("amounts must be plain decimals above zero")
		}
	}
	return nil
}

// price is what the order costs at its limit, rounded up to the currency's unit.
func (r request) price() decimal.Decimal {
	if r.Notional != nil {
		return decimal.RequireFromString(*r.Notional)
	}
	quantity, limit := decimal.RequireFromString(*r.Quantity), decimal.RequireFromString(*r.LimitPrice)
	return r.round(quantity.Mul(limit))
}

func (r request) round(amount decimal.Decimal) decimal.Decimal {
	decimals, _ := money.CurrencyDecimals(r.Currency)
	return amount.RoundUp(decimals)
}

// place answers POST /v1/orders.
func (s *Sandbox) place(w http.ResponseWriter, r *http.Request) {
	read, err := readRequest(r)
	if err != nil {
		refuse(w, http.StatusBadRequest, "invalid_request", err.Error())
		return
	}
	act, view, err := s.placed(read)
	if err != nil {
		s.log.Error("keep sandbox order", "broker_key", read.ClientOrderID, "error", err)
		refuse(w, http.StatusInternalServerError, "ledger_failed", "the order could not be kept")
		return
	}
	s.log.Debug("sandbox place", "broker_key", read.ClientOrderID, "symbol", read.Symbol, "booked", view != nil, "fault", act.Fault, "status", act.Status)
	s.respond(w, r, act, plain(view, http.StatusCreated))
}

// placed counts the call, books the order if it is to be booked, and returns the answer.
func (s *Sandbox) placed(read request) (Response, *View, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.places++
	rec := s.record(read)
	rec.Places++
	act := s.placeAct(rec, read)
	if rec.Order == nil && act.books() {
		rec.book(read)
	}
	if act.Status >= 400 && s.mode.StoreErrors && rec.Stored == nil {
		rec.Stored = &act
	}
	return act, rec.viewAfter(act), s.file.append(rec)
}

func (s *Sandbox) record(read request) *record {
	rec := s.records[read.ClientOrderID]
	if rec == nil {
		rec = &record{Key: read.ClientOrderID, Request: read}
		s.records[read.ClientOrderID] = rec
	}
	return rec
}

// placeAct chooses the answer: an outage before all, then what the control API wants,
// then the broker's own order of things: another order under a known key, a stored
// error, an order that exists, and last the symbol's magic.
func (s *Sandbox) placeAct(rec *record, read request) Response {
	if act, down := s.mode.outage(); down {
		return act
	}
	if act, ok := s.scripted("place"); ok {
		return act
	}
	switch {
	case !rec.Request.same(read):
		return answer(http.StatusUnprocessableEntity, "duplicate_key_other_order", "the key was used for another order")
	case s.mode.ValidateFirst:
		return answer(http.StatusUnprocessableEntity, "market_closed", "checked before looking for the key")
	case rec.Stored != nil:
		return *rec.Stored
	case rec.Order != nil && rec.Order.behindGateway():
		return gateway()
	case rec.Order != nil:
		return Response{}
	}
	return scenarioOf(read.Symbol).act(rec.Places)
}

// lookup answers GET /v1/orders/by-client-order-id/{key}.
func (s *Sandbox) lookup(w http.ResponseWriter, r *http.Request) {
	key := r.PathValue("key")
	act, view := s.lookedUp(key)
	s.log.Debug("sandbox lookup", "broker_key", key, "found", view != nil, "fault", act.Fault)
	s.respond(w, r, act, found(key, view))
}

// found is the answer to a lookup if no act says otherwise.
func found(key string, v *View) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if v == nil {
			writeJSON(w, http.StatusNotFound, map[string]string{
				"code": "order_not_found", "client_order_id": key, "message": "no order under this key",
			})
			return
		}
		writeView(w, http.StatusOK, v)
	}
}

func (s *Sandbox) lookedUp(key string) (Response, *View) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.lookups++
	rec := s.records[key]
	if rec != nil {
		rec.Lookups++
	}
	if act, down := s.mode.outage(); down {
		return act, nil
	}
	act, ok := s.scripted("lookup")
	if rec == nil || rec.Order == nil {
		return s.mode.lookup(act, ok), nil
	}
	visible := rec.Order.visible(s.mode)
	switch {
	case !ok && rec.Order.behindGateway():
		return gateway(), nil
	case !visible:
		return s.mode.lookup(act, ok), nil
	}
	return s.mode.lookup(act, ok), s.mode.respond(rec.view())
}

// plain is the answer to a place if no act says otherwise.
func plain(v *View, status int) func(http.ResponseWriter) {
	return func(w http.ResponseWriter) {
		if v == nil {
			refuse(w, http.StatusInternalServerError, "not_booked", "nothing was booked under this key")
			return
		}
		writeView(w, status, v)
	}
}

func refuse(w http.ResponseWriter, status int, code, message string) {
	writeJSON(w, status, map[string]string{"code": code, "message": message})
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	writeBody(w, status, "application/json", encode(body))
}

// encode writes what the sandbox itself made, which can always be encoded.
func encode(body any) string {
	encoded, err := json.Marshal(body)
	if err != nil {
		return fmt.Sprintf("encode answer: %v", err)
	}
	return string(encoded) + "\n"
}

func writeBody(w http.ResponseWriter, status int, kind, body string) {
	if w.Header().Get("Content-Type") == "" {
		w.Header().Set("Content-Type", kind)
	}
	w.WriteHeader(status)
	_, _ = io.WriteString(w, body)
}

func (r request) same(other request) bool {
	return r.flat() == other.flat()
}

func (r request) flat() string {
	fields := []string{r.Account, r.Symbol, r.Side, r.Currency}
	for _, amount := range []*string{r.Quantity, r.LimitPrice, r.Notional} {
		if amount == nil {
			fields = append(fields, "-")
			continue
		}
		fields = append(fields, *amount)
	}
	return strings.Join(fields, "\x00")
}
