package main

import (
	"context"
	"errors"
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testkit/pgtest"
	"holdfast/postgres"
)

// A firewall restarts and forgets every connection to the database: neither side is notified,
// and everything sent on them is dropped. Purchases and events continue over new connections.
func TestNetworkForgetsItsConnections(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	way := networkTo(t, cluster)
	w := setupOn(t, way.url(), patient...)
	f := startTraffic(t, w, launch(t, w.settings))
	f.flows(20)
	way.lose(false)
	took := f.flows(20)
	t.Logf("purchases and events continue after %s", took.Round(time.Millisecond))
	if took > 20*time.Second {
		t.Error("that is too long")
	}
	f.end(w.settings, cluster.URL())
}

// The first host of an address is silent from the start: the next one is used.
func TestStartsPastASilentHost(t *testing.T) {
	t.Parallel()
	cluster := pgtest.Own(t)
	silent, way := networkTo(t, cluster), networkTo(t, cluster)
	silent.lose(true)
	w := setupOn(t, cluster.URL())
	w.settings = append(w.settings, "HOLDFAST_DATABASE_URL=postgres://holdfast@"+silent.listener.Addr().String()+","+
		way.listener.Addr().String()+"/holdfast?sslmode=disable&target_session_attrs=read-write&connect_timeout=1")
	s := launch(t, w.settings)
	_, p := s.buy(w.client, "acct-1", "ERR500-BOOKED", "k")
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	auditHolds(t, w.settings)
}

// A shutdown ends in time although statements wait for a silent database, and also while
// startup still waits for it.
func TestStopsWhileTheDatabaseIsSilent(t *testing.T) {
	t.Parallel()
	const atMost = 4 * time.Second
	cluster := pgtest.Own(t)
	way := networkTo(t, cluster)
	w := setupOn(t, way.url(), "HOLDFAST_SHUTDOWN_TIMEOUT="+atMost.String())
	s := launch(t, w.settings)
	s.openStream(w.client)
	_, p := s.buy(w.client, "acct-1", "AAPL", "k1")
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	way.lose(true)
	var hanging sync.WaitGroup
	hanging.Go(func() {
		a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k2")
		if err == nil && a.status != http.StatusServiceUnavailable {
			t.Errorf("a purchase without a database: %d: %s", a.status, a.body)
		}
	})
	eventually(t, "not ready", func() error {
		if a, err := s.call(http.MethodGet, "/readyz", "", ""); err != nil || a.status != http.StatusServiceUnavailable {
			return errors.Join(err, errors.New("ready"))
		}
		return nil
	})
	stopsWithin(t, s, atMost+3*time.Second)
	hanging.Wait()

	s = begin(t, w.settings)
	eventually(t, "waiting", func() error {
		if !strings.Contains(s.err.String(), "waiting for the database") {
			return errors.New(s.err.String())
		}
		return nil
	})
	stopsWithin(t, s, atMost)
}

func stopsWithin(t *testing.T, s *serving, d time.Duration) {
	t.Helper()
	began := time.Now()
	s.stop()
	if took := time.Since(began); took > d {
		t.Errorf("the stop took %s", took)
	}
}

// A pool's statement ends at its limit although nothing else bounds it and the server is
// silent, and its connection is free at once.
func TestEveryStatementHasAnEnd(t *testing.T) {
	t.Parallel()
	way := networkTo(t, pgtest.Own(t))
	pool, err := postgres.OpenPool(t.Context(), way.url(), postgres.PoolParams{
		Name: "test", Size: 1, Serving: true, Limits: postgres.Limits{Statement: 200 * time.Millisecond},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
		t.Fatal(err)
	}
	way.lose(false)
	for what, do := range map[string]func() error{
		"statement": func() error { _, err := pool.Exec(t.Context(), "SELECT 1"); return err },
		"query":     func() error { var n int; return pool.QueryRow(t.Context(), "SELECT 1").Scan(&n) },
		"batch": func() error {
			b := &pgx.Batch{}
			b.Queue("SELECT 1")
			return pool.SendBatch(t.Context(), b).Close()
		},
	} {
		began := time.Now()
		if err := do(); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("%s on a silent connection: %v", what, err)
		}
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %s to end", what, took)
		}
		if _, err := pool.Exec(t.Context(), "SELECT 1"); err != nil {
			t.Errorf("after the %s: %v", what, err)
		}
		if took := time.Since(began); took > 6*time.Second {
			t.Errorf("%s: its connection was free after %s", what, took)
		}
		way.lose(false)
	}
}
