package main

import (
	"context"
	"encoding/json"
	"encoding/pem"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path"
	"path/filepath"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/internal/testkit/pgtest"
)

// lateSend is a purchase whose send is delayed between the decision and the first byte, with a
// broker that checks for every order whether it was still permitted.
type lateSend struct {
	*world
	t      *testing.T
	pool   *pgxpool.Pool
	server *serving
	broker *httptest.Server

	// onLookup runs once, before the first lookup is answered.
	onLookup atomic.Pointer[func()]
	// hold makes the next connection wait until opened is closed, before anything is read from
	// it.
	hold   atomic.Bool
	opened chan struct{}
	open   func()

	mu      sync.Mutex
	arrived int
}

// TestNoOrderIsSentLate delays the process, the database and the network between the decision
// to send an order and its first byte, each for longer than the order may be sent.
func TestNoOrderIsSentLate(t *testing.T) {
	t.Parallel()
	for name, holdUp := range map[string]func(*lateSend){
		"NetworkStallsTheReplay":       func(l *lateSend) { l.stallReplay(false) },
		"ProcessFreezesInTheReplay":    func(l *lateSend) { l.stallReplay(true) },
		"ProcessFreezesInTheFirstCall": (*lateSend).freezeFirstCall,
		"DatabaseStallsTheIntent":      func(l *lateSend) { l.stallIntent(false) },
		"ProcessFreezesInTheIntent":    func(l *lateSend) { l.stallIntent(true) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			l := newLateSend(t)
			holdUp(l)
			l.awaitCompleted()
			auditHolds(t, l.settings)
		})
	}
}

func newLateSend(t *testing.T) *lateSend {
	t.Helper()
	database := pgtest.NewURL(t)
	l := &lateSend{t: t, pool: pgtest.Pool(t, database), opened: make(chan struct{})}
	l.broker = httptest.NewUnstartedServer(http.HandlerFunc(l.serve))
	l.broker.Listener = holdingListener{l.broker.Listener, l}
	l.broker.StartTLS()
	l.open = sync.OnceFunc(func() { close(l.opened) })
	t.Cleanup(func() { l.open(); l.broker.CloseClientConnections(); l.broker.Close() })
	authority := filepath.Join(t.TempDir(), "ca.pem")
	pemBytes := pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: l.broker.Certificate().Raw})
	if err := os.WriteFile(authority, pemBytes, 0o600); err != nil {
		t.Fatal(err)
	}
	// The broker timeout is longer than an order may be sent, so that it is not what
	// prevents a late one.
	l.world = setupOn(t, database, "HOLDFAST_BROKER_URL="+l.broker.URL, "SSL_CERT_FILE="+authority,
		"HOLDFAST_BROKER_TIMEOUT=8s", "HOLDFAST_PENDING_GRACE=12s", "HOLDFAST_RESCUE_AFTER=20s",
		"HOLDFAST_RETRY_MAX_ATTEMPTS=50", "HOLDFAST_BROKER_SETTLE=0s", "HOLDFAST_MATCH_INTERVAL=0", "HOLDFAST_SHUTDOWN_TIMEOUT=12s")
	l.server = launch(t, l.settings)
	return l
}

// holdingListener gives connections to the broker that may have to wait.
type holdingListener struct {
	net.Listener
	late *lateSend
}

func (h holdingListener) Accept() (net.Conn, error) {
	conn, err := h.Listener.Accept()
	if err != nil || !h.late.hold.Swap(false) {
		return conn, err
	}
	return &heldConn{Conn: conn, opened: h.late.opened}, nil
}

// heldConn reads nothing, so that a TLS handshake does not go on, until it is opened.
type heldConn struct {
	net.Conn
	opened <-chan struct{}
}

func (h *heldConn) Read(b []byte) (int, error) {
	<-h.opened
	return h.Conn.Read(b)
}

// serve is a broker that loses the first order and accepts the next one.
func (l *lateSend) serve(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Content-Type", "application/json")
	if r.Method == http.MethodGet {
		l.lookup(w, path.Base(r.URL.Path))
		return
	}
	var order map[string]any
	if err := json.NewDecoder(r.Body).Decode(&order); err != nil {
		l.t.Errorf("read order: %v", err)
	}
	l.checkPermitted()
	if l.count() == 1 {
		panic(http.ErrAbortHandler)
	}
	w.WriteHeader(http.StatusCreated)
	_ = json.NewEncoder(w).Encode(map[string]any{"order_id": "77", "client_order_id": order["client_order_id"], "status": "completed"})
}

func (l *lateSend) lookup(w http.ResponseWriter, key string) {
	if do := l.onLookup.Swap(nil); do != nil {
		(*do)()
	}
	w.WriteHeader(http.StatusNotFound)
	_ = json.NewEncoder(w).Encode(map[string]any{"code": "order_not_found", "client_order_id": key})
}

func (l *lateSend) count() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.arrived++
	return l.arrived
}

// checkPermitted fails the test if an order arrives after its deadline, with some tolerance for
// the time until this line.
func (l *lateSend) checkPermitted() {
	var permitted int
	err := l.pool.QueryRow(context.Background(),
		"SELECT count(*) FROM transaction_history WHERE send_until > clock_timestamp() - interval '1 second'").Scan(&permitted)
	if err != nil || permitted != 1 {
		l.t.Errorf("an order arrived that was not permitted any more (%v)", err)
	}
}

// stallReplay delays the TLS handshake of a replay, with the process frozen or not.
func (l *lateSend) stallReplay(freeze bool) {
	armed := func() { l.hold.Store(true) }
	l.onLookup.Store(&armed)
	l.buy()
	l.await("an intent", "SELECT count(*) FROM broker_attempt WHERE call = 'replay' AND result IS NULL")
	if freeze {
		send(l.t, l.server, syscall.SIGSTOP)
		l.open()
		l.awaitDeadline()
		send(l.t, l.server, syscall.SIGCONT)
	}
	l.await("the replay's end", "SELECT count(*) FROM broker_attempt WHERE call = 'replay' AND result = 'not_sent'")
	l.open()
}

// freezeFirstCall freezes the process while it connects for the first call.
func (l *lateSend) freezeFirstCall() {
	l.mu.Lock()
	l.arrived = 1 // none is lost
	l.mu.Unlock()
	l.hold.Store(true)
	var bought sync.WaitGroup
	bought.Go(l.buy)
	l.await("the record", "SELECT count(*) FROM transaction_history WHERE status = 'PENDING'")
	send(l.t, l.server, syscall.SIGSTOP)
	l.awaitDeadline()
	l.open()
	send(l.t, l.server, syscall.SIGCONT)
	bought.Wait()
}

// stallIntent locks the purchase's row while the intent is written, with the process frozen at
// that time or not.
func (l *lateSend) stallIntent(freeze bool) {
	locked := make(chan pgx.Tx, 1)
	lock := func() {
		tx, err := l.pool.Begin(context.Background())
		if err == nil {
			_, err = tx.Exec(context.Background(), "SELECT FROM transaction_history FOR NO KEY UPDATE")
		}
		if err != nil {
			l.t.Errorf("lock: %v", err)
		}
		locked <- tx
	}
	l.onLookup.Store(&lock)
	l.buy()
	tx := <-locked
	l.await("an intent that waits",
		"SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock' AND query ~ 'IntendReplay'")
	if freeze {
		send(l.t, l.server, syscall.SIGSTOP)
	} else {
		l.sleepInDatabase(5 * time.Second)
	}
	if err := tx.Rollback(context.Background()); err != nil {
		l.t.Error(err)
	}
	if freeze {
		l.await("the intent", "SELECT count(*) FROM broker_attempt WHERE call = 'replay'")
		l.awaitDeadline()
		send(l.t, l.server, syscall.SIGCONT)
	}
}

func (l *lateSend) buy() {
	if a, _ := l.server.buy(l.client, "acct-1", "AAPL", "k"); a.status != http.StatusAccepted {
		l.t.Errorf("the first call's answer is %d, want 202", a.status)
	}
}

// await waits until a count is 1.
func (l *lateSend) await(what, sql string) {
	l.t.Helper()
	eventually(l.t, what, func() error {
		var n int
		if err := l.pool.QueryRow(context.Background(), sql).Scan(&n); err != nil || n < 1 {
			return errors.Join(err, fmt.Errorf("%d", n))
		}
		return nil
	})
}

// awaitDeadline waits until a second after the open intent's deadline.
func (l *lateSend) awaitDeadline() {
	l.t.Helper()
	l.await("the deadline", "SELECT count(*) FROM transaction_history WHERE send_until < clock_timestamp() - interval '1500 milliseconds'")
}

func (l *lateSend) sleepInDatabase(d time.Duration) {
	if _, err := l.pool.Exec(context.Background(), "SELECT pg_sleep($1)", d.Seconds()); err != nil {
		l.t.Error(err)
	}
}

// awaitCompleted waits until the purchase is completed: bought once, by a permitted send.
func (l *lateSend) awaitCompleted() {
	l.t.Helper()
	l.await("the end", "SELECT count(*) FROM transaction_history WHERE status = 'COMPLETED' AND evidence = 'replay'")
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.arrived != 2 {
		l.t.Errorf("%d orders arrived, want the lost one and the one that completed", l.arrived)
	}
}
