package main

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/jackc/pgx/v5"
)

// graceSlack is how far the grace of an interrupted purchase is above the broker's timeout.
const graceSlack = time.Second

func (o Options) grace() time.Duration { return o.BrokerTimeout + graceSlack }

// crash measures a start after kill -9: every purchase was with the broker, which had
// booked it and not answered.
func (l *env) crash() ([]Case, error) {
	c, err := l.compare(fmt.Sprintf("%d interrupted", l.o.Interrupted), []string{"all_s"},
		subject{"holdfast", l.recovery})
	c.Note = "from the start of the new process until every purchase is final; their grace was over by then, and no rate holds the lookups back"
	return []Case{c}, err
}

func (l *env) recovery() (Values, error) {
	settings := append([]string{
		"HOLDFAST_BROKER_TIMEOUT=" + l.o.BrokerTimeout.String(), "HOLDFAST_PENDING_GRACE=" + l.o.grace().String(),
		fmt.Sprint("HOLDFAST_BROKER_MAX_IN_FLIGHT=", 2*l.o.Interrupted), "HOLDFAST_BREAKER_FAILURES=0",
	}, unlimited...)
	product, err := l.product(settings...)
	if err != nil {
		return nil, err
	}
	if err := l.interrupt(product); err != nil {
		return nil, err
	}
	if err := l.awaitGrace(product.database); err != nil {
		return nil, err
	}
	started := time.Now()
	again, err := l.serve(product.database, settings...)
	if err != nil {
		return nil, err
	}
	values := Values{}
	err = l.with(product.database, func(conn *pgx.Conn) error {
		if err := awaitNone(l.ctx, conn, "transaction_history"); err != nil {
			return err
		}
		var last time.Time
		err := conn.QueryRow(l.ctx, "SELECT max(settled_at) FROM transaction_history WHERE status = 'COMPLETED'").Scan(&last)
		values["all_s"] = last.Sub(started).Seconds()
		return err
	})
	again.kill()
	return values, err
}

// interrupt sends the purchases to a broker that hangs and kills the process when all
// are with it.
func (l *env) interrupt(product *server) error {
	l.broker.stalled.Store(0)
	l.broker.stall.Store(true)
	defer l.broker.stall.Store(false)
	run := l.counter.Add(1)
	clients := make([]*client, l.o.Interrupted)
	defer closeAll(clients)
	var sending sync.WaitGroup
	failures := make([]error, l.o.Interrupted)
	for i := range clients {
		sending.Go(func() {
			if clients[i], failures[i] = dial(l.ctx, product.addr); failures[i] == nil {
				failures[i] = clients[i].send(i%l.o.Accounts, fmt.Sprintf("crash-%d-%d", run, i))
			}
		})
	}
	sending.Wait()
	if err := errors.Join(failures...); err != nil {
		return err
	}
	if err := l.awaitStalled(); err != nil {
		return err
	}
	product.kill()
	return nil
}

func closeAll(clients []*client) {
	for _, c := range clients {
		if c != nil {
			c.close()
		}
	}
}

func (l *env) awaitStalled() error {
	ctx, cancel := context.WithTimeout(l.ctx, l.o.BrokerTimeout)
	defer cancel()
	for l.broker.stalled.Load() < int64(l.o.Interrupted) {
		select {
		case <-ctx.Done():
			return fmt.Errorf("only %d of %d purchases reached the broker in time", l.broker.stalled.Load(), l.o.Interrupted)
		case <-time.After(startPoll):
		}
	}
	return nil
}

// awaitGrace waits until every purchase counts as interrupted.
func (l *env) awaitGrace(database string) error {
	var youngest time.Time
	var count int
	err := l.query(database, "SELECT count(*), max(created_at) FROM transaction_history WHERE status = 'PENDING'", nil, &count, &youngest)
	if err != nil {
		return fmt.Errorf("count interrupted purchases: %w", err)
	}
	if count != l.o.Interrupted {
		return fmt.Errorf("%d purchases are interrupted, not %d", count, l.o.Interrupted)
	}
	time.Sleep(time.Until(youngest.Add(l.o.grace())))
	return nil
}
