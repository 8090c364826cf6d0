package pgtest

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// holdFor makes this test binary a process that uses the run's cluster, with a
// database in it, until it is killed.
const holdFor = "HOLDFAST_PGTEST_HOLD"

func TestMain(m *testing.M) {
	if _, set := os.LookupEnv(holdFor); set {
		hold()
	}
	goleak.VerifyTestMain(m)
}

func hold() {
	joined, err := shared()
	if err == nil {
		err = empty(context.Background(), joined, newName())
	}
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	fmt.Println(joined.server.PID(), joined.server.URL())
	select {}
}

// holder starts such a process in a temp folder, and so a run, of its own.
func holder(t *testing.T, temp string) (cmd *exec.Cmd, pid int, url string) {
	t.Helper()
	cmd = exec.CommandContext(t.Context(), os.Args[0])
	cmd.Env = append(os.Environ(), holdFor+"=1", "TMPDIR="+temp)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = cmd.Process.Kill(); _ = cmd.Wait() })
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if _, err := fmt.Sscan(line, &pid, &url); err != nil {
		t.Fatalf("holder said %q", line)
	}
	return cmd, pid, url
}

func kill(cmd *exec.Cmd) {
	_ = cmd.Process.Kill()
	_ = cmd.Wait() // it says that it was killed
}

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

// zombie reports a process that is dead and not collected.
func zombie(pid int) bool {
	state, err := exec.Command("ps", "-o", "state=", "-p", strconv.Itoa(pid)).Output()
	return err == nil && strings.HasPrefix(string(state), "Z")
}

func write(t *testing.T, root, name, text string) {
	t.Helper()
	path := filepath.Join(root, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func stateOf(t *testing.T, root string) string {
	t.Helper()
	state, err := fingerprint(root)
	if err != nil {
		t.Fatal(err)
	}
	return state
}
