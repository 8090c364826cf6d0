package purchase

import (
	"time"

	"holdfast/broker"
)

// Member is one broker as a process uses it.
type Member struct {
	Broker broker.Broker
	Gate   *broker.Gate
	// Policy is when its purchases are tried again, and when that stops.
	Policy Policy
	// MaxPasses bounds the passes of its purchases that are in progress at once, the wait
	// for their turn included; 0: no bound. It keeps a slow broker from taking every worker.
	MaxPasses int
}

// Brokers are the brokers that a process serves, by name. One of them, the default, takes
// the purchases of accounts that name none.
type Brokers struct {
	members map[string]*member
	first   *member
	// limits are those of every member, the default's first.
	limits limits
}

// member is a Member with what its adapter promises.
type member struct {
	Member
	name   string
	can    broker.Capabilities
	places places
}

// limits are columns that statements read by a broker's name. A purchase of a broker that
// is not served is held to the first one's.
type limits struct {
	brokers               []string
	callTimeouts, maxAges []float64
	maxAttempts           []int32
}

// NewBrokers returns a registry. The first member is the default.
func NewBrokers(first Member, others ...Member) *Brokers {
	b := &Brokers{members: map[string]*member{}}
	for _, m := range append([]Member{first}, others...) {
		b.add(m)
	}
	return b
}

func (b *Brokers) add(m Member) {
	can := m.Broker.Capabilities()
	added := &member{Member: m, name: can.Name, can: can, places: places{limit: m.MaxPasses}}
	if b.first == nil {
		b.first = added
	}
	b.members[added.name] = added
	b.limits.brokers = append(b.limits.brokers, added.name)
	b.limits.callTimeouts = append(b.limits.callTimeouts, can.Timeout.Seconds())
	b.limits.maxAges = append(b.limits.maxAges, m.Policy.MaxAge.Seconds())
	b.limits.maxAttempts = append(b.limits.maxAttempts, int32(m.Policy.MaxAttempts))
}

// Names returns the names of the brokers, the default's first.
func (b *Brokers) Names() []string { return b.limits.brokers }

// Serves reports whether a broker of that name is served.
func (b *Brokers) Serves(name string) bool { return b.members[name] != nil }

// State returns the state of a broker's breaker; ok is false if the broker is not served.
func (b *Brokers) State(name string) (state broker.State, ok bool) {
	m := b.members[name]
	if m == nil {
		return "", false
	}
	return m.Gate.State(), true
}

// WorstState returns the state of the breaker that lets the least through.
func (b *Brokers) WorstState() broker.State {
	worst := broker.Closed
	for _, m := range b.members {
		switch m.Gate.State() {
		case broker.Open:
			return broker.Open
		case broker.HalfOpen:
			worst = broker.HalfOpen
		case broker.Closed:
		}
	}
	return worst
}

// only returns the one broker that is served, or nil if there are several.
func (b *Brokers) only() *member {
	if len(b.members) > 1 {
		return nil
	}
	return b.first
}

// route returns the broker that an account's purchases go to, nil if it is not served.
func (b *Brokers) route(name string) *member {
	if name == "" {
		return b.first
	}
	return b.members[name]
}

// of returns the broker that a purchase was placed with or, if it is not served, the
// default, whose limits apply then.
func (b *Brokers) of(name string) *member {
	if m := b.members[name]; m != nil {
		return m
	}
	return b.first
}

// placeWindow is how long after a record began its first call may be sent: the call must
// have ended when others may take the purchase for interrupted. The record stores its end,
// or valid_until if that is sooner, as the purchase's send_until.
func (m *member) placeWindow() time.Duration { return m.Policy.PendingGrace - m.can.Timeout }
