package outbox_test

import (
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
	"holdfast/outbox"
)

func encode(e outbox.Event) []byte { return fmt.Appendf(nil, "%d", e.ID) }

// startHub runs a hub and waits until it is ready.
func startHub(t *testing.T, pool *pgxpool.Pool) *outbox.Hub {
	t.Helper()
	hub := outbox.NewHub(outbox.HubConfig{Pool: pool, Encode: encode, Poll: 20 * time.Millisecond})
	start(t, hub.Run)
	<-hub.Ready()
	return hub
}

// startOutbox runs all of a process's outbox.
func startOutbox(t *testing.T, pool *pgxpool.Pool) *outbox.Outbox {
	t.Helper()
	box := outbox.New(outbox.Config{
		Pool: pool, ListenURL: pool.Config().ConnString(), Keep: 168 * time.Hour, Encode: encode,
	})
	start(t, box.Run)
	<-box.Hub.Ready()
	return box
}

// reader collects what one subscription gets.
type reader struct {
	mu     sync.Mutex
	ids    []int64
	events []outbox.Event
	err    error
}

func (r *reader) wake(s *outbox.Subscription) {
	go func() {
		for {
			messages, _, err := s.Take()
			if len(messages) == 0 && err == nil {
				return
			}
			r.keep(messages, err)
			if err != nil {
				return
			}
		}
	}()
}

func (r *reader) keep(messages []*outbox.Message, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.err = err
	for _, m := range messages {
		if string(m.Wire) != strconv.FormatInt(m.ID, 10) {
			r.err = fmt.Errorf("event %d carries the bytes %q", m.ID, m.Wire)
		}
		r.ids = append(r.ids, m.ID)
		r.events = append(r.events, m.Event)
	}
}

func (r *reader) has() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.ids)
}

func (r *reader) failure() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.err
}

// subscribe joins from the hub's position.
func subscribe(t *testing.T, hub *outbox.Hub, f outbox.Filter) *reader {
	t.Helper()
	r := &reader{}
	sub := hub.Subscribe(f, hub.Position(), r.wake)
	if sub == nil {
		t.Fatal("cannot subscribe at the hub's own position")
	}
	t.Cleanup(func() { sub.Close(nil) })
	return r
}

func TestTwoProcessesDeliverTheSame(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	pools := [2]*pgxpool.Pool{pgtest.Pool(t, url), pgtest.Pool(t, url)}
	boxes := [2]*outbox.Outbox{startOutbox(t, pools[0]), startOutbox(t, pools[1])}
	readers := [2]*reader{subscribe(t, boxes[0].Hub, outbox.Filter{}), subscribe(t, boxes[1].Hub, outbox.Filter{})}
	var turn int
	var mu sync.Mutex
	total := writers(t, pools[0], 10, 20, func() {
		mu.Lock()
		defer mu.Unlock()
		turn++
		boxes[turn%2].Wake()
	})
	for i, r := range readers {
		eventually(t, "everything delivered", func() bool { return r.has() >= total })
		if r.has() != total || r.failure() != nil {
			t.Fatalf("process %d delivered %d of %d: %v", i, r.has(), total, r.failure())
		}
		checkLog(t, r.events)
	}
}

func TestHubFilters(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	hub := startHub(t, pool)
	mine, other := uuid.New(), uuid.New()
	cases := map[string]struct {
		filter outbox.Filter
		want   []int64
	}{
		"Everything":        {outbox.Filter{}, []int64{1, 2, 3}},
		"Account":           {outbox.Filter{AccountID: "a"}, []int64{1, 3}},
		"Purchase":          {outbox.Filter{PurchaseID: mine}, []int64{1}},
		"PurchaseOfAccount": {outbox.Filter{AccountID: "a", PurchaseID: mine}, []int64{1}},
		"PurchaseOfAnother": {outbox.Filter{AccountID: "b", PurchaseID: mine}, nil},
		"NobodysAccount":    {outbox.Filter{AccountID: "c"}, nil},
	}
	readers := map[string]*reader{}
	for name, c := range cases {
		readers[name] = subscribe(t, hub, c.filter)
	}
	commit(t, pool, mine, "a", 2)
	commit(t, pool, other, "b", 2)
	commit(t, pool, uuid.New(), "a", 2)
	for move(t, pool, 0) > 0 {
		hub.Wake()
	}
	eventually(t, "everything delivered", func() bool { return readers["Everything"].has() == 3 })
	for name, c := range cases {
		eventually(t, name+" delivered", func() bool { return readers[name].has() == len(c.want) })
		if got := fmt.Sprint(readers[name].ids); got != fmt.Sprint(c.want) {
			t.Errorf("%s: got %v, want %v", name, got, c.want)
		}
		read, err := outbox.NewLog(pool).Read(t.Context(), c.filter, 0, 100, 10)
		if err != nil || len(read) != len(c.want) {
			t.Errorf("%s: the log has %d (%v), want %d", name, len(read), err, len(c.want))
		}
	}
}

// fill puts n events into the log.
func fill(t *testing.T, pool *pgxpool.Pool, n int) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), `INSERT INTO outbox (transaction_id, account_id, version, status, previous_status)
		SELECT gen_random_uuid(), 'acct', 2, 'COMPLETED', 'PENDING' FROM generate_series(1, $1)`, n); err != nil {
		t.Fatal(err)
	}
	for move(t, pool, 0) > 0 {
	}
}

// A subscriber that takes nothing holds nothing up and is not ended: it takes the ring's
// events in order, or is referred to the log if the ring no longer has them.
func TestASubscriberThatTakesNothing(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	hub := startHub(t, pool)
	lazy := hub.Subscribe(outbox.Filter{}, 0, func(*outbox.Subscription) {})
	quick := subscribe(t, hub, outbox.Filter{})
	fill(t, pool, 4096)
	eventually(t, "all delivered", func() bool { return quick.has() == 4096 })
	for id := int64(1); id <= 300; {
		messages, _, err := lazy.Take()
		if err != nil || len(messages) == 0 || len(messages) > 256 {
			t.Fatalf("takes %d events, %v", len(messages), err)
		}
		for _, m := range messages {
			if m.ID != id {
				t.Fatalf("takes %d, want %d", m.ID, id)
			}
			id++
		}
	}
	at := lazy.After()
	fill(t, pool, 4096)
	eventually(t, "all delivered", func() bool { return quick.has() == 2*4096 })
	messages, _, err := lazy.Take()
	if !errors.Is(err, outbox.ErrBehind) || len(messages) != 0 || lazy.After() != at || hub.Subscribers() != 2 {
		t.Errorf("takes %d events and %v after %d, want none and %v after %d", len(messages), err, lazy.After(), outbox.ErrBehind, at)
	}
	lazy.Close(nil)
	if n := hub.Subscribers(); n != 1 {
		t.Errorf("%d subscribers", n)
	}
}

// What a filter does not choose costs its subscriber nothing, not even the ring's end.
func TestARareSubscriberDoesNotFallBehind(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	hub := startHub(t, pool)
	rare := subscribe(t, hub, outbox.Filter{AccountID: "rare"})
	all := subscribe(t, hub, outbox.Filter{})
	fill(t, pool, 5000)
	commit(t, pool, uuid.New(), "rare", 2)
	fill(t, pool, 1)
	eventually(t, "all delivered", func() bool { return all.has() == 5002 })
	eventually(t, "the rare one delivered", func() bool { return rare.has() == 1 })
	if err := rare.failure(); err != nil {
		t.Error(err)
	}
}

func TestSubscribeAtACursor(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, 5000)
	hub := startHub(t, pool)
	if at := hub.Position(); at != 5000 {
		t.Fatalf("the hub begins at %d, want 5000", at)
	}
	ignore := func(*outbox.Subscription) {}
	if hub.Subscribe(outbox.Filter{}, 5000-4097, ignore) != nil {
		t.Error("a subscription began before what the ring holds")
	}
	sub := hub.Subscribe(outbox.Filter{}, 5000-4096, ignore)
	if sub == nil {
		t.Fatal("cannot begin with the oldest event of the ring")
	}
	messages, _, err := sub.Take()
	if err != nil || len(messages) != 256 || messages[0].ID != 905 || messages[255].ID != 1160 {
		t.Errorf("it begins with %d events: %v", len(messages), err)
	}
	ahead := &reader{}
	if hub.Subscribe(outbox.Filter{}, 5002, ahead.wake) == nil {
		t.Fatal("cannot wait for an event that another process has delivered")
	}
	fill(t, pool, 4)
	eventually(t, "the rest delivered", func() bool { return ahead.has() == 2 })
	if ahead.ids[0] != 5003 {
		t.Errorf("it begins with %d, want 5003", ahead.ids[0])
	}
}

func TestNudge(t *testing.T) {
	t.Parallel()
	hub := startHub(t, pgtest.New(t))
	woken := 0
	sub := hub.Subscribe(outbox.Filter{}, 0, func(*outbox.Subscription) { woken++ })
	sub.WakeIdle()
	sub.WakeIdle()
	if _, nudged, err := sub.Take(); woken != 1 || !nudged || err != nil {
		t.Errorf("woken %d times, nudged %v, %v", woken, nudged, err)
	}
	sub.WakeIdle()
	if woken != 1 {
		t.Errorf("woken again without a Take that found nothing")
	}
	sub.Take()
	sub.Take()
	sub.WakeIdle()
	if woken != 2 {
		t.Errorf("woken %d times, want 2", woken)
	}
	sub.Close(nil)
	if _, _, err := sub.Take(); !errors.Is(err, outbox.ErrClosed) || hub.Subscribers() != 0 {
		t.Errorf("closed: %v, %d subscribers", err, hub.Subscribers())
	}
}

func TestHubEndsAllWhereTheLogWentBack(t *testing.T) {
	t.Parallel()
	pool := pgtest.New(t)
	fill(t, pool, 10)
	hub := startHub(t, pool)
	r := subscribe(t, hub, outbox.Filter{AccountID: "acct"})
	if _, err := pool.Exec(t.Context(), "DELETE FROM purchase_event WHERE id > 4"); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the subscription ends", func() bool { return errors.Is(r.failure(), outbox.ErrReset) })
	after := subscribe(t, hub, outbox.Filter{})
	fill(t, pool, 1)
	eventually(t, "the hub goes on", func() bool { return after.has() == 1 })
	if after.ids[0] != 5 {
		t.Errorf("it goes on with %d, want 5", after.ids[0])
	}
}
