package localpg_test

import (
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/localpg"
)

// TestOrphanIsTakenOver: kill -9 of the owner leaves its postmaster behind.
func TestOrphanIsTakenOver(t *testing.T) {
	t.Parallel()
	for name, take := range map[string]func(*testing.T, string) *localpg.Server{"ByAServer": start, "ByACommand": attach} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			process, orphan := owner(t, dir)
			kill(t, process)
			if !running(orphan) {
				t.Fatal("no orphan to take over")
			}
			server := take(t, dir)
			write(t, server.URL())
			if server.PID() != orphan {
				t.Errorf("process %d is beside the orphan %d", server.PID(), orphan)
			}
			stop(t, server)
			if running(orphan) {
				t.Error("the orphan runs on")
			}
		})
	}
}

// TestOwnerAndPostmasterKilled leaves a stale postmaster.pid and a dirty cluster.
func TestOwnerAndPostmasterKilled(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	process, postmaster := owner(t, dir)
	kill(t, process)
	check(t, syscall.Kill(postmaster, syscall.SIGKILL))
	server := start(t, dir)
	if server.PID() == postmaster {
		t.Error("took a dead server for a running one")
	}
	write(t, server.URL())
}

// TestBackendOutlivesItsPostmaster: a start waits for what is left of a server that was
// killed. A stopped backend stands for one that has not noticed yet.
func TestBackendOutlivesItsPostmaster(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	process, postmaster := owner(t, dir)
	data := filepath.Join(dir, "postgres", "data")
	text, err := os.ReadFile(filepath.Join(data, "postmaster.pid"))
	check(t, err)
	conn, err := pgx.Connect(t.Context(), "postgres://holdfast@/postgres?host="+url.QueryEscape(strings.Split(string(text), "\n")[4]))
	check(t, err)
	defer conn.Close(t.Context())
	backend := int(conn.PgConn().PID())
	check(t, syscall.Kill(backend, syscall.SIGSTOP))
	kill(t, process)
	check(t, syscall.Kill(postmaster, syscall.SIGKILL))
	go func() {
		for {
			log, _ := os.ReadFile(filepath.Join(dir, "postgres.log"))
			if strings.Contains(string(log), "pre-existing shared memory block") {
				break
			}
			<-time.After(10 * time.Millisecond)
		}
		_ = syscall.Kill(backend, syscall.SIGCONT)
	}()
	write(t, start(t, dir).URL())
}

// TestStalePIDOfAnotherProgram: the process id in postmaster.pid may be anybody's by
// now, and where it is the same user's, Postgres itself would refuse to start.
func TestStalePIDOfAnotherProgram(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	stop(t, start(t, dir))
	data := filepath.Join(dir, "postgres", "data")
	pid := other(t, data)
	text := fmt.Sprintf("%d\n%s\n%d\n5432\n%s\n\n", pid, data, time.Now().Unix(), filepath.Join(dir, "postgres"))
	check(t, os.WriteFile(filepath.Join(data, "postmaster.pid"), []byte(text), 0o600))
	write(t, start(t, dir).URL())
	if !running(pid) {
		t.Error("the other program is gone")
	}
}

// other runs a program as the owner of the data.
func other(t *testing.T, data string) int {
	t.Helper()
	info, err := os.Stat(data)
	check(t, err)
	cmd := exec.CommandContext(t.Context(), "sleep", "600")
	cmd.Dir = "/"
	if user := info.Sys().(*syscall.Stat_t); os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: user.Uid, Gid: user.Gid}}
	}
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	return cmd.Process.Pid
}

func TestADeadPostmasterComesBack(t *testing.T) {
	t.Parallel()
	for name, adopt := range map[string]bool{"Own": false, "TakenOver": true} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := dataDir(t)
			if adopt {
				process, _ := owner(t, dir)
				kill(t, process)
			}
			server := start(t, dir)
			write(t, server.URL())
			url := server.URL()
			for range 2 {
				dead := server.PID()
				check(t, syscall.Kill(dead, syscall.SIGKILL))
				eventually(t, "another postmaster", func() bool { return server.PID() != dead })
				eventually(t, "an answer", func() bool { return answers(t, url) })
				written(t, url)
			}
		})
	}
}

func answers(t *testing.T, url string) bool {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		return false
	}
	check(t, conn.Close(t.Context()))
	return true
}

// TestCrashWhileMaking: what a first start left halfway is no data.
func TestCrashWhileMaking(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	stop(t, start(t, dir))
	data := filepath.Join(dir, "postgres", "data")
	check(t, os.Rename(data, data+".init"))
	check(t, os.Remove(filepath.Join(data+".init", "PG_VERSION")))
	write(t, start(t, dir).URL())
}

func TestStartThatFailsSaysWhy(t *testing.T) {
	t.Parallel()
	config := localpg.Config{DataDir: dataDir(t), Settings: map[string]string{"max_connections": "none"}}
	_, err := localpg.Start(t.Context(), config)
	oneLine(t, err, "start postgres", `invalid value for parameter "max_connections"`)
	if strings.Contains(err.Error(), "deadline") {
		t.Errorf("waited for a dead process: %v", err)
	}
}
