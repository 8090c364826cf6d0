package api

import (
	"net/http"
	"time"

	"holdfast/auth"
	"holdfast/purchase"
)

// The decimals that a client may give, as written.
const (
	quantityDecimals = 9
	priceDecimals    = 6
)

func (a *api) submit(w http.ResponseWriter, r *http.Request) error {
	key, err := idempotencyKey(r)
	if err != nil {
		return err
	}
	submission, err := readSubmission(r)
	if err != nil {
		return err
	}
	submission.IdempotencyKey = key
	if !auth.From(r.Context()).May(submission.AccountID) {
		return purchase.ErrAccountNotFound
	}
	if a.stopping() {
		return &problem{slug: unavailable, detail: "this process is shutting down", retryAfter: time.Second}
	}
	result, err := a.Purchases.Submit(r.Context(), submission)
	if err != nil {
		return err
	}
	return a.answerSubmission(w, result, auth.From(r.Context()))
}

func readSubmission(r *http.Request) (purchase.Submission, error) {
	b, err := decode(r)
	if err != nil {
		return purchase.Submission{}, err
	}
	s := purchase.Submission{
		AccountID:  b.accountID("account_id", true),
		Symbol:     b.symbol("symbol"),
		Quantity:   b.amount("quantity", quantityDecimals, false),
		LimitPrice: b.amount("limit_price", priceDecimals, false),
		Notional:   b.amount("notional", maxCurrencyDecimals, false),
		Currency:   b.currency("currency", false),
		ValidUntil: b.instant("valid_until"),
		Metadata:   b.object("metadata", maxMetadata),
	}
	b.checkSize()
	return s, b.problem()
}

// checkSize asks for quantity and limit_price, or notional in place of both.
func (b *body) checkSize() {
	for _, field := range []string{"quantity", "limit_price"} {
		switch {
		case b.has("notional") && b.has(field):
			b.fault(field, "cannot be combined with notional")
		case !b.has("notional") && !b.has(field):
			b.fault(field, "is required, unless notional is given instead of quantity and limit_price")
		}
	}
}

// maxIdempotencyKey is what the contract allows.
const maxIdempotencyKey = 255

// idempotencyKey reads the one header, 1 to 255 visible ASCII characters.
func idempotencyKey(r *http.Request) (string, error) {
	given := r.Header.Values("Idempotency-Key")
	if len(given) == 0 {
		return "", because(idempotencyKeyRequired, "send one Idempotency-Key header, and the same one in every repeat")
	}
	if len(given) > 1 || !visible(given[0]) || len(given[0]) > maxIdempotencyKey {
		p := because(idempotencyKeyInvalid, "Idempotency-Key must be one header of 1 to 255 visible ASCII characters")
		p.fields = []fieldError{{"Idempotency-Key", "must be one header of 1 to 255 visible ASCII characters"}}
		return "", p
	}
	return given[0], nil
}

func visible(s string) bool {
	for i := range len(s) {
		if s[i] <= ' ' || s[i] > '~' {
			return false
		}
	}
	return s != ""
}

// answerSubmission answers a first call and a repeat alike: from the purchase.
func (a *api) answerSubmission(w http.ResponseWriter, result purchase.Result, who auth.Principal) error {
	p := result.Purchase
	h := w.Header()
	h.Set("Location", location(p))
	if result.Repeated {
		h.Set("Idempotent-Replayed", "true")
	}
	if !p.Status.Final() {
		h.Set("Retry-After", seconds(a.Purchases.RetryIn(p)))
	}
	return answer(w, submissionStatus(p), a.represent(p, who))
}

func location(p purchase.Purchase) string { return "/v1/purchases/" + p.ID.String() }

// submissionStatus is the broker's own status where the first call's answer ended the
// purchase and the status may be passed on.
func submissionStatus(p purchase.Purchase) int {
	switch p.Status {
	case purchase.Completed:
		if code := replied(p); code == http.StatusCreated {
			return code
		}
		return http.StatusOK
	case purchase.Rejected:
		return rejectedStatus(replied(p))
	case purchase.Pending, purchase.Unknown, purchase.ManualReview:
		return http.StatusAccepted
	}
	panic("no such status: " + p.Status)
}

// rejectedStatus: a 401 or 407 of the broker's speaks of our credentials and would make
// the client doubt its own; a 2xx that says rejected must not look like a success.
func rejectedStatus(code int) int {
	if code >= 400 && code <= 499 && !aboutCredentials(code) {
		return code
	}
	return http.StatusUnprocessableEntity
}

// replied is the status code of the first call's answer where that ended the purchase.
func replied(p purchase.Purchase) int {
	if p.Evidence == nil || *p.Evidence != purchase.ByReply || p.Response == nil {
		return 0
	}
	return p.Response.StatusCode
}
