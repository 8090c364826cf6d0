//go:build unix

package wire

import (
	"bufio"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"
)

// TestFrozenProcessSendsNothingLate stops a process between its connection and its first
// write, and lets it go on when the order is too late.
func TestFrozenProcessSendsNothingLate(t *testing.T) {
	t.Parallel()
	if url := os.Getenv("WIRE_FROZEN_URL"); url != "" {
		placeAndReport(t, url)
		return
	}
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)

	command := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestFrozenProcessSendsNothingLate$")
	command.Env = append(os.Environ(), "WIRE_FROZEN_URL="+server.URL)
	input, _ := command.StdinPipe()
	output, _ := command.StdoutPipe()
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(output)
	sendBefore, err := strconv.ParseInt(await(t, lines, "connected until "), 10, 64)
	if err != nil {
		t.Fatal(err)
	}
	stop(t, command.Process)
	_, _ = fmt.Fprintln(input, "go on")
	<-time.After(time.Until(time.Unix(0, sendBefore)) + 50*time.Millisecond)
	if err := command.Process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	await(t, lines, "not sent true, timeout")
	if err := command.Wait(); err != nil || requests.Load() != 0 {
		t.Fatalf("%v, %d requests", err, requests.Load())
	}
}

// stop returns once every thread of process has stopped.
func stop(t *testing.T, process *os.Process) {
	t.Helper()
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	var status syscall.WaitStatus
	if _, err := syscall.Wait4(process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
		t.Fatalf("the process did not stop: %v, status %d", err, status)
	}
}

// placeAndReport is the process that is stopped.
func placeAndReport(t *testing.T, url string) {
	t.Helper()
	post := orderBefore(3 * time.Second)
	reply := clientOf(t, url).Post(httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) {
			fmt.Printf("connected until %d\n", post.SendBefore.UnixNano())
			_, _ = bufio.NewReader(os.Stdin).ReadString('\n')
		},
	}), post)
	fmt.Printf("not sent %v, %s\n", reply.NotSent, reply.Fault)
}

// await returns what follows want on the first line that has it.
func await(t *testing.T, lines *bufio.Scanner, want string) string {
	t.Helper()
	for lines.Scan() {
		if _, rest, ok := strings.Cut(lines.Text(), want); ok {
			return rest
		}
	}
	t.Fatalf("the process ended without %q: %v", want, lines.Err())
	return ""
}
