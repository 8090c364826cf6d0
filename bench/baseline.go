package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/go-chi/chi/v5"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
)

// The two statements of a purchase, each a transaction of its own.
const (
	baselineRecord = `
WITH held AS (
    UPDATE baseline_account SET available = available - $7::numeric, reserved = reserved + $7::numeric
    WHERE id = $2 AND available >= $7::numeric
    RETURNING id
)
INSERT INTO baseline_purchase (id, account_id, key, status, symbol, quantity, limit_price, hold)
SELECT $1, id, $3, 'PENDING', $4, $5::numeric, $6::numeric, $7::numeric FROM held`

	baselineSettle = `
WITH moved AS (
    UPDATE baseline_purchase SET status = 'COMPLETED', order_id = $2, next_retry = NULL, settled_at = now()
    WHERE id = $1 AND status = $3
    RETURNING id, account_id, hold
), money AS (
    UPDATE baseline_account a SET reserved = a.reserved - m.hold, spent = a.spent + m.hold
    FROM moved m WHERE a.id = m.account_id
)
INSERT INTO baseline_outbox (purchase_id, account_id, status) SELECT id, account_id, 'COMPLETED' FROM moved`
)

// baselinePool is as large as the product's for requests.
const baselinePool = 16

//go:embed baseline.sql
var baselineSQL string

func (l *env) fillBaseline(conn *pgx.Conn) error {
	if _, err := conn.Exec(l.ctx, baselineSQL); err != nil {
		return fmt.Errorf("make baseline tables: %w", err)
	}
	_, err := conn.Exec(l.ctx, "INSERT INTO baseline_account (id, available) SELECT 'bench-' || i, 1000000000000 FROM generate_series(0, $1::integer - 1) i", l.o.Accounts)
	if err != nil {
		return fmt.Errorf("make baseline accounts: %w", err)
	}
	_, err = conn.Exec(l.ctx, "VACUUM ANALYZE")
	return err
}

// baseline is the bare server: chi, pgxpool, the two statements. With a broker's address
// it calls the broker between them, as a purchase must.
type baseline struct {
	pool   *pgxpool.Pool
	broker string
	client *http.Client
}

type baselineOrder struct {
	AccountID  string `json:"account_id"`
	Symbol     string `json:"symbol"`
	Quantity   string `json:"quantity"`
	LimitPrice string `json:"limit_price"`
}

func newBaseline(ctx context.Context, url, broker string) (*baseline, error) {
	pool, err := poolOf(ctx, url, baselinePool)
	if err != nil {
		return nil, err
	}
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 64}, Timeout: answerPatience}
	return &baseline{pool: pool, broker: broker, client: client}, nil
}

func poolOf(ctx context.Context, url string, size int32) (*pgxpool.Pool, error) {
	config, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	config.MaxConns = size
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, fmt.Errorf("open pool: %w", err)
	}
	return pool, nil
}

func (f *baseline) handler() http.Handler {
	router := chi.NewRouter()
	router.Post("/v1/purchases", f.buy)
	router.Handle("/metrics", runtimeMetrics())
	return router
}

func (f *baseline) buy(w http.ResponseWriter, r *http.Request) {
	var order baselineOrder
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	id, err := f.purchase(r.Context(), order, r.Header.Get("Idempotency-Key"))
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]string{"id": id.String(), "account_id": order.AccountID, "status": "COMPLETED"})
}

func (f *baseline) purchase(ctx context.Context, order baselineOrder, key string) (uuid.UUID, error) {
	id, err := uuid.NewV7()
	if err != nil {
		return id, fmt.Errorf("make id: %w", err)
	}
	if err := changed(f.pool.Exec(ctx, baselineRecord, id, order.AccountID, key, order.Symbol, order.Quantity, order.LimitPrice, "250.00")); err != nil {
		return id, fmt.Errorf("record: %w", err)
	}
	if f.broker != "" {
		if err := f.call(ctx, id, order); err != nil {
			return id, fmt.Errorf("call broker: %w", err)
		}
	}
	if err := changed(f.pool.Exec(ctx, baselineSettle, id, "o-"+id.String(), "PENDING")); err != nil {
		return id, fmt.Errorf("settle: %w", err)
	}
	return id, nil
}

// changed fails a statement that did not write its one row.
func changed(tag interface{ RowsAffected() int64 }, err error) error {
	if err == nil && tag.RowsAffected() != 1 {
		return errors.New("nothing was written")
	}
	return err
}

func (f *baseline) call(ctx context.Context, id uuid.UUID, order baselineOrder) error {
	body, err := json.Marshal(order)
	if err != nil {
		return err
	}
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, f.broker+"/v1/orders", strings.NewReader(string(body)))
	if err != nil {
		return err
	}
	request.Header.Set("Idempotency-Key", id.String())
	answer, err := f.client.Do(request)
	if err != nil {
		return err
	}
	defer answer.Body.Close()
	var said struct{ Status string }
	if err := json.NewDecoder(answer.Body).Decode(&said); err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, answer.Body)
	return err
}

// sessions measures the two statements from concurrent sessions, with no HTTP.
func (l *env) sessions(database string, count int) (Values, error) {
	pool, err := poolOf(l.ctx, l.url(database), int32(count))
	if err != nil {
		return nil, err
	}
	defer pool.Close()
	f, run := &baseline{pool: pool}, l.counter.Add(1)
	each, failures := make([][]time.Duration, count), make([]error, count)
	start := time.Now()
	var sessions sync.WaitGroup
	for i := range count {
		sessions.Go(func() {
			each[i], failures[i] = f.session(l.ctx, start.Add(l.o.Duration), l.o.Accounts, fmt.Sprint(run, "-", i))
		})
	}
	sessions.Wait()
	took := time.Since(start)
	latencies := slices.Concat(each...)
	values := spread(latencies)
	values["per_second"] = float64(len(latencies)) / took.Seconds()
	return values, errors.Join(failures...)
}

func (f *baseline) session(ctx context.Context, until time.Time, accounts int, name string) ([]time.Duration, error) {
	var latencies []time.Duration
	for i := 0; time.Now().Before(until); i++ {
		began := time.Now()
		order := baselineOrder{AccountID: accountID(rand.IntN(accounts)), Symbol: "AAPL", Quantity: "10", LimitPrice: "25.00"}
		if _, err := f.purchase(ctx, order, fmt.Sprint("s", name, "-", i)); err != nil {
			return nil, err
		}
		latencies = append(latencies, time.Since(began))
	}
	return latencies, nil
}
