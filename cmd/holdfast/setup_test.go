package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// binary is the real program, built once for all end-to-end tests, with the flags in
// HOLDFAST_E2E_BUILD, such as -race.
var binary string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast-e2e-")
	if err != nil {
		panic(err)
	}
	binary = filepath.Join(dir, "holdfast")
	build := exec.Command("go", "build", "-o", binary, ".")
	build.Args = append(build.Args[:2], append(strings.Fields(os.Getenv("HOLDFAST_E2E_BUILD")), build.Args[2:]...)...)
	if out, err := build.CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}

// waitTimeout bounds every wait; only a very busy machine comes near it.
const waitTimeout = 60 * time.Second

// eventually polls until ok, and fails the test with the last detail.
func eventually(t *testing.T, what string, ok func() error) {
	t.Helper()
	deadline := time.Now().Add(waitTimeout)
	for {
		err := ok()
		if err == nil {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%s: %v", what, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// output collects a process's output; it may be read meanwhile.
type output struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.text.String()
}

// environment is a process's environment: only what it needs to find programs, and settings.
func environment(settings []string) []string {
	kept := []string{}
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "USER"} {
		if value, ok := os.LookupEnv(name); ok {
			kept = append(kept, name+"="+value)
		}
	}
	return append(kept, settings...)
}

// result is a command that has ended.
type result struct {
	code     int
	out, err string
}

// command runs the program until it exits.
func command(t *testing.T, settings []string, args ...string) result {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), waitTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, binary, args...)
	cmd.Env = environment(settings)
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("run %v: %v", args, err)
	}
	return result{cmd.ProcessState.ExitCode(), out.String(), errOut.String()}
}

// must runs a command that has to succeed.
func must(t *testing.T, settings []string, args ...string) string {
	t.Helper()
	r := command(t, settings, args...)
	if r.code != exitDone {
		t.Fatalf("holdfast %v: exit %d\n%s%s", args, r.code, r.out, r.err)
	}
	return r.out
}

// lastLine returns the last line, which has a created key.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	return lines[len(lines)-1]
}

// serving is a running holdfast serve.
type serving struct {
	t        *testing.T
	cmd      *exec.Cmd
	out, err output
	addr     string
	ended    chan struct{}
}

// launch starts holdfast serve and waits until it listens.
func launch(t *testing.T, settings []string, args ...string) *serving {
	t.Helper()
	s := begin(t, settings, args...)
	eventually(t, "listening", func() error {
		select {
		case <-s.ended:
			t.Fatalf("ended instead of listening:\n%s", s.err.String())
		default:
		}
		s.addr = listening(s.err.String())
		if s.addr == "" {
			return errors.New(s.err.String())
		}
		return nil
	})
	return s
}

// begin starts holdfast serve.
func begin(t *testing.T, settings []string, args ...string) *serving {
	t.Helper()
	return spawn(t, append([]string{"HOLDFAST_ADDR=127.0.0.1:0"}, settings...), append([]string{"serve"}, args...)...)
}

// spawn starts a command in the background and ends it with the test.
func spawn(t *testing.T, settings []string, args ...string) *serving {
	t.Helper()
	s := &serving{t: t, ended: make(chan struct{})}
	s.cmd = exec.Command(binary, args...)
	s.cmd.Env = environment(settings)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.err
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		defer close(s.ended)
		_ = s.cmd.Wait()
	}()
	t.Cleanup(func() {
		s.stop()
		if strings.Contains(s.err.String(), "DATA RACE") {
			t.Error("a data race")
		}
		if t.Failed() {
			t.Logf("log of %v:\n%s", s.cmd.Args, worthReading(s.err.String()))
		}
	})
	return s
}

// worthReading leaves out the log lines of a test's own polling.
func worthReading(log string) string {
	var kept strings.Builder
	for line := range strings.Lines(log) {
		if !strings.Contains(line, `"msg":"http request","request_id"`) || !strings.Contains(line, `"method":"GET"`) {
			kept.WriteString(line)
		}
	}
	return kept.String()
}

// listening returns the address in the first log line "listening".
func listening(log string) string {
	for line := range strings.Lines(log) {
		var entry struct {
			Addr string `json:"addr"`
		}
		if strings.Contains(line, "listening") && json.Unmarshal([]byte(line), &entry) == nil {
			return entry.Addr
		}
	}
	return ""
}

// kill ends the process with SIGKILL.
func (s *serving) kill() {
	_ = s.cmd.Process.Kill()
	<-s.ended
}

// stop shuts it down and returns its exit code.
func (s *serving) stop() int {
	_ = s.cmd.Process.Signal(syscall.SIGTERM)
	select {
	case <-s.ended:
	case <-time.After(waitTimeout):
		s.t.Error("did not stop")
		s.kill()
	}
	return s.cmd.ProcessState.ExitCode()
}

// printed returns the rest of the line of stdout that begins with name.
func (s *serving) printed(name string) string {
	s.t.Helper()
	for line := range strings.Lines(s.out.String()) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			return strings.TrimSpace(rest)
		}
	}
	s.t.Fatalf("stdout has no %q:\n%s", name, s.out.String())
	return ""
}

// answer is an HTTP response.
type answer struct {
	status int
	header http.Header
	body   string
}

// web uses no persistent connections: a killed process must not fail the next request.
var web = &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: waitTimeout}

// call makes one request with a key.
func (s *serving) call(method, path, key, body string, headers ...string) (answer, error) {
	request, err := http.NewRequestWithContext(context.Background(), method, "http://"+s.addr+path, strings.NewReader(body))
	if err != nil {
		return answer{}, err
	}
	request.Header.Set("Authorization", "Bearer "+key)
	if body != "" {
		request.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		request.Header.Set(headers[i], headers[i+1])
	}
	got, err := web.Do(request)
	if err != nil {
		return answer{}, err
	}
	defer got.Body.Close()
	text, err := io.ReadAll(got.Body)
	return answer{got.StatusCode, got.Header, string(text)}, err
}

// get makes a call that has to succeed and decodes the response into value.
func (s *serving) get(path, key string, value any) {
	s.t.Helper()
	a, err := s.call(http.MethodGet, path, key, "")
	if err != nil || a.status != http.StatusOK {
		s.t.Fatalf("GET %s: %d, %v: %s", path, a.status, err, a.body)
	}
	if err := json.Unmarshal([]byte(a.body), value); err != nil {
		s.t.Fatalf("GET %s: %v", path, err)
	}
}

// purchaseView is a purchase as the API shows it.
type purchaseView struct {
	ID       string  `json:"id"`
	Status   string  `json:"status"`
	Evidence *string `json:"evidence"`
	Reserved string  `json:"reserved"`
	Version  int     `json:"version"`
	// BrokerKey is visible to operators only.
	BrokerKey string `json:"broker_key"`
}

func order(account, symbol string) string {
	return fmt.Sprintf(`{"account_id":%q,"symbol":%q,"quantity":"10","limit_price":"25.00"}`, account, symbol)
}

// buy posts a purchase of 250.00 and returns the response with the purchase.
func (s *serving) buy(key, account, symbol, idempotencyKey string) (answer, purchaseView) {
	s.t.Helper()
	a, err := s.call(http.MethodPost, "/v1/purchases", key, order(account, symbol), "Idempotency-Key", idempotencyKey)
	if err != nil {
		s.t.Fatalf("buy: %v", err)
	}
	var p purchaseView
	if err := json.Unmarshal([]byte(a.body), &p); err != nil {
		s.t.Fatalf("buy: %d %s", a.status, a.body)
	}
	return a, p
}

// awaitStatus waits until a purchase has status.
func (s *serving) awaitStatus(key, id, status string) purchaseView {
	s.t.Helper()
	var p purchaseView
	eventually(s.t, "purchase "+id, func() error {
		s.get("/v1/purchases/"+id, key, &p)
		if p.Status != status {
			return fmt.Errorf("status is %s, want %s", p.Status, status)
		}
		return nil
	})
	return p
}

// accountView is an account as the API shows it.
type accountView struct {
	Available string `json:"available"`
	Reserved  string `json:"reserved"`
	Spent     string `json:"spent"`
	Deposited string `json:"deposited"`
}

// event is an event of a stream.
type event struct {
	Name       string `json:"-"`
	PurchaseID string `json:"purchase_id"`
	Status     string `json:"status"`
	Version    int    `json:"version"`
}

// follow reads a stream from its oldest event until the test ends.
func (s *serving) follow(key string) func() []event {
	s.t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	request, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+s.addr+"/v1/events?last_event_id=0", nil)
	if err != nil {
		s.t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+key)
	streaming := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	got, err := streaming.Do(request)
	if err != nil || got.StatusCode != http.StatusOK {
		s.t.Fatalf("follow: %v", err)
	}
	var mu sync.Mutex
	var seen []event
	done := make(chan struct{})
	go func() {
		defer close(done)
		defer got.Body.Close()
		readEvents(got.Body, func(e event) {
			mu.Lock()
			defer mu.Unlock()
			seen = append(seen, e)
		})
	}()
	s.t.Cleanup(func() { cancel(); <-done })
	return func() []event {
		mu.Lock()
		defer mu.Unlock()
		return append([]event(nil), seen...)
	}
}

func readEvents(body io.Reader, each func(event)) {
	var name string
	for lines := bufio.NewScanner(body); lines.Scan(); {
		if value, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
			name = value
		}
		if value, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
			e := event{Name: name}
			if json.Unmarshal([]byte(value), &e) == nil {
				each(e)
			}
		}
	}
}

// auditHolds runs the audit, at the end of every end-to-end test.
func auditHolds(t *testing.T, settings []string) {
	t.Helper()
	if r := command(t, settings, "audit"); r.code != exitDone {
		t.Errorf("audit: exit %d\n%s%s", r.code, r.out, r.err)
	}
}
