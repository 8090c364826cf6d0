package main

import "fmt"

// throughput are the columns of every load.
var throughput = []string{"per_second", "p50_ms", "p99_ms"}

// purchases measures the whole product beside the baseline, at each number of clients.
func (l *env) purchases() ([]Case, error) {
	product, err := l.product()
	if err != nil {
		return nil, err
	}
	bare, err := l.startBaseline("")
	if err != nil {
		return nil, err
	}
	calling, err := l.startBaseline(l.broker.url())
	if err != nil {
		return nil, err
	}
	sessions, err := l.copyOf(baselineTemplate)
	if err != nil {
		return nil, err
	}
	if err := l.warm(product, bare, calling); err != nil {
		return nil, err
	}
	var cases []Case
	for _, clients := range l.o.Clients {
		c, err := l.compare(fmt.Sprintf("%d clients", clients), throughput,
			subject{"holdfast", func() (Values, error) { return l.runLoad(product, clients, l.o.Accounts) }},
			subject{"baseline", func() (Values, error) { return l.runLoad(bare, clients, l.o.Accounts) }},
			subject{"baseline with the broker's call", func() (Values, error) { return l.runLoad(calling, clients, l.o.Accounts) }},
			subject{"its two statements, no HTTP", func() (Values, error) { return l.sessions(sessions, clients) }},
		)
		if err != nil {
			return nil, err
		}
		cases = append(cases, c)
	}
	return cases, nil
}

// account measures one account that takes all purchases beside many.
func (l *env) account() ([]Case, error) {
	product, err := l.product()
	if err != nil {
		return nil, err
	}
	bare, err := l.startBaseline("")
	if err != nil {
		return nil, err
	}
	if err := l.warm(product, bare); err != nil {
		return nil, err
	}
	c, err := l.compare(fmt.Sprintf("one account, %d clients", l.o.Busy), throughput,
		subject{"holdfast", func() (Values, error) { return l.runLoad(product, l.o.Busy, 1) }},
		subject{fmt.Sprintf("holdfast, %d accounts", l.o.Accounts), func() (Values, error) { return l.runLoad(product, l.o.Busy, l.o.Accounts) }},
		subject{"baseline, one account", func() (Values, error) { return l.runLoad(bare, l.o.Busy, 1) }},
	)
	return []Case{c}, err
}

// The streams that are open while the main figure is measured again: some see every
// event, the others those of one account each.
const (
	wideStreams   = 10
	narrowStreams = 90
)

// events measures purchases with streams open beside a product whose events are off: no
// relay, no NOTIFY, no listener, no streams. The outbox row, part of the purchase's own
// transaction, is written by both.
func (l *env) events() ([]Case, error) {
	product, err := l.product()
	if err != nil {
		return nil, err
	}
	database, err := l.copyOf(productTemplate)
	if err != nil {
		return nil, err
	}
	quiet, err := l.serveAt(l.o.Self, l.url(database), []string{"--part", "serve-quiet"})
	if err != nil {
		return nil, err
	}
	if err := l.warm(product, quiet); err != nil {
		return nil, err
	}
	for i := range wideStreams + narrowStreams {
		key := operatorKey
		if i >= wideStreams {
			key = clientKey(i % l.o.Accounts)
		}
		if err := l.drain(product, key); err != nil {
			return nil, err
		}
	}
	c, err := l.compare(fmt.Sprintf("%d clients", l.o.Busy), throughput,
		subject{"holdfast", func() (Values, error) { return l.runLoad(product, l.o.Busy, l.o.Accounts) }},
		subject{"holdfast, events off", func() (Values, error) { return l.runLoad(quiet, l.o.Busy, l.o.Accounts) }},
	)
	c.Note = fmt.Sprintf("%d streams of everything and %d of one account each are open", wideStreams, narrowStreams)
	return []Case{c}, err
}
