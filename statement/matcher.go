package statement

import (
	"context"
	"log/slog"
	"regexp"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/broker"
)

const (
	// minAge is added to the settle time: neither an order nor a purchase is compared before
	// it is as old as both.
	minAge = 5 * time.Minute
	// margin is how far the broker's clock may be off, so how much more than its window is
	// listed on both sides.
	margin = 5 * time.Minute
	// idMargin is how far the clock of a process that made a purchase's id may be off.
	idMargin = time.Hour
	// keySearch is at least how far back a purchase is searched for by its key: a replay may
	// place its order that long after the purchase was made.
	keySearch = 7 * 24 * time.Hour
	// batch bounds one statement.
	batch = 1000
)

// Purchases is what a matcher does with purchases, besides reading them.
type Purchases interface {
	// ExpediteListed makes those of ids that are UNKNOWN due now.
	ExpediteListed(ctx context.Context, ids []uuid.UUID) error
}

// Alerts raises alerts to operators.
type Alerts interface {
	// RaiseTx writes an alert in the caller's transaction and reports whether it did: there
	// is at most one of a type per hour.
	RaiseTx(ctx context.Context, tx pgx.Tx, kind string, data map[string]any) (bool, error)
}

// Params is what a Matcher works with.
type Params struct {
	Pool      *pgxpool.Pool
	Purchases Purchases
	Alerts    Alerts
	// Broker's list is compared; it need not be able to list if only files are.
	Broker broker.Broker
	Gate   *broker.Gate
	// KeyNamespace is part of every broker key of this deployment.
	KeyNamespace string
	// Interval is how often Run matches.
	Interval time.Duration
	Log      *slog.Logger
}

// Matcher compares one broker's orders with our purchases. Any number of them, in any
// number of processes, may compare the same orders: each discrepancy is stored once.
type Matcher struct {
	Params
	can    broker.Capabilities
	lister broker.Lister
	keys   *regexp.Regexp
}

// New returns a matcher.
func New(p Params) *Matcher {
	lister, _ := p.Broker.(broker.Lister)
	return &Matcher{
		Params: p, can: p.Broker.Capabilities(), lister: lister, keys: keyForm(p.KeyNamespace),
	}
}

// CanList reports whether the broker's adapter can list orders.
func (m *Matcher) CanList() bool { return m.lister != nil }

// BrokerName returns the name of the broker.
func (m *Matcher) BrokerName() string { return m.can.Name }

// Report is what one match compared and found.
type Report struct {
	Broker       string
	Since, Until time.Time
	// Orders is the number of orders under keys of ours, Foreign that of all others.
	Orders, Foreign int
	Purchases       int
	// New is the discrepancies that were not known before.
	New []Finding
}

func (r *Report) add(o Report, found ...[]Finding) {
	r.Orders, r.Foreign, r.Purchases = r.Orders+o.Orders, r.Foreign+o.Foreign, r.Purchases+o.Purchases
	for _, f := range found {
		r.New = append(r.New, f...)
	}
}

// latest returns the moment before which orders and purchases are old enough.
func (m *Matcher) latest(now time.Time) time.Time { return now.Add(-m.can.Settle - minAge) }
