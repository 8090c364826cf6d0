package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"holdfast/internal/localpg"
)

// ownPostgres is a server that the test may stop. start restarts it on the same address.
func ownPostgres(t *testing.T) (start func() *localpg.Server, first *localpg.Server) {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "postgres")
	start = func() *localpg.Server {
		t.Helper()
		server, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = server.Stop(context.Background()) })
		return server
	}
	return start, start()
}

func stopPostgres(t *testing.T, stop func(context.Context) error) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	if err := stop(ctx); err != nil {
		t.Fatal(err)
	}
}

// While the database is unavailable, startup waits for it and logs that. A running process is
// not ready then, accepts no purchase, and resumes automatically when the database is back.
func TestDatabaseComesAndGoes(t *testing.T) {
	t.Parallel()
	start, server := ownPostgres(t)
	settings := append([]string{"HOLDFAST_DATABASE_URL=" + server.URL(), "HOLDFAST_DATA_DIR=" + t.TempDir()}, quick...)
	must(t, settings, "migrate")
	must(t, settings, "account", "create", "--id", "acct-1", "--currency", "USD", "--available", "1000")
	key := lastLine(must(t, settings, "key", "create", "--scope", "client", "--account", "acct-1"))
	stopPostgres(t, server.Stop)

	s := begin(t, settings)
	eventually(t, "waiting", func() error {
		if !strings.Contains(s.err.String(), "waiting for the database") {
			return errors.New(s.err.String())
		}
		return nil
	})
	server = start()
	eventually(t, "listening", func() error {
		if s.addr = listening(s.err.String()); s.addr == "" {
			return errors.New(s.err.String())
		}
		return nil
	})
	_, first := s.buy(key, "acct-1", "AAPL", "k1")
	s.awaitStatus(key, first.ID, "COMPLETED")
	seen := s.follow(key)

	stopPostgres(t, server.Crash)
	a, err := s.call(http.MethodPost, "/v1/purchases", key, order("acct-1", "AAPL"), "Idempotency-Key", "k2")
	if err != nil || a.status != http.StatusServiceUnavailable || a.header.Get("Retry-After") == "" {
		t.Errorf("purchase without a database: %d, %v: %s", a.status, err, a.body)
	}
	if a, err = s.call(http.MethodGet, "/readyz", "", ""); err != nil || a.status != http.StatusServiceUnavailable {
		t.Errorf("/readyz: %d, %v", a.status, err)
	}
	start()
	var second purchaseView
	eventually(t, "back", func() error {
		a, second = s.buy(key, "acct-1", "ERR500-BOOKED", "k3")
		if a.status != http.StatusAccepted {
			return fmt.Errorf("%d: %s", a.status, a.body)
		}
		return nil
	})
	second = s.awaitStatus(key, second.ID, "COMPLETED")
	eventually(t, "events", func() error { return wholeStory(seen(), second) })
	auditHolds(t, settings)
}

// A database error that waiting cannot fix is reported immediately.
func TestWrongDatabaseIsToldAtOnce(t *testing.T) {
	t.Parallel()
	_, server := ownPostgres(t)
	began := time.Now()
	r := command(t, []string{"HOLDFAST_DATABASE_URL=" + strings.Replace(server.URL(), "/holdfast?", "/none?", 1), "HOLDFAST_ADDR=127.0.0.1:0"},
		"serve", "--log-level", "error")
	if r.code != exitFailed || !strings.Contains(r.err, "none") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("exit %d: %q", r.code, r.err)
	}
	if took := time.Since(began); took > 15*time.Second {
		t.Errorf("took %s", took)
	}
}
