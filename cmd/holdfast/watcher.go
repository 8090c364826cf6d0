package main

import (
	"sync"

	"github.com/google/uuid"

	"holdfast/outbox"
)

// watcher tells waiting requests of changes of one purchase, as the hub delivers them.
// Where it cannot, the channel stays silent and the request looks for itself.
func watcher(hub *outbox.Hub) func(id uuid.UUID) (<-chan struct{}, func()) {
	return func(id uuid.UUID) (<-chan struct{}, func()) {
		woken, changed := make(chan struct{}, 1), make(chan struct{}, 1)
		sub := hub.Subscribe(outbox.Filter{PurchaseID: id}, hub.Position(), func(*outbox.Subscription) { poke(woken) })
		if sub == nil {
			return nil, func() {}
		}
		var done sync.WaitGroup
		done.Go(func() { forward(sub, woken, changed) })
		return changed, func() { sub.Close(nil); done.Wait() }
	}
}

// forward pokes changed after each event, until the subscription is closed: that wakes
// it too.
func forward(sub *outbox.Subscription, woken <-chan struct{}, changed chan<- struct{}) {
	for range woken {
		for {
			messages, _, err := sub.Take()
			if err != nil {
				return
			}
			if len(messages) == 0 {
				break
			}
			poke(changed)
		}
	}
}

func poke(c chan<- struct{}) {
	select {
	case c <- struct{}{}:
	default:
	}
}
