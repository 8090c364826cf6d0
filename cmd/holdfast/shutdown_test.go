package main

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sandbox"
)

// With the shortest allowed shutdown, a call that takes its whole timeout still gets its
// answer, with a worker's pass in progress too.
func TestShortestShutdownAnswersTheLongestCall(t *testing.T) {
	t.Parallel()
	w := setup(t, "HOLDFAST_BROKER_TIMEOUT=3s", "HOLDFAST_RESCUE_AFTER=30s", "HOLDFAST_PENDING_GRACE=20s",
		"HOLDFAST_SHUTDOWN_TIMEOUT=5s", "HOLDFAST_BREAKER_FAILURES=0")
	if err := w.broker.Script(sandbox.Response{Delay: sandbox.Duration(time.Minute)}); err != nil {
		t.Fatal(err)
	}
	s := launch(t, w.settings)
	var answered sync.WaitGroup
	answered.Go(func() {
		a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", "k")
		if err != nil || a.status != http.StatusAccepted {
			t.Errorf("answer %d, %v: %s", a.status, err, a.body)
		}
	})
	awaitPlace(t, w)
	if code := s.stop(); code != exitDone {
		t.Errorf("exit %d", code)
	}
	answered.Wait()
	auditHolds(t, w.settings)
}

func awaitPlace(t *testing.T, w *world) {
	t.Helper()
	eventually(t, "the call is in progress", func() error {
		if w.broker.Ledger("").Places == 0 {
			return errors.New("no place yet")
		}
		return nil
	})
}

// During the shutdown delay new connections are served as before, purchases too; only readiness
// reports that the process is about to end.
func TestShutdownDelayServes(t *testing.T) {
	t.Parallel()
	const delay = 2 * time.Second
	w := setup(t, "HOLDFAST_SHUTDOWN_DELAY="+delay.String())
	s := launch(t, w.settings)
	if err := s.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	eventually(t, "not ready", func() error {
		if a, err := s.call(http.MethodGet, "/readyz", "", ""); err != nil || a.status != http.StatusServiceUnavailable {
			return fmt.Errorf("%d, %w", a.status, err)
		}
		return nil
	})
	bought := 0
	for began := time.Now(); time.Since(began) < delay*3/4; bought++ {
		a, err := s.call(http.MethodPost, "/v1/purchases", w.client, order("acct-1", "AAPL"), "Idempotency-Key", fmt.Sprint("k", bought))
		if err != nil || a.status != http.StatusCreated && a.status != http.StatusBadRequest {
			t.Fatalf("purchase %d: %d, %v: %s", bought, a.status, err, a.body)
		}
	}
	<-s.ended
	if code := s.cmd.ProcessState.ExitCode(); code != exitDone || bought == 0 {
		t.Errorf("exit %d after %d purchases", code, bought)
	}
}

// Closing a terminal or session (SIGHUP) is a clean shutdown.
func TestHangupIsACleanShutdown(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	if err := s.cmd.Process.Signal(syscall.SIGHUP); err != nil {
		t.Fatal(err)
	}
	select {
	case <-s.ended:
	case <-time.After(waitTimeout):
		t.Fatal("still running")
	}
	if code := s.cmd.ProcessState.ExitCode(); code != exitDone || !strings.Contains(s.err.String(), `"msg":"stopped"`) {
		t.Errorf("exit %d", code)
	}
}

// Only LISTEN needs the direct connection: commands and passes do not.
func TestUnreachableListenURL(t *testing.T) {
	t.Parallel()
	w := setupOn(t, pgtest.NewURL(t))
	w.settings = append(w.settings, "HOLDFAST_LISTEN_DATABASE_URL=postgres://holdfast@127.0.0.1:1/holdfast?connect_timeout=1")
	auditHolds(t, w.settings)
	must(t, w.settings, "account", "list")
	must(t, w.settings, "key", "list")
	s := launch(t, w.settings)
	_, p := s.buy(w.client, "acct-1", "ERR500-BOOKED", "k")
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	auditHolds(t, w.settings)
}

// A brokers file with one broker serves it.
func TestBrokersFileServes(t *testing.T) {
	t.Parallel()
	w := setup(t)
	var settings []string
	var url string
	for _, pair := range w.settings {
		if rest, ok := strings.CutPrefix(pair, "HOLDFAST_BROKER_URL="); ok {
			url = rest
		} else if !strings.HasPrefix(pair, "HOLDFAST_BROKER=") {
			settings = append(settings, pair)
		}
	}
	path := filepath.Join(t.TempDir(), "brokers.yaml")
	text := fmt.Sprintf("brokers:\n  - {name: alpha, kind: http, url: %q, retry_base: 100ms}\n", url)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	s := launch(t, append(settings, "HOLDFAST_BROKERS_FILE="+path))
	_, p := s.buy(w.client, "acct-1", "ERR500-BOOKED", "k")
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	var broker string
	if err := pgtest.Pool(t, w.database).QueryRow(t.Context(), "SELECT broker FROM transaction_history").Scan(&broker); err != nil || broker != "alpha" {
		t.Errorf("broker %q, %v", broker, err)
	}
}
