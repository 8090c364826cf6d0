package api_test

import (
	"context"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/api"
	"holdfast/outbox"
)

// live has what setup leaves out: events, and a worker that settles what is unknown.
func live(t *testing.T) *world {
	t.Helper()
	var streams *api.Streams
	var box *outbox.Outbox
	w := setup(t, func(p *api.Params) {
		box = outbox.New(outbox.Config{Pool: p.Pool, Keep: time.Hour, Encode: api.EncodeEvent})
		streams = api.NewStream(api.StreamParams{
			Hub: box.Hub, Events: box.Events, Keys: p.Keys, Accounts: p.Accounts, Purchases: p.Purchases,
		})
		p.Streams, p.Hub = streams, box.Hub
	})
	w.committed = box.Wake
	w.loop(box.Run)
	<-box.Hub.Ready()
	w.loop(w.work)
	t.Cleanup(streams.Close)
	return w
}

func (w *world) loop(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// work passes over what is unknown, as a worker does.
func (w *world) work(ctx context.Context) error {
	for ctx.Err() == nil {
		rows, err := w.pool.Query(ctx, "SELECT id FROM transaction_history WHERE status = 'UNKNOWN'")
		if err != nil {
			return err
		}
		var ids []uuid.UUID
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			_, _ = w.service.Pass(ctx, id, 0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}

// TestWaitIsWokenByTheHub: with the hub a waiting GET hears of a change at once, and not
// only at its next look two seconds later. One quick answer of five proves it, whatever
// else the machine does.
func TestWaitIsWokenByTheHub(t *testing.T) {
	t.Parallel()
	w := live(t)
	quickest := time.Hour
	for range 5 {
		id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		a := w.get("/v1/purchases/"+id, w.client, map[string][]string{"Prefer": {"wait=20"}}).wantPurchase(200, "completed")
		settled, err := time.Parse(time.RFC3339, a.text("settled_at"))
		if err != nil {
			t.Fatal(err)
		}
		if a.header.Get("Preference-Applied") != "" {
			quickest = min(quickest, time.Since(settled))
		}
	}
	if quickest > time.Second {
		t.Errorf("the quickest answer came %v after its purchase was settled", quickest)
	}
}
