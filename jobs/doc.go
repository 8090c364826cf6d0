// Package jobs is River: it carries the passes that reconcile purchases and the
// delivery of alerts, and repairs its own queue.
//
// It has no rules of its own. Counters, limits and waits stand on the purchase's row;
// a job says only which purchase. Whatever happens to a job (lost, cancelled, deleted,
// run twice, run again after its end) costs time and nothing else: the row is the
// truth, a pass claims it with a fence, and the sweep makes what is missing. The sweep
// is a plain loop, for what repairs the queue must not be carried by it.
//
// It never decides about a purchase and never sees the broker. cmd alone imports it;
// purchase knows it as the Scheduler it declares.
package jobs
