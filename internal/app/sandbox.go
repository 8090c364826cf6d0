package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"

	"holdfast/sandbox"
)

const (
	// sandboxTurn is how often a process that does not run the sandbox looks whether
	// the one that does is gone.
	sandboxTurn = 250 * time.Millisecond
	// sandboxWait is how long a start waits for another process's sandbox to be there.
	sandboxWait = 10 * time.Second
)

// sandboxHost shares one sandbox among the processes of a data dir: an api and a worker
// that each had their own would never agree on what was bought. Whoever holds the lock
// runs it, on an address that stays the same, and keeps its ledger; when that process
// is gone the next one takes over.
type sandboxHost struct {
	dir  string
	log  *slog.Logger
	lock *flock.Flock
	addr string

	// end ends what waiting waits for.
	end     context.CancelFunc
	waiting sync.WaitGroup
}

func openSandboxHost(ctx context.Context, dir string, log *slog.Logger) (*sandboxHost, error) {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("create sandbox directory: %w", err)
	}
	h := &sandboxHost{dir: dir, log: log, lock: flock.New(filepath.Join(dir, "lock"))}
	life, end := context.WithCancel(context.WithoutCancel(ctx))
	h.end = end
	if err := h.join(ctx, life); err != nil {
		end()
		return nil, err
	}
	if !h.lock.Locked() {
		h.waiting.Go(func() { h.takeTurns(life) })
	}
	return h, nil
}

// url stays the same whoever runs it.
func (h *sandboxHost) url() string { return "http://" + h.addr }

// join runs the sandbox, or finds the one that runs.
func (h *sandboxHost) join(ctx, life context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, sandboxWait)
	defer cancel()
	for {
		held, err := h.lock.TryLock()
		if err != nil {
			return fmt.Errorf("lock sandbox: %w", err)
		}
		if held {
			return h.begin(life)
		}
		if addr := h.recorded(); addr != "" && answers(ctx, addr) {
			h.addr = addr
			return nil
		}
		if !pause(ctx, sandboxTurn/10) {
			return errors.New("another process runs the sandbox and does not answer")
		}
	}
}

// begin serves on the recorded address, which other processes may still use, or on a
// new one where that is taken.
func (h *sandboxHost) begin(life context.Context) error {
	listener, err := new(net.ListenConfig).Listen(life, "tcp", cmp.Or(h.recorded(), "127.0.0.1:0"))
	joining := h.addr == ""
	if err != nil && joining {
		listener, err = new(net.ListenConfig).Listen(life, "tcp", "127.0.0.1:0")
	}
	if err != nil {
		return fmt.Errorf("listen for sandbox: %w", err)
	}
	broker, err := sandbox.New(sandbox.Config{Ledger: filepath.Join(h.dir, "ledger"), Log: h.log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	if joining {
		h.addr = listener.Addr().String()
		err = os.WriteFile(h.addrFile(), []byte(h.addr), 0o600)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("record sandbox address: %w", err), listener.Close())
	}
	h.serve(life, listener, broker)
	return nil
}

func (h *sandboxHost) serve(life context.Context, listener net.Listener, broker *sandbox.Sandbox) {
	h.log.Info("sandbox broker runs here", "url", h.url())
	h.waiting.Go(func() {
		if err := broker.Serve(life, listener); err != nil {
			h.log.Error("sandbox broker ended", "error", err)
		}
	})
}

// takeTurns takes over when the process that runs the sandbox is gone.
func (h *sandboxHost) takeTurns(life context.Context) {
	for pause(life, sandboxTurn) {
		held, err := h.lock.TryLock()
		if err != nil || !held {
			continue
		}
		if err = h.begin(life); err == nil {
			return
		}
		h.log.Warn("sandbox broker not taken over", "error", err)
		_ = h.lock.Unlock()
	}
}

func (h *sandboxHost) stop(context.Context) error {
	h.end()
	h.waiting.Wait()
	return h.lock.Unlock()
}

func (h *sandboxHost) addrFile() string { return filepath.Join(h.dir, "addr") }

func (h *sandboxHost) recorded() string {
	text, _ := os.ReadFile(h.addrFile())
	return string(text)
}

func answers(ctx context.Context, addr string) bool {
	dialer := net.Dialer{Timeout: time.Second}
	conn, err := dialer.DialContext(ctx, "tcp", addr)
	if err != nil {
		return false
	}
	return conn.Close() == nil
}

// pause waits for d, and reports whether ctx still lasts.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(d):
		return true
	}
}
