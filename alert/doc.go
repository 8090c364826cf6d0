// Package alert writes alerts to operators and delivers them to a webhook: at most one of a
// type per hour, signed according to the Standard Webhooks specification, under one id in
// every retry, for a day.
//
// It decides nothing about purchases: whoever raises an alert names its type and data. The
// alert of a review is written by the statement that moves the purchase there. A scheduler
// carries the deliveries; the row is the source of truth.
package alert
