package main

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"holdfast/client"
)

// received is an event as stored in the log and as a subscriber received it.
type received struct {
	id       string
	purchase uuid.UUID
	account  string
	version  int
	status   string
}

func (e received) String() string {
	return fmt.Sprintf("%s (%s, version %d of %s of %s)", e.id, e.status, e.version, e.purchase, e.account)
}

// subscriberSet is fifty subscribers, each with its own filter.
type subscriberSet struct {
	t   *testing.T
	all []*subscriber
}

// subscriber follows the events that match share, from the first.
type subscriber struct {
	params client.EventsParams
	share  func(received) bool
	broken atomic.Int64

	mu   sync.Mutex
	seen []received
	lags []time.Duration
}

const soakSubscribers = 50

// subscribe opens the streams: of everything, of one account with an operator's key and with
// its own key, with and without a filter, and of one purchase.
func (s *soak) subscribe() *subscriberSet {
	c := &subscriberSet{t: s.t}
	ctx, cancel := context.WithCancel(context.Background())
	var following sync.WaitGroup
	s.t.Cleanup(func() { cancel(); following.Wait() })
	for i := range soakSubscribers {
		account := soakAccount(i % soakAccounts)
		one := &subscriber{share: func(e received) bool { return e.account == account }}
		with := s.clients[i%soakAccounts]
		switch i % 5 {
		case 0, 1:
			with, one.share = s.operator, func(received) bool { return true }
		case 2:
			with, one.params.AccountID = s.operator, account
		case 3:
			one.params.AccountID = account
		}
		if i%10 == 7 {
			with, one.params = s.operator, client.EventsParams{PurchaseID: s.watched.ID}
			one.share = func(e received) bool { return e.purchase.String() == s.watched.ID }
		}
		c.all = append(c.all, one)
		following.Go(func() { one.follow(ctx, s.t, with) })
	}
	return c
}

func (s *subscriber) follow(ctx context.Context, t *testing.T, c *client.Client) {
	t.Helper()
	s.params.After = "0"
	s.params.OnResync = func(reason string) { t.Errorf("resync: %s", reason) }
	s.params.OnReconnect = func(error, time.Duration) { s.broken.Add(1) }
	for event, err := range c.Events(ctx, s.params) {
		if err != nil {
			t.Errorf("events: %v", err)
			return
		}
		s.take(event)
	}
}

func (s *subscriber) take(e client.Event) {
	purchase, _ := uuid.Parse(e.PurchaseID)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.seen = append(s.seen, received{e.ID, purchase, e.AccountID, e.Version, e.Status})
	s.lags = append(s.lags, time.Since(e.OccurredAt))
}

func (s *subscriber) has() []received {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.seen
}

// flows waits until a subscriber to everything has received count more events.
func (c *subscriberSet) flows(more int) {
	c.t.Helper()
	before := len(c.all[0].has())
	eventually(c.t, "events flow", func() error {
		if n := len(c.all[0].has()) - before; n < more {
			return fmt.Errorf("%d events", n)
		}
		return nil
	})
}

// log returns the complete table, in order.
func (s *soak) log() (all []received) {
	s.t.Helper()
	s.query(func(conn *pgx.Conn) error {
		rows, err := conn.Query(s.t.Context(), "SELECT id::text, transaction_id, account_id, version, status FROM purchase_event AS e ORDER BY e.id")
		if err != nil {
			return err
		}
		all, err = pgx.CollectRows(rows, func(row pgx.CollectableRow) (e received, err error) {
			return e, row.Scan(&e.id, &e.purchase, &e.account, &e.version, &e.status)
		})
		return err
	})
	return all
}

// check compares every subscriber with the log, and checks the log itself.
func (c *subscriberSet) check(log []received) int {
	c.t.Helper()
	versions := map[uuid.UUID]int{}
	for i, e := range log {
		if want := max(2, versions[e.purchase]+1); e.version != want {
			c.t.Errorf("event %s is version %d of its purchase, want %d", e.id, e.version, want)
		}
		if e.id != strconv.Itoa(i+1) {
			c.t.Fatalf("event %d of the log has number %s", i+1, e.id)
		}
		versions[e.purchase] = e.version
	}
	for i, s := range c.all {
		eventually(c.t, fmt.Sprintf("subscriber %d %+v", i, s.params.AccountID+s.params.PurchaseID), func() error { return s.matches(log) })
		if s.broken.Load() == 0 {
			c.t.Errorf("subscriber %d was never disconnected: the test proves nothing", i)
		}
	}
	return len(log)
}

// matches returns an error where a subscriber's events differ from its share of the log.
func (s *subscriber) matches(log []received) error {
	i, seen := 0, s.has()
	for _, e := range log {
		if !s.share(e) {
			continue
		}
		if i >= len(seen) {
			return fmt.Errorf("%d events, and not %s", i, e)
		}
		if seen[i] != e {
			return fmt.Errorf("event %d is %s, want %s", i, seen[i], e)
		}
		i++
	}
	if i == 0 {
		return errors.New("no events: the test shows nothing")
	}
	if i < len(seen) {
		return fmt.Errorf("more than the log has: %s", seen[i])
	}
	return nil
}

// connections is how many connections all subscribers needed.
func (c *subscriberSet) connections() (n int64) {
	for _, s := range c.all {
		n += 1 + s.broken.Load()
	}
	return n
}

// lag is a percentile of the time from a change to its arrival at one subscriber, including all
// outages.
func (c *subscriberSet) lag(percent int) time.Duration {
	s := c.all[0]
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.lags) == 0 {
		return 0
	}
	lags := slices.Sorted(slices.Values(s.lags))
	return lags[(len(lags)-1)*percent/100].Round(time.Millisecond)
}
