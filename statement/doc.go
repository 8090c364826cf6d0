// Package statement compares the broker's own list of orders with our purchases, in both
// directions, and stores each discrepancy once, as a finding for an operator.
//
// It is the only check that does not rely on what we asked: it finds an order that we do not
// know, a second order under one key, and a purchase that the broker does not list. It never
// changes a purchase, a balance or an order. An UNKNOWN purchase that the list names is only
// made due, so that its next pass looks it up.
//
// A [Matcher] belongs to one broker; [Findings] reads and closes what any of them found.
// The api serves findings, cmd runs matchers; nothing in the domain may import this package.
package statement
