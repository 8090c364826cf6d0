package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"slices"
	"sync"
	"time"
)

// answerPatience bounds one answer: a bench that waits permanently measures nothing.
const answerPatience = 30 * time.Second

// load is a number of clients, each with a connection that it keeps, which buy one
// purchase after the other.
type load struct {
	addr     string
	clients  int
	accounts int
	// run sets the keys apart from every other load's.
	series int64
	// pause is left between two purchases of a client.
	pause time.Duration
	// until ends the load; a purchase in progress is finished.
	until time.Time
	// want is how many purchases there are at most in all; 0: no limit but until.
	want int
}

// runLoad measures a load of the usual length.
func (l *env) runLoad(s *server, clients, accounts int) (Values, error) {
	return l.load(s, clients, accounts).values(l.ctx)
}

func (l *env) load(s *server, clients, accounts int) load {
	return load{
		addr: s.addr, clients: clients, accounts: accounts, series: l.counter.Add(1), until: time.Now().Add(l.o.Duration),
	}
}

// warm brings fresh servers to speed: connections, prepared statements, caches.
func (l *env) warm(servers ...*server) error {
	for _, s := range servers {
		warming := l.load(s, l.o.Busy, l.o.Accounts)
		warming.until = time.Now().Add(l.o.Duration / 2)
		if _, _, err := warming.run(l.ctx); err != nil {
			return fmt.Errorf("warm up: %w", err)
		}
	}
	return nil
}

func (d load) values(ctx context.Context) (Values, error) {
	latencies, took, err := d.run(ctx)
	if err != nil {
		return nil, err
	}
	values := spread(latencies)
	values["per_second"] = float64(len(latencies)) / took.Seconds()
	return values, nil
}

// run runs the load and returns how long each purchase took, and all of them together.
func (d load) run(ctx context.Context) ([]time.Duration, time.Duration, error) {
	each := make([][]time.Duration, d.clients)
	failures := make([]error, d.clients)
	start := time.Now()
	var clients sync.WaitGroup
	for i := range d.clients {
		clients.Go(func() { each[i], failures[i] = d.client(ctx, i) })
	}
	clients.Wait()
	return slices.Concat(each...), time.Since(start), errors.Join(failures...)
}

func (d load) client(ctx context.Context, number int) ([]time.Duration, error) {
	c, err := dial(ctx, d.addr)
	if err != nil {
		return nil, err
	}
	defer c.close()
	var latencies []time.Duration
	share := (d.want + d.clients - 1) / d.clients
	for i := 0; time.Now().Before(d.until) && (d.want == 0 || i < share) && ctx.Err() == nil; i++ {
		began := time.Now()
		if err := c.buy(rand.IntN(d.accounts), fmt.Sprintf("b%d-%d-%d", d.series, number, i)); err != nil {
			return latencies, err
		}
		latencies = append(latencies, time.Since(began))
		if d.pause > 0 {
			time.Sleep(d.pause)
		}
	}
	return latencies, ctx.Err()
}

// client is one kept connection. It is hand-made so that the clients, on the same
// machine, take little from the server they measure.
type client struct {
	conn   net.Conn
	reader *bufio.Reader
	buffer bytes.Buffer
}

func dial(ctx context.Context, addr string) (*client, error) {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("connect: %w", err)
	}
	return &client{conn: conn, reader: bufio.NewReader(conn)}, nil
}

func (c *client) close() { _ = c.conn.Close() }

// buy makes one purchase, and fails unless it is completed.
func (c *client) buy(account int, key string) error {
	if err := c.send(account, key); err != nil {
		return err
	}
	answer, err := http.ReadResponse(c.reader, nil)
	if err != nil {
		return fmt.Errorf("buy: %w", err)
	}
	defer answer.Body.Close()
	if answer.StatusCode == http.StatusCreated {
		_, err := io.Copy(io.Discard, answer.Body)
		return err
	}
	text, _ := io.ReadAll(io.LimitReader(answer.Body, 1000))
	return fmt.Errorf("buy: answer %d: %s", answer.StatusCode, text)
}

func (c *client) send(account int, key string) error {
	body := fmt.Sprintf(`{"account_id":"%s","symbol":"AAPL","quantity":"10","limit_price":"25.00","currency":"USD"}`, accountID(account))
	c.buffer.Reset()
	fmt.Fprintf(&c.buffer, "POST /v1/purchases HTTP/1.1\r\nHost: bench\r\nAuthorization: Bearer %s\r\nIdempotency-Key: %s\r\n"+
		"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", clientKey(account), key, len(body), body)
	if err := c.conn.SetDeadline(time.Now().Add(answerPatience)); err != nil {
		return fmt.Errorf("buy: %w", err)
	}
	if _, err := c.conn.Write(c.buffer.Bytes()); err != nil {
		return fmt.Errorf("buy: %w", err)
	}
	return nil
}
