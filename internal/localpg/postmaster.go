package localpg

import (
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// shutdown is a way to stop a postmaster.
type shutdown int

const (
	fast      shutdown = iota // cut the connections, write a checkpoint
	immediate                 // as a crash: recovery at the next start
)

// fastTimeout is how long a fast shutdown may take before it becomes an immediate
// one, which loses nothing that was committed.
const fastTimeout = 20 * time.Second

// postmaster is a server that runs on the data.
type postmaster struct {
	pid int
	// listens is set once the server has a socket; socket is its directory.
	listens bool
	socket  string
}

// url escapes as libpq reads it: a plus sign is no space there.
func (m postmaster) url(name string) string {
	query := strings.ReplaceAll(url.Values{"host": {m.socket}, "port": {socketPort}}.Encode(), "+", "%20")
	return (&url.URL{Scheme: "postgres", User: url.User(superuser), Path: "/" + name, RawQuery: query}).String()
}

// postmaster reports the server that runs on the data, and whether there is one. A
// file whose process is gone, or has become another program's, is no server.
func (p place) postmaster() (postmaster, bool) {
	text, err := p.read(pidFile)
	if err != nil {
		return postmaster{}, false
	}
	// Lines: pid, data directory, start time, port, socket directory, ... The last ones
	// come only once the server listens. Only the process id is believed, and checked: the
	// file belongs to the user that Postgres runs as.
	lines := strings.Split(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(lines[0]))
	if err != nil || pid <= 0 {
		return postmaster{}, false
	}
	found := postmaster{pid: pid, listens: len(lines) > 4 && lines[4] != ""}
	return found, alive(pid) && serves(pid, p.data())
}

// pidFile is the server's own file, within the cluster's directory.
const pidFile = "data/postmaster.pid"

// clear removes lock files that Postgres would stumble over although no server runs:
// their process id is another program's by now, or its process is dead and only not
// collected. What else a crash leaves Postgres handles itself, and backends that
// outlived their postmaster it finds by their shared memory. The caller holds the
// gate and has seen that there is no postmaster.
func (p place) clear(socket string) error {
	lock := ".s.PGSQL." + socketPort + ".lock"
	return errors.Join(clearIn(p.cluster(), pidFile), clearIn(socket, lock))
}

// clearIn removes the lock file name below dir. A link that leads out of dir is an error.
func clearIn(dir, name string) error {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return fmt.Errorf("remove stale lock file: %w", err)
	}
	defer root.Close()
	if !taken(root, name) {
		return nil
	}
	if err := root.Remove(name); err != nil {
		return fmt.Errorf("remove stale lock file: %w", err)
	}
	return nil
}

// taken reports whether the file names a process id that is in use.
func taken(root *os.Root, name string) bool {
	text, err := root.ReadFile(name)
	if err != nil {
		return false
	}
	first, _, _ := strings.Cut(string(text), "\n")
	pid, err := strconv.Atoi(strings.TrimSpace(first))
	return err == nil && !errors.Is(syscall.Kill(max(pid, -pid), 0), syscall.ESRCH)
}

// alive collects the process if it is a dead child of ours; a zombie of anybody's
// is not alive.
func alive(pid int) bool {
	if exited(pid) {
		return false
	}
	err := syscall.Kill(pid, 0)
	return (err == nil || errors.Is(err, syscall.EPERM)) && !zombie(pid)
}

// exited collects a child of ours that is gone. Asking, instead of waiting in a
// goroutine, treats a server that we found running like one that we started.
func exited(pid int) bool {
	var status syscall.WaitStatus
	got, err := syscall.Wait4(pid, &status, syscall.WNOHANG, nil)
	return err == nil && got == pid
}

// stop ends the server that runs on the data, if one does.
func (p place) stop(ctx context.Context, how shutdown) error {
	found, running := p.postmaster()
	if !running {
		return nil
	}
	if err := p.end(ctx, found.pid, how); err != nil {
		return err
	}
	p.clean()
	return nil
}

// clean removes the temp directory that held the socket, if it is one and is empty by now.
// rmdir removes nothing else.
func (p place) clean() { _ = syscall.Rmdir(p.tempSocketDir()) }

func (p place) end(ctx context.Context, pid int, how shutdown) error {
	if how == fast {
		if err := signal(pid, syscall.SIGINT); err != nil {
			return err
		}
		ctx, cancel := context.WithTimeout(ctx, fastTimeout)
		defer cancel()
		if gone(ctx, pid) {
			return nil
		}
	}
	return quit(ctx, pid)
}

func quit(ctx context.Context, pid int) error {
	if err := signal(pid, syscall.SIGQUIT); err != nil {
		return err
	}
	// Postgres kills its own children after 5 seconds of an immediate shutdown.
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), fastTimeout)
	defer cancel()
	if !gone(ctx, pid) {
		return fmt.Errorf("stop postgres: process %d does not end", pid)
	}
	return nil
}

func signal(pid int, sig syscall.Signal) error {
	if err := syscall.Kill(pid, sig); err != nil && !errors.Is(err, syscall.ESRCH) {
		return fmt.Errorf("stop postgres: %w", err)
	}
	return nil
}

// gone waits for the process to end.
func gone(ctx context.Context, pid int) bool {
	for alive(pid) {
		if !pause(ctx, poll) {
			return !alive(pid)
		}
	}
	return true
}

// pause reports false where ctx ended first.
func pause(ctx context.Context, d time.Duration) bool {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-ctx.Done():
		return false
	case <-timer.C:
		return true
	}
}
