package api

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/go-json-experiment/json"
	"github.com/go-json-experiment/json/jsontext"
)

// slug names a kind of problem; a problem's type ends in it.
type slug string

const (
	invalidRequest         slug = "invalid-request"
	idempotencyKeyRequired slug = "idempotency-key-required"
	idempotencyKeyInvalid  slug = "idempotency-key-invalid"
	idempotencyKeyReused   slug = "idempotency-key-reused"
	insufficientFunds      slug = "insufficient-funds"
	unauthorized           slug = "unauthorized"
	forbidden              slug = "forbidden"
	notFound               slug = "not-found"
	accountNotFound        slug = "account-not-found"
	methodNotAllowed       slug = "method-not-allowed"
	accountExists          slug = "account-exists"
	alreadySettled         slug = "already-settled"
	notResolvable          slug = "not-resolvable"
	inProgress             slug = "in-progress"
	notReconcilable        slug = "not-reconcilable"
	orderIDTaken           slug = "order-id-taken"
	tooLarge               slug = "too-large"
	unsupportedMediaType   slug = "unsupported-media-type"
	rateLimited            slug = "rate-limited"
	internalError          slug = "internal-error"
	unavailable            slug = "unavailable"
	fateUnknown            slug = "fate-unknown"
)

// kind is what all problems of one slug have in common.
type kind struct {
	status int
	title  string
}

// kinds is the one table of what can go wrong. /docs shows it.
var kinds = map[slug]kind{
	invalidRequest:         {http.StatusBadRequest, "The request is not valid"},
	idempotencyKeyRequired: {http.StatusBadRequest, "An Idempotency-Key header is required"},
	idempotencyKeyInvalid:  {http.StatusBadRequest, "The Idempotency-Key header is not valid"},
	insufficientFunds:      {http.StatusBadRequest, "The account has not enough available"},
	unauthorized:           {http.StatusUnauthorized, "Valid credentials are required"},
	forbidden:              {http.StatusForbidden, "This is not allowed"},
	notFound:               {http.StatusNotFound, "There is no such thing"},
	accountNotFound:        {http.StatusNotFound, "There is no such account"},
	methodNotAllowed:       {http.StatusMethodNotAllowed, "This method is not allowed here"},
	accountExists:          {http.StatusConflict, "The account exists already"},
	alreadySettled:         {http.StatusConflict, "The purchase is settled already"},
	notResolvable:          {http.StatusConflict, "The purchase cannot be resolved now"},
	inProgress:             {http.StatusConflict, "A pass is in progress for the purchase"},
	notReconcilable:        {http.StatusConflict, "The purchase cannot be reconciled now"},
	orderIDTaken:           {http.StatusConflict, "The order id belongs to another purchase"},
	tooLarge:               {http.StatusRequestEntityTooLarge, "The request is too large"},
	unsupportedMediaType:   {http.StatusUnsupportedMediaType, "The request must be application/json"},
	idempotencyKeyReused:   {http.StatusUnprocessableEntity, "The Idempotency-Key was used for something else"},
	rateLimited:            {http.StatusTooManyRequests, "Too many requests with this API key"},
	internalError:          {http.StatusInternalServerError, "Something went wrong here"},
	unavailable:            {http.StatusServiceUnavailable, "Not available at the moment"},
	fateUnknown:            {http.StatusGatewayTimeout, "It is unknown whether the purchase was recorded"},
}

// problemPath is where a problem's type leads: each has its paragraph in the docs.
const problemPath = "/docs/problems/"

// problem is an answer that says what is wrong (RFC 9457). It is never a broker's.
type problem struct {
	slug   slug
	detail string
	fields []fieldError
	// retryAfter of zero leaves the header out.
	retryAfter time.Duration
	// cause is logged and never shown.
	cause error
}

// fieldError names one thing at fault: a field of the body, a parameter or a header.
type fieldError struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (p *problem) Error() string {
	if p.cause != nil {
		return fmt.Sprintf("%s: %s: %v", p.slug, p.detail, p.cause)
	}
	return fmt.Sprintf("%s: %s", p.slug, p.detail)
}

func (p *problem) Unwrap() error { return p.cause }

func because(s slug, detail string) *problem { return &problem{slug: s, detail: detail} }

// invalid is a request with fields at fault.
func invalid(fields ...fieldError) *problem {
	p := &problem{slug: invalidRequest, fields: fields, detail: "1 thing is wrong with the request"}
	if n := len(fields); n != 1 {
		p.detail = fmt.Sprintf("%d things are wrong with the request", n)
	}
	if len(fields) == 1 {
		p.detail = fields[0].Location + " " + fields[0].Message
	}
	return p
}

// document is a problem on the wire.
type document struct {
	Type   string       `json:"type"`
	Title  string       `json:"title"`
	Status int          `json:"status"`
	Detail string       `json:"detail"`
	Errors []fieldError `json:"errors,omitempty"`
}

// refuse answers with the problem that err is. It is the only writer of problems.
func refuse(w http.ResponseWriter, r *http.Request, err error) {
	p := problemOf(err)
	k := kinds[p.slug]
	logProblem(r.Context(), p, k.status)
	header := w.Header()
	header.Set("Content-Type", "application/problem+json")
	header.Set("Cache-Control", "no-store")
	if p.retryAfter > 0 {
		header.Set("Retry-After", seconds(p.retryAfter))
	}
	if k.status == http.StatusUnauthorized {
		header.Set("WWW-Authenticate", `Bearer realm="holdfast"`)
	}
	body, err := json.Marshal(document{
		Type: problemPath + string(p.slug), Title: k.title, Status: k.status, Detail: p.detail, Errors: p.fields,
	}, jsontext.AllowInvalidUTF8(true))
	if err != nil { // the status says enough; a writer of problems must not become one
		logger(r.Context()).LogAttrs(r.Context(), slog.LevelError, "problem not written", slog.Any("error", err))
	}
	w.WriteHeader(k.status)
	w.Write(body)
}

// logProblem logs what an operator must act on; the access log tells the rest.
func logProblem(ctx context.Context, p *problem, status int) {
	switch {
	case p.cause == nil || errors.Is(p.cause, context.Canceled):
	case status == http.StatusInternalServerError:
		logger(ctx).LogAttrs(ctx, slog.LevelError, "request failed", slog.Any("error", p.cause))
	default:
		logger(ctx).LogAttrs(ctx, slog.LevelWarn, "request refused",
			slog.String("problem", string(p.slug)), slog.Any("error", p.cause))
	}
}

// seconds writes a Retry-After: whole seconds, rounded up, at least one.
func seconds(d time.Duration) string {
	return strconv.FormatInt(max(1, int64(math.Ceil(d.Seconds()))), 10)
}
