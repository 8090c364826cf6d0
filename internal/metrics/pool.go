package metrics

import (
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
)

// poolStats shows how near the connection pool is to its bound: a pool that is always
// full is the first sign of a database that does not keep up.
type poolStats struct {
	pool             *pgxpool.Pool
	used, max, waits *prometheus.Desc
}

func newPoolStats(pool *pgxpool.Pool) *poolStats {
	return &poolStats{
		pool:  pool,
		used:  prometheus.NewDesc("holdfast_database_connections_used", "Connections in use.", nil, nil),
		max:   prometheus.NewDesc("holdfast_database_connections_max", "Connections that the pool may open.", nil, nil),
		waits: prometheus.NewDesc("holdfast_database_connection_waits_total", "Times that a connection had to be waited for.", nil, nil),
	}
}

// Describe implements prometheus.Collector.
func (p *poolStats) Describe(out chan<- *prometheus.Desc) {
	out <- p.used
	out <- p.max
	out <- p.waits
}

// Collect implements prometheus.Collector.
func (p *poolStats) Collect(out chan<- prometheus.Metric) {
	s := p.pool.Stat()
	out <- prometheus.MustNewConstMetric(p.used, prometheus.GaugeValue, float64(s.AcquiredConns()))
	out <- prometheus.MustNewConstMetric(p.max, prometheus.GaugeValue, float64(s.MaxConns()))
	out <- prometheus.MustNewConstMetric(p.waits, prometheus.CounterValue, float64(s.EmptyAcquireCount()))
}
