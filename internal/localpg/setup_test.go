package localpg_test

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"holdfast/internal/localpg"
)

// ownerOf makes this test binary a process that serves from the folder it names
// until it is killed.
const ownerOf = "HOLDFAST_LOCALPG_OWNER"

func TestMain(m *testing.M) {
	if dir, set := os.LookupEnv(ownerOf); set {
		own(dir)
	}
	goleak.VerifyTestMain(m, goleak.Cleanup(func(code int) {
		if seedDir != "" {
			_ = os.RemoveAll(seedDir)
		}
		os.Exit(code)
	}))
}

func own(dir string) {
	server, err := localpg.Start(context.Background(), localpg.Config{DataDir: dir})
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println("ready", server.PID())
	select {}
}

// owner starts a process that owns the folder, below the commands of wrap if there are any,
// and returns it and its postmaster's process id, as that process sees it.
func owner(t *testing.T, dir string, wrap ...string) (*exec.Cmd, int) {
	t.Helper()
	command := slices.Concat(wrap, []string{os.Args[0]})
	cmd := exec.CommandContext(t.Context(), command[0], command[1:]...)
	cmd.Env = append(os.Environ(), ownerOf+"="+dir)
	out, err := cmd.StdoutPipe()
	check(t, err)
	check(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	check(t, err)
	var pid int
	if _, err := fmt.Sscanf(line, "ready %d", &pid); err != nil {
		t.Fatalf("owner said %q", line)
	}
	return cmd, pid
}

func kill(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	check(t, cmd.Process.Kill())
	_ = cmd.Wait() // it says that it was killed
}

var seedDir string

// seed is a cluster that was made once: making one takes two seconds of a core.
var seed = sync.OnceValues(func() (string, error) {
	dir, err := os.MkdirTemp("", "hfseed")
	if err != nil {
		return "", err
	}
	seedDir = dir
	server, err := localpg.Attach(context.Background(), localpg.Config{DataDir: dir})
	if err != nil {
		return "", err
	}
	return filepath.Join(dir, "postgres"), server.Stop(context.Background())
})

// dataDir is a folder with a cluster in it.
func dataDir(t *testing.T) string {
	t.Helper()
	dir := emptyDir(t)
	plant(t, dir)
	return dir
}

func plant(t *testing.T, dir string) {
	t.Helper()
	from, err := seed()
	check(t, err)
	check(t, os.MkdirAll(dir, 0o711))
	if out, err := exec.CommandContext(t.Context(), "cp", "-Rp", from, dir).CombinedOutput(); err != nil {
		t.Fatalf("plant cluster: %v: %s", err, out)
	}
}

// emptyDir is a folder whose server is stopped at the end, whoever left it running.
func emptyDir(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "data dir")
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
		defer cancel()
		if _, err := os.Stat(dir); err == nil {
			check(t, localpg.StopUnused(ctx, dir))
		}
	})
	return dir
}

func start(t *testing.T, dir string) *localpg.Server {
	t.Helper()
	server, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
	check(t, err)
	t.Cleanup(func() { stop(t, server) })
	return server
}

func attach(t *testing.T, dir string) *localpg.Server {
	t.Helper()
	server, err := localpg.Attach(t.Context(), localpg.Config{DataDir: dir})
	check(t, err)
	t.Cleanup(func() { stop(t, server) })
	return server
}

func stop(t *testing.T, server *localpg.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	check(t, server.Stop(ctx))
}

// ask returns the one value of a query.
func ask(t *testing.T, url, query string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(context.Background())
	var answer string
	check(t, conn.QueryRow(t.Context(), query).Scan(&answer))
	return answer
}

// write and written prove that data survives.
func write(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	check(t, err)
	defer conn.Close(context.Background())
	_, err = conn.Exec(t.Context(), "CREATE TABLE kept AS SELECT 'a row'::text AS what")
	check(t, err)
}

func written(t *testing.T, url string) {
	t.Helper()
	if got := ask(t, url, "SELECT what FROM kept"); got != "a row" {
		t.Errorf("kept row is %q", got)
	}
}

func running(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && strings.Contains(string(stat), ") Z ") {
		return false
	}
	return syscall.Kill(pid, 0) == nil
}

// eventually polls until done reports true.
func eventually(t *testing.T, what string, done func() bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	for !done() {
		select {
		case <-deadline:
			t.Fatalf("not within a minute: %s", what)
		case <-time.After(20 * time.Millisecond):
		}
	}
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// oneLine fails for an error that is none, or that a person cannot read in one line.
func oneLine(t *testing.T, err error, says ...string) {
	t.Helper()
	if err == nil {
		t.Fatal("no error")
	}
	if strings.Contains(err.Error(), "\n") {
		t.Errorf("more than one line: %q", err)
	}
	for _, part := range says {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}
