package metrics

import (
	"context"
	_ "embed"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

const (
	// cacheFor keeps several scrapers, and an impatient person, from asking the
	// database the same again and again.
	cacheFor = time.Second
	// scrapeTimeout is how long a scrape waits for the database. Prometheus gives up
	// after 10 s by default, and the counters must reach it before.
	scrapeTimeout = 2 * time.Second
)

//go:embed gauges.sql
var gaugesQuery string

// gauges is one row of gauges.sql.
type gauges struct {
	Unknown       int64   `db:"unknown"`
	Pending       int64   `db:"pending"`
	Review        int64   `db:"review"`
	OldestDue     float64 `db:"oldest_due"`
	OldestUnknown float64 `db:"oldest_unknown"`
	EventLag      float64 `db:"event_lag"`
}

// database reads gauges from the database when they are scraped.
type database struct {
	pool    *pgxpool.Pool
	log     *slog.Logger
	lag     func() time.Duration
	up      *prometheus.Desc
	lagging *prometheus.Desc
	values  []gauge

	mu   sync.Mutex // held over the query: one scrape asks, the others wait and share
	at   time.Time
	last gauges
	err  error
}

type gauge struct {
	desc  *prometheus.Desc
	value func(gauges) float64
}

func describe(name, help string, value func(gauges) float64) gauge {
	return gauge{prometheus.NewDesc("holdfast_"+name, help, nil, nil), value}
}

func newDatabase(p Params) *database {
	lag := p.EventLag
	if lag == nil {
		lag = func() time.Duration { return 0 }
	}
	return &database{
		pool: p.Pool, log: p.Log, lag: lag,
		lagging: prometheus.NewDesc("holdfast_event_lag_seconds",
			"How long the oldest event has waited for its place in the log or on this process's streams; 0 where none waits.",
			nil, nil),
		up: prometheus.NewDesc("holdfast_database_up", "1 if the database answered this scrape.", nil, nil),
		values: []gauge{
			describe("unknown_purchases", "Purchases in UNKNOWN.", func(g gauges) float64 { return float64(g.Unknown) }),
			describe("pending_purchases", "Purchases in PENDING.", func(g gauges) float64 { return float64(g.Pending) }),
			describe("manual_review_purchases", "Purchases in MANUAL_REVIEW.",
				func(g gauges) float64 { return float64(g.Review) }),
			describe("oldest_due_retry_seconds", "How long the longest due pass has been due; 0 where none is.",
				func(g gauges) float64 { return g.OldestDue }),
			describe("oldest_unknown_seconds", "How long the oldest UNKNOWN purchase has been so; 0 where none is.",
				func(g gauges) float64 { return g.OldestUnknown }),
		},
	}
}

// Describe implements prometheus.Collector.
func (d *database) Describe(out chan<- *prometheus.Desc) {
	out <- d.up
	out <- d.lagging
	for _, g := range d.values {
		out <- g.desc
	}
}

// Collect implements prometheus.Collector. While the database is away the gauges are
// missing, which Prometheus shows as stale: an old value would be a lie.
func (d *database) Collect(out chan<- prometheus.Metric) {
	read, err := d.read()
	out <- prometheus.MustNewConstMetric(d.up, prometheus.GaugeValue, one(err == nil))
	// read is zero where it failed; this process's own lag grows meanwhile.
	out <- prometheus.MustNewConstMetric(d.lagging, prometheus.GaugeValue, max(read.EventLag, d.lag().Seconds()))
	if err != nil {
		return
	}
	for _, g := range d.values {
		out <- prometheus.MustNewConstMetric(g.desc, prometheus.GaugeValue, g.value(read))
	}
}

func (d *database) read() (gauges, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if time.Since(d.at) < cacheFor {
		return d.last, d.err
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	d.last, d.err = query(ctx, d.pool)
	if d.err != nil {
		d.log.Warn("metrics without the database", "error", d.err)
	}
	d.at = time.Now()
	return d.last, d.err
}

func query(ctx context.Context, pool *pgxpool.Pool) (gauges, error) {
	rows, err := pool.Query(ctx, gaugesQuery)
	if err != nil {
		return gauges{}, fmt.Errorf("read gauges: %w", err)
	}
	read, err := pgx.CollectExactlyOneRow(rows, pgx.RowToStructByName[gauges])
	if err != nil {
		return gauges{}, fmt.Errorf("read gauges: %w", err)
	}
	return read, nil
}
