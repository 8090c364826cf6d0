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

	"holdfast/statement"
)

//go:embed findings.sql
var findingsQuery string

// openFindings is one row of findings.sql.
type openFindings struct {
	Broker string   `db:"broker"`
	Kind   string   `db:"kind"`
	Open   int64    `db:"open"`
	Lag    *float64 `db:"lag"`
}

// findings reads what matching has found from the database when it is scraped.
type findings struct {
	pool      *pgxpool.Pool
	log       *slog.Logger
	brokers   []string
	kinds     []string
	open, lag *prometheus.Desc

	mu   sync.Mutex // held over the query: one scrape asks, the others wait and share
	at   time.Time
	last []openFindings
}

func newFindings(p Params) *findings {
	f := &findings{
		pool: p.Pool, log: p.Log, brokers: p.Brokers,
		open: prometheus.NewDesc("holdfast_open_findings",
			"Discrepancies between a broker's order list and ours that no operator has closed.", []string{"broker", "kind"}, nil),
		lag: prometheus.NewDesc("holdfast_match_lag_seconds",
			"How long ago what was matched last was created; missing before the first match.", []string{"broker"}, nil),
	}
	for _, kind := range statement.Kinds() {
		f.kinds = append(f.kinds, string(kind))
	}
	return f
}

// Describe implements prometheus.Collector.
func (f *findings) Describe(out chan<- *prometheus.Desc) {
	out <- f.open
	out <- f.lag
}

// Collect implements prometheus.Collector. While the database is unavailable there are no
// values.
func (f *findings) Collect(out chan<- prometheus.Metric) {
	lags := map[string]float64{}
	for _, row := range f.read() {
		out <- prometheus.MustNewConstMetric(f.open, prometheus.GaugeValue, float64(row.Open), row.Broker, row.Kind)
		if row.Lag != nil {
			lags[row.Broker] = *row.Lag
		}
	}
	for broker, lag := range lags {
		out <- prometheus.MustNewConstMetric(f.lag, prometheus.GaugeValue, lag, broker)
	}
}

func (f *findings) read() []openFindings {
	f.mu.Lock()
	defer f.mu.Unlock()
	if time.Since(f.at) < cacheFor {
		return f.last
	}
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTimeout)
	defer cancel()
	var err error
	if f.last, err = f.query(ctx); err != nil {
		f.log.Warn("metrics without findings", "error", err)
	}
	f.at = time.Now()
	return f.last
}

func (f *findings) query(ctx context.Context) ([]openFindings, error) {
	rows, err := f.pool.Query(ctx, findingsQuery, f.brokers, f.kinds)
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	read, err := pgx.CollectRows(rows, pgx.RowToStructByName[openFindings])
	if err != nil {
		return nil, fmt.Errorf("read findings: %w", err)
	}
	return read, nil
}
