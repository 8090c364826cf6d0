package main

import (
	"errors"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sandbox"
)

// An api and a worker process share a database and the sandbox of their data dir.
func TestRoles(t *testing.T) {
	t.Parallel()
	settings := append([]string{"HOLDFAST_DATABASE_URL=" + pgtest.NewURL(t), "HOLDFAST_DATA_DIR=" + t.TempDir()}, quick...)
	must(t, settings, "account", "create", "--id", "acct-1", "--currency", "USD", "--available", "1000")
	key := lastLine(must(t, settings, "key", "create", "--scope", "client", "--account", "acct-1"))
	api := launch(t, settings, "--role", "api")
	_, p := api.buy(key, "acct-1", "DROP-LOST", "k1")
	worker := launch(t, settings, "--role", "worker")
	api.awaitStatus(key, p.ID, "COMPLETED")
	for path, want := range map[string]int{"/healthz": 200, "/readyz": 200, "/metrics": 200, "/v1/purchases": 404} {
		if a, err := worker.call(http.MethodGet, path, key, ""); err != nil || a.status != want {
			t.Errorf("worker's %s: %d, %v; want %d", path, a.status, err, want)
		}
	}
	// The sandbox runs in the api process, which was started first; when that dies the worker
	// takes over.
	api.kill()
	api = launch(t, settings, "--role", "api")
	_, p = api.buy(key, "acct-1", "ERR500-BOOKED", "k2")
	api.awaitStatus(key, p.ID, "COMPLETED")
	auditHolds(t, settings)
}

// A shutdown ends the streams, answers requests that wait for the broker, and exits with 0.
func TestShutdownDrains(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_BROKER_TIMEOUT=10s", "HOLDFAST_RESCUE_AFTER=30s", "HOLDFAST_PENDING_GRACE=20s")
	if err := w.broker.Script(sandbox.Response{Call: "place", Delay: sandbox.Duration(2 * time.Second)}); err != nil {
		t.Fatal(err)
	}
	s := launch(t, w.settings)
	stream := s.openStream(w.client)
	var answered sync.WaitGroup
	answered.Go(func() {
		if a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k"); err != nil || a.status != http.StatusCreated {
			t.Errorf("answer %d, %v: %s", a.status, err, a.body)
		}
	})
	eventually(t, "the call is in progress", func() error {
		if w.broker.Ledger("").Places == 0 {
			return errors.New("no place yet")
		}
		return nil
	})
	if code := s.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	answered.Wait()
	select {
	case <-stream:
	case <-time.After(waitTimeout):
		t.Error("the stream is still open")
	}
	auditHolds(t, w.settings)
}

// While a shutdown waits for a call in progress, new requests are refused.
func TestShutdownAnswersUntilItHasEnded(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_BROKER_TIMEOUT=20s", "HOLDFAST_RESCUE_AFTER=60s", "HOLDFAST_PENDING_GRACE=40s",
		"HOLDFAST_SHUTDOWN_TIMEOUT=40s")
	s := launch(t, w.settings)
	var bought sync.WaitGroup
	bought.Go(func() {
		a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "LATE"), "Idempotency-Key", "late")
		if err != nil || a.status != http.StatusCreated {
			t.Errorf("the purchase in progress: %d, %v", a.status, err)
		}
	})
	eventually(t, "the call is in progress", func() error {
		if w.broker.Ledger("").Places == 0 {
			return errors.New("no place yet")
		}
		return nil
	})
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not ready", func() error {
		if a, err := s.call(http.MethodGet, "/readyz", "", ""); err != nil || a.status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d, %w", a.status, err)
		}
		return nil
	})
	a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "new")
	if err != nil || a.status != http.StatusServiceUnavailable || !strings.Contains(a.body, "unavailable") {
		t.Errorf("a new purchase: %d, %v\n%s", a.status, err, a.body)
	}
	bought.Wait()
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != exitDone {
		t.Errorf("exit %d", code)
	}
}

// A second signal ends the process at once, regardless of what is in progress; nothing is lost.
func TestSecondSignalForces(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_BROKER_TIMEOUT=40s", "HOLDFAST_RESCUE_AFTER=90s", "HOLDFAST_PENDING_GRACE=60s",
		"HOLDFAST_SHUTDOWN_TIMEOUT=45s")
	if err := w.broker.Script(sandbox.Response{Call: "place", Fault: sandbox.FaultStall}); err != nil {
		t.Fatal(err)
	}
	s := launch(t, w.settings)
	var answered sync.WaitGroup
	answered.Go(func() {
		_, _ = s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k")
	})
	eventually(t, "the call is in progress", func() error {
		if w.broker.Ledger("").Places == 0 {
			return errors.New("no place yet")
		}
		return nil
	})
	start := time.Now()
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	eventually(t, "stopping", func() error {
		if !strings.Contains(s.err.String(), `"stopping"`) {
			return errors.New("not yet")
		}
		return nil
	})
	if code := s.stop(); code != exitFailed {
		t.Errorf("exit %d", code)
	}
	answered.Wait()
	if took := time.Since(start); took > 30*time.Second {
		t.Errorf("took %s", took)
	}
}

func TestMetricsOnAnAddressOfTheirOwn(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_METRICS_ADDR=127.0.0.1:0")
	s := launch(t, w.settings)
	if a, err := s.call(http.MethodGet, "/metrics", "", ""); err != nil || a.status != http.StatusNotFound {
		t.Errorf("/metrics on the API's address: %d, %v", a.status, err)
	}
	_, p := s.buy(w.client, "acct-1", "AAPL", "k")
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	apart := &serving{t: t, addr: field(s.err.String(), "metrics_addr")}
	a, err := apart.call(http.MethodGet, "/metrics", "", "")
	if err != nil || !strings.Contains(a.body, `holdfast_purchases_total{status="completed"} 1`) {
		t.Errorf("metrics: %d, %v\n%s", a.status, err, a.body)
	}
}

// field finds the first value of a field in a JSON log.
func field(log, name string) string {
	_, rest, _ := strings.Cut(log, `"`+name+`":"`)
	value, _, _ := strings.Cut(rest, `"`)
	return value
}

// openStream opens a stream and returns what is closed when it ends.
func (s *serving) openStream(key string) <-chan struct{} {
	s.t.Helper()
	request, err := http.NewRequest(http.MethodGet, "http://"+s.addr+"/v1/events", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	got, err := (&http.Client{Transport: &http.Transport{DisableKeepAlives: true}}).Do(request)
	if err != nil || got.StatusCode != http.StatusOK {
		s.t.Fatalf("open stream: %v", err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		defer got.Body.Close()
		readEvents(got.Body, func(event) {})
	}()
	return ended
}
