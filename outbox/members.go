package outbox

import "github.com/google/uuid"

// members knows the subscriptions by what they choose, so that an event touches its
// receivers only. A filter on both purchase and account stands under the purchase.
type members struct {
	everything group
	byAccount  map[string]*group
	byPurchase map[uuid.UUID]*group
	count      int
}

// group is a set of subscriptions in no order, each of which knows its slot.
type group struct {
	subscriptions []*Subscription
}

func (g *group) add(s *Subscription) {
	s.slot = len(g.subscriptions)
	g.subscriptions = append(g.subscriptions, s)
}

func (g *group) remove(s *Subscription) {
	end := len(g.subscriptions) - 1
	last := g.subscriptions[end]
	g.subscriptions[s.slot], last.slot = last, s.slot
	g.subscriptions[end] = nil
	g.subscriptions = g.subscriptions[:end]
	s.slot = -1
}

func (m *members) add(s *Subscription) {
	m.count++
	switch f := s.filter; {
	case f.PurchaseID != uuid.Nil:
		join(m.byPurchase, f.PurchaseID, s)
	case f.AccountID != "":
		join(m.byAccount, f.AccountID, s)
	default:
		m.everything.add(s)
	}
}

func (m *members) remove(s *Subscription) {
	if s.slot < 0 {
		return
	}
	m.count--
	switch f := s.filter; {
	case f.PurchaseID != uuid.Nil:
		leave(m.byPurchase, f.PurchaseID, s)
	case f.AccountID != "":
		leave(m.byAccount, f.AccountID, s)
	default:
		m.everything.remove(s)
	}
}

func join[K comparable](groups map[K]*group, key K, s *Subscription) {
	g := groups[key]
	if g == nil {
		g = &group{}
		groups[key] = g
	}
	g.add(s)
}

func leave[K comparable](groups map[K]*group, key K, s *Subscription) {
	g := groups[key]
	g.remove(s)
	if len(g.subscriptions) == 0 {
		delete(groups, key)
	}
}

// receivers calls do for each subscription that chooses e. do must not add or remove any.
func (m *members) receivers(e *Event, do func(*Subscription)) {
	for _, g := range []*group{&m.everything, m.byAccount[e.AccountID], m.byPurchase[e.TransactionID]} {
		if g == nil {
			continue
		}
		for _, s := range g.subscriptions {
			if s.filter.Match(e) {
				do(s)
			}
		}
	}
}

// all returns every subscription.
func (m *members) all() []*Subscription {
	all := append([]*Subscription(nil), m.everything.subscriptions...)
	for _, g := range m.byAccount {
		all = append(all, g.subscriptions...)
	}
	for _, g := range m.byPurchase {
		all = append(all, g.subscriptions...)
	}
	return all
}
