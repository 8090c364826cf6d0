// Package metrics counts what happens and shows it to Prometheus.
//
// What a process sees is counted in that process; what stands in the database is read
// when Prometheus asks, at most once a second and never for long, so that neither a
// scrape nor a slow database holds up the other. It implements purchase.Observer and
// decides nothing. cmd wires it; no other room imports it.
package metrics
