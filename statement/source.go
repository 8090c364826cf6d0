package statement

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/broker"
)

// maxOrders bounds how many orders one comparison keeps in memory, a gigabyte or so.
const maxOrders = 2_000_000

// ErrTooMany is returned if a window has more orders than are compared at once.
var ErrTooMany = fmt.Errorf("more than %d orders in one window; match a shorter one", maxOrders)

// source yields the orders that were created since one moment (inclusive) and before
// another, each at least once.
type source interface {
	each(ctx context.Context, since, until time.Time, yield func(broker.ListedOrder) error) error
}

// fileSource is a list that was given.
type fileSource []broker.ListedOrder

func (s fileSource) each(_ context.Context, since, until time.Time, yield func(broker.ListedOrder) error) error {
	for _, o := range s {
		if o.CreatedAt.Before(since) || !o.CreatedAt.Before(until) {
			continue
		}
		if err := yield(o); err != nil {
			return err
		}
	}
	return nil
}

// brokerSource asks the broker, page by page, at the workers' rate.
type brokerSource struct {
	lister  broker.Lister
	gate    *broker.Gate
	timeout time.Duration
	// paged is called after each page.
	paged func(context.Context) error
}

func (s brokerSource) each(ctx context.Context, since, until time.Time, yield func(broker.ListedOrder) error) error {
	window := broker.Window{Since: since, Until: until}
	for {
		page, err := s.page(ctx, window)
		if err != nil {
			return fmt.Errorf("list orders: %w", err)
		}
		for _, o := range page.Orders {
			if o.CreatedAt.Before(since) || !o.CreatedAt.Before(until) {
				continue // the broker rounds the window
			}
			if err := yield(o); err != nil {
				return err
			}
		}
		if page.NextCursor == "" {
			return nil
		}
		if page.NextCursor == window.Cursor {
			return errors.New("list orders: a page names itself as the next one")
		}
		window.Cursor = page.NextCursor
		if err := s.paged(ctx); err != nil {
			return err
		}
	}
}

// page makes one call. It never counts as a failure to the breaker: a broker that cannot
// list may well take orders.
func (s brokerSource) page(ctx context.Context, window broker.Window) (broker.Page, error) {
	if err := s.gate.WaitTurn(ctx); err != nil {
		return broker.Page{}, err
	}
	call, err := s.gate.Enter()
	if err != nil {
		return broker.Page{}, err
	}
	defer call.Cancel()
	ctx, cancel := context.WithTimeout(ctx, s.timeout)
	defer cancel()
	return s.lister.List(ctx, window)
}
