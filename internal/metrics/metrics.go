package metrics

import (
	"log/slog"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"holdfast/broker"
	"holdfast/purchase"
)

// Params is what there is to look at besides what the process itself counts.
type Params struct {
	Pool *pgxpool.Pool
	Log  *slog.Logger
	// Subscribers tells how many streams are open; nil in a process without any.
	Subscribers func() int
	// Brokers are the names of the brokers that this process serves: their findings are
	// counted even if there are none.
	Brokers []string
	// EventLag tells how far this process is behind with events; nil where it has none.
	EventLag func() time.Duration
	// Breaker tells the breaker's state; InFlight how many broker calls are in progress.
	Breaker  func() broker.State
	InFlight func() int
}

// Metrics is one process's registry. It is safe for concurrent use.
type Metrics struct {
	registry       *prometheus.Registry
	log            *slog.Logger
	purchases      *prometheus.CounterVec
	passes         *prometheus.CounterVec
	reviews        prometheus.Counter
	brokerCalls    *prometheus.HistogramVec
	requests       *prometheus.HistogramVec
	orphans        *prometheus.CounterVec
	contradictions prometheus.Counter
}

// brokerBuckets reach to a broker timeout of half a minute; requestBuckets see the fast
// ones apart as well.
var (
	brokerBuckets  = []float64{.005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
	requestBuckets = []float64{.001, .0025, .005, .01, .025, .05, .1, .25, .5, 1, 2.5, 5, 10, 30}
)

// New returns a registry with every series whose labels are known at 0, so that a rate
// over it starts with the first event and an alert rule never lacks its series.
func New(p Params) *Metrics {
	m := &Metrics{
		registry:  prometheus.NewRegistry(),
		log:       p.Log,
		purchases: counters("purchases_total", "Purchases that entered a status.", "status"),
		passes:    counters("reconcile_passes_total", "Reconciliation passes by how they ended.", "result"),
		reviews: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_manual_reviews_total", Help: "Purchases that entered manual review."}),
		brokerCalls: histograms("broker_request_duration_seconds", "Broker calls.", brokerBuckets, "call", "result"),
		requests: histograms("http_request_duration_seconds", "HTTP requests, streams left out.", requestBuckets,
			"route", "method", "code"),
		orphans: counters("orphans_repaired_total", "Purchases that the sweep had to pick up.", "kind"),
		contradictions: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "holdfast_contradictions_total", Help: "Broker answers that contradict a final status."}),
	}
	m.registry.MustRegister(m.purchases, m.passes, m.reviews, m.brokerCalls, m.requests, m.orphans, m.contradictions,
		collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		newDatabase(p), newFindings(p), newPoolStats(p.Pool))
	m.start()
	m.watch(p)
	return m
}

func counters(name, help string, labels ...string) *prometheus.CounterVec {
	return prometheus.NewCounterVec(prometheus.CounterOpts{Name: "holdfast_" + name, Help: help}, labels)
}

func histograms(name, help string, buckets []float64, labels ...string) *prometheus.HistogramVec {
	return prometheus.NewHistogramVec(
		prometheus.HistogramOpts{Name: "holdfast_" + name, Help: help, Buckets: buckets}, labels)
}

func (m *Metrics) start() {
	for _, status := range purchase.Statuses() {
		m.purchases.WithLabelValues(label(status))
	}
	for _, result := range []string{"completed", "rejected", "deferred", "manual_review", "lost_race"} {
		m.passes.WithLabelValues(result)
	}
	for _, kind := range []string{"pending", "job"} {
		m.orphans.WithLabelValues(kind)
	}
}

// watch registers the gauges that are asked for when they are scraped.
func (m *Metrics) watch(p Params) {
	subscribers := p.Subscribers
	if subscribers == nil {
		subscribers = func() int { return 0 }
	}
	m.gauge("stream_subscribers", "Event streams open in this process.", nil,
		func() float64 { return float64(subscribers()) })
	if p.InFlight != nil {
		m.gauge("broker_calls_in_flight", "Broker calls in progress.", nil, func() float64 { return float64(p.InFlight()) })
	}
	if p.Breaker == nil {
		return
	}
	for _, state := range []broker.State{broker.Closed, broker.Open, broker.HalfOpen} {
		m.gauge("breaker_state", "1 for the state that the breaker is in.", prometheus.Labels{"state": string(state)},
			func() float64 { return one(p.Breaker() == state) })
	}
}

func (m *Metrics) gauge(name, help string, labels prometheus.Labels, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(
		prometheus.GaugeOpts{Name: "holdfast_" + name, Help: help, ConstLabels: labels}, value))
}

func one(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

func label(s purchase.Status) string { return strings.ToLower(string(s)) }

// Handler serves the registry to Prometheus. What cannot be read is left out; the rest
// is served.
func (m *Metrics) Handler() http.Handler {
	return promhttp.HandlerFor(m.registry, promhttp.HandlerOpts{
		ErrorHandling:       promhttp.ContinueOnError,
		ErrorLog:            slog.NewLogLogger(m.log.Handler(), slog.LevelWarn),
		MaxRequestsInFlight: 4,
		Timeout:             scrapeTimeout + time.Second,
	})
}

var _ purchase.Observer = (*Metrics)(nil)

// StatusChanged implements purchase.Observer.
func (m *Metrics) StatusChanged(to purchase.Status) {
	m.purchases.WithLabelValues(label(to)).Inc()
	if to == purchase.ManualReview {
		m.reviews.Inc()
	}
}

// BrokerCall implements purchase.Observer.
func (m *Metrics) BrokerCall(call, result string, d time.Duration) {
	m.brokerCalls.WithLabelValues(call, result).Observe(d.Seconds())
}

// PassEnded implements purchase.Observer.
func (m *Metrics) PassEnded(result string) { m.passes.WithLabelValues(result).Inc() }

// OrphanRepaired implements purchase.Observer.
func (m *Metrics) OrphanRepaired(kind string) { m.orphans.WithLabelValues(kind).Inc() }

// Contradiction implements purchase.Observer.
func (m *Metrics) Contradiction() { m.contradictions.Inc() }

// HTTPRequest counts one request. route is the pattern that matched, never the path: a
// path has ids in it, and each would be a series of its own.
func (m *Metrics) HTTPRequest(route, method string, code int, d time.Duration) {
	m.requests.WithLabelValues(strings.ToLower(orElse(route, "unmatched")), known(method), strconv.Itoa(code)).
		Observe(d.Seconds())
}

// known keeps a client that makes up methods from making up series.
func known(method string) string {
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return method
	default:
		return "OTHER"
	}
}

func orElse(s, otherwise string) string {
	if s == "" {
		return otherwise
	}
	return s
}
