package api

import (
	"context"
	"log/slog"
	"net/http"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/account"
	"holdfast/auth"
	"holdfast/outbox"
	"holdfast/purchase"
	"holdfast/statement"
)

// Params is what the API needs of the other rooms. What is marked optional may be nil.
type Params struct {
	Purchases *purchase.Service
	Accounts  *account.Store
	Switches  *purchase.Switches
	Keys      *auth.Store
	// Queues reports which queues of the workers are paused.
	Queues func(ctx context.Context) (map[string]bool, error)
	Pool   *pgxpool.Pool

	// Streams serves GET /v1/events; who asks stands in the request's context. Optional.
	Streams http.Handler
	// Hub tells a waiting GET of changes. Optional: it then looks for itself.
	Hub *outbox.Hub
	// River is River's own page, which knows nothing of who looks. Optional.
	River http.Handler
	// Metrics serves GET /metrics, unless they have an address of their own. Optional.
	Metrics http.Handler
	// Observer counts requests. Optional.
	Observer Observer
	// Draining is closed when a shutdown has been requested: readiness goes, and everything
	// else is served as before until ShuttingDown is closed.
	Draining <-chan struct{}
	// ShuttingDown is closed when the shutdown begins: readiness goes, new purchases are
	// refused, what waits is answered. Optional.
	ShuttingDown <-chan struct{}

	// Events verifies the signatures of broker events. Optional: they need none without it.
	Events *EventVerifier

	Limits Limits
	Log    *slog.Logger
}

// Observer is told of each request once it is answered. route is the pattern, never the
// path, so that the number of different values is bounded.
type Observer interface {
	HTTPRequest(route, method string, code int, d time.Duration)
}

// Limits bounds what the API takes on; a zero value means the default.
type Limits struct {
	// InFlight is how many requests, streams aside, are handled at once (1024): well
	// above what the database can work on together, so that who comes later is refused
	// while an answer is still cheap.
	InFlight int
	// Waiting is how many requests may wait for a purchase to end (4096).
	Waiting int
	// Rate is how many requests per second one API key may make; zero is no limit.
	Rate float64
	// KeyInFlight is how many requests of one client key are handled at once (256).
	KeyInFlight int
}

func (l Limits) withDefaults() Limits {
	if l.InFlight == 0 {
		l.InFlight = 1024
	}
	if l.Waiting == 0 {
		l.Waiting = 4096
	}
	if l.KeyInFlight == 0 {
		l.KeyInFlight = 256
	}
	return l
}

func (p Params) withDefaults() Params {
	p.Limits = p.Limits.withDefaults()
	if p.Log == nil {
		p.Log = slog.New(slog.DiscardHandler)
	}
	p.Log = LogRequests(p.Log)
	if p.Observer == nil {
		p.Observer = nobody{}
	}
	return p
}

type nobody struct{}

func (nobody) HTTPRequest(string, string, int, time.Duration) {}

// api is the handlers' common ground.
type api struct {
	Params
	findings     *statement.Findings
	slots        chan struct{}
	consoleSlots chan struct{}
	waiting      chan struct{}
	rates        *rates
	// receiving and inFlight count requests by client key, before and after their body is in.
	receiving, inFlight *perKey
}

func newAPI(p Params) *api {
	p = p.withDefaults()
	return &api{
		Params: p, findings: statement.NewFindings(p.Pool), rates: newRates(p.Limits.Rate),
		slots: make(chan struct{}, p.Limits.InFlight), consoleSlots: make(chan struct{}, consoleSlots),
		waiting:   make(chan struct{}, p.Limits.Waiting),
		receiving: newPerKey(receivingFactor * p.Limits.KeyInFlight), inFlight: newPerKey(p.Limits.KeyInFlight),
	}
}

// stopping reports whether the shutdown has begun.
func (a *api) stopping() bool {
	return closed(a.ShuttingDown)
}

// databaseTimeout bounds a read or an operator's act; a purchase has bounds of its own.
const databaseTimeout = 10 * time.Second

// databaseContext outlives the client's connection: what was begun is brought to its
// end, and a client that hangs up in the middle of a query would make pgx throw the
// database connection away.
func databaseContext(r *http.Request) (context.Context, context.CancelFunc) {
	return context.WithTimeout(context.WithoutCancel(r.Context()), databaseTimeout)
}
