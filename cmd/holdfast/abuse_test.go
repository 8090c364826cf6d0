package main

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"holdfast/internal/testkit/apicheck"
)

// abuse is a running process, an honest client (acct-1), and an attacker with its own client
// key (acct-2) or without one.
type abuse struct {
	t        *testing.T
	w        *world
	s        *serving
	attacker string
	bought   int
}

// Whatever a client does, others can still buy. When it is gone, a purchase takes at most twice
// as long as before, and its resources have been released.
func TestAbuse(t *testing.T) {
	t.Parallel()
	w := setup(t)
	must(t, w.settings, "account", "deposit", "--id", "acct-1", "--amount", "1000000.00")
	must(t, w.settings, "account", "create", "--id", "acct-2", "--currency", "USD", "--available", "10.00")
	a := &abuse{t: t, w: w, attacker: lastLine(must(t, w.settings, "key", "create", "--scope", "client", "--account", "acct-2"))}
	a.s = launch(t, w.settings)
	a.timePurchases() // connections and plans exist from here on
	for _, attack := range []struct {
		name string
		run  func(*abuse)
	}{
		{"RequestsThatDoNotCome", (*abuse).incompleteRequests},
		{"UnreadResponses", (*abuse).unreadResponses},
		{"InvalidKeys", (*abuse).invalidKeys},
		{"StreamsOfOneKey", (*abuse).streamsOfOneKey},
		{"FailedLogins", (*abuse).failedLogins},
	} {
		t.Run(attack.name, func(t *testing.T) {
			a.t, a.s.t = t, t
			before, took := a.usage(), a.timePurchases()
			attack.run(a)
			a.recovers(before, took)
		})
	}
	a.t, a.s.t = t, t
	if code := a.s.stop(); code != exitDone {
		t.Errorf("exit code %d", code)
	}
	auditHolds(t, w.settings)
}

// honest buys once and returns how long it took.
func (a *abuse) honest() time.Duration {
	a.t.Helper()
	a.bought++
	began := time.Now()
	got, _ := a.s.buy(a.w.client, "acct-1", "AAPL", "honest-"+strconv.Itoa(a.bought))
	if got.status != http.StatusCreated {
		a.t.Fatalf("an honest purchase: %d %s", got.status, got.body)
	}
	return time.Since(began)
}

// timePurchases returns the median of several purchases: a single one may be slow on a busy
// machine.
func (a *abuse) timePurchases() time.Duration {
	a.t.Helper()
	took := make([]time.Duration, 5)
	for i := range took {
		took[i] = a.honest()
	}
	slices.Sort(took)
	return took[len(took)/2]
}

// usage is the resources that the process holds.
type usage struct{ goroutines, files, memory float64 }

func (a *abuse) usage() usage {
	a.t.Helper()
	got, err := a.s.call(http.MethodGet, "/metrics", "", "")
	if err != nil {
		a.t.Fatal(err)
	}
	read := func(name string) float64 {
		for line := range strings.Lines(got.body) {
			if rest, ok := strings.CutPrefix(line, name+" "); ok {
				value, _ := strconv.ParseFloat(strings.TrimSpace(rest), 64)
				return value
			}
		}
		a.t.Fatalf("no metric %s", name)
		return 0
	}
	return usage{read("go_goroutines"), read("process_open_fds"), read("process_resident_memory_bytes")}
}

const (
	// minPurchaseTime is a duration that a purchase can reach on a busy machine without an
	// attack.
	minPurchaseTime = 100 * time.Millisecond
	// spare is how many more a process may hold regardless of the attack: database connections,
	// and goroutines that are about to end.
	spare = 40
	// spareMemory is what the runtime retains for a while.
	spareMemory = 64 << 20
)

func (a *abuse) recovers(before usage, took time.Duration) {
	a.t.Helper()
	allowed := 2 * max(took, minPurchaseTime)
	eventually(a.t, "recovery", func() error {
		now := a.usage()
		if now.goroutines > before.goroutines+spare || now.files > before.files+spare || now.memory > before.memory+spareMemory {
			return fmt.Errorf("the process holds %+v, before %+v", now, before)
		}
		if after := a.timePurchases(); after > allowed {
			return fmt.Errorf("a purchase takes %v, before %v", after, took)
		}
		return nil
	})
}

// open connects and sends text.
func (a *abuse) open(text string) net.Conn {
	a.t.Helper()
	conn, err := net.DialTimeout("tcp", a.s.addr, waitTimeout)
	if err != nil {
		a.t.Fatal(err)
	}
	a.t.Cleanup(func() { conn.Close() })
	if _, err := io.WriteString(conn, text); err != nil {
		a.t.Fatal(err)
	}
	return conn
}

// routes are all paths that the process serves, with values for the parameters.
func (a *abuse) routes() []string {
	a.t.Helper()
	described, err := a.s.call(http.MethodGet, "/openapi.json", "", "")
	if err != nil {
		a.t.Fatal(err)
	}
	spec, err := apicheck.Load(a.t.Context(), []byte(described.body))
	if err != nil {
		a.t.Fatal(err)
	}
	fill := strings.NewReplacer("{id}", "acct-2", "{name}", "intake", "{slug}", "x")
	paths := []string{"/metrics", "/nothing", "/console/", "/console/logout", "/console/login", "/console/switches/intake", "/river/", "/river/api/jobs/cancel"}
	for _, path := range spec.Document.Paths.InMatchingOrder() {
		paths = append(paths, fill.Replace(path))
	}
	return paths
}

// incompleteRequests sends partial headers, partial bodies on every route, nothing at all, or
// closes the socket for writing: the server ends each of them.
func (a *abuse) incompleteRequests() {
	var conns []net.Conn
	for _, path := range a.routes() {
		for _, key := range []string{a.attacker, "unknown"} {
			head := "POST " + path + " HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + key + "\r\nIdempotency-Key: k\r\n"
			conns = append(conns,
				a.open(head+"Content-Type: application/json\r\nContent-Length: 1000\r\n\r\n{"),
				a.open(head+"Content-Type: application/x-www-form-urlencoded\r\nContent-Length: 1000\r\n\r\nk"),
				a.open(head+"Content-Type: application/json\r\nTransfer-Encoding: chunked\r\n\r\n5\r\n{"),
				a.open("GET "+path+" HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n{"),
			)
		}
	}
	for range 100 {
		halfClosed := a.open("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.attacker + "\r\n")
		if err := halfClosed.(*net.TCPConn).CloseWrite(); err != nil {
			a.t.Fatal(err)
		}
		conns = append(conns, a.open(""), a.open("GET / HTTP/1.1\r\nHost: x\r\nX-"), halfClosed)
	}
	a.honest()
	var open sync.WaitGroup
	for _, conn := range conns {
		open.Go(func() {
			_ = conn.SetReadDeadline(time.Now().Add(waitTimeout))
			if _, err := io.Copy(io.Discard, conn); errors.Is(err, os.ErrDeadlineExceeded) {
				a.t.Errorf("a connection is still open after %v", waitTimeout)
			}
		})
	}
	open.Wait()
}

// unreadResponses sends requests repeatedly on each connection and reads nothing.
func (a *abuse) unreadResponses() {
	requests := strings.Repeat("GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n", 20) +
		strings.Repeat("GET /v1/purchases?limit=500 HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer "+a.attacker+"\r\n\r\n", 20)
	conns := make([]net.Conn, 200)
	for i := range conns {
		conns[i] = a.open(requests)
	}
	a.honest()
	for _, conn := range conns {
		conn.Close()
	}
}

// invalidKeys sends a flood of different invalid keys.
func (a *abuse) invalidKeys() {
	const clients, each = 16, 100
	var flood sync.WaitGroup
	for c := range clients {
		flood.Go(func() {
			client := &http.Client{Transport: &http.Transport{}, Timeout: waitTimeout}
			defer client.CloseIdleConnections()
			for i := range each {
				request, err := http.NewRequest(http.MethodGet, "http://"+a.s.addr+"/v1/purchases", nil)
				if err != nil {
					a.t.Error(err)
					return
				}
				request.Header.Set("Authorization", fmt.Sprintf("Bearer hf_client_invalid_%d_%d", c, i))
				response, err := client.Do(request)
				if err != nil {
					a.t.Error(err)
					return
				}
				_, _ = io.Copy(io.Discard, response.Body)
				response.Body.Close()
				if response.StatusCode != http.StatusUnauthorized && response.StatusCode != http.StatusServiceUnavailable {
					a.t.Errorf("status %d", response.StatusCode)
				}
			}
		})
	}
	a.honest()
	flood.Wait()
}

// streamsOfOneKey opens more streams than allowed.
func (a *abuse) streamsOfOneKey() {
	const most, more = 1000, 20
	conns := make([]net.Conn, most+more)
	codes := map[string]int{}
	for i := range conns {
		conns[i] = a.open("GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer " + a.attacker + "\r\n\r\n")
		_ = conns[i].SetReadDeadline(time.Now().Add(waitTimeout))
		line, err := bufio.NewReader(conns[i]).ReadString('\n')
		if err != nil {
			a.t.Fatal(err)
		}
		codes[strings.Fields(line)[1]]++
	}
	if codes["200"] != most || codes["429"] != more {
		a.t.Errorf("answers: %v", codes)
	}
	a.honest()
	for _, conn := range conns {
		conn.Close()
	}
}

// failedLogins are refused, after a few without checking the key.
func (a *abuse) failedLogins() {
	codes := map[int]int{}
	for i := range 200 {
		got, err := a.login(fmt.Sprintf("wrong-%d", i))
		if err != nil {
			a.t.Fatal(err)
		}
		codes[got]++
	}
	if codes[http.StatusUnauthorized] < 10 || codes[http.StatusTooManyRequests] < 100 {
		a.t.Errorf("answers: %v", codes)
	}
	a.honest()
}

func (a *abuse) login(key string) (int, error) {
	form := bytes.NewBufferString(url.Values{"key": {key}}.Encode())
	request, err := http.NewRequest(http.MethodPost, "http://"+a.s.addr+"/console/login", form)
	if err != nil {
		return 0, err
	}
	request.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	response, err := web.Do(request)
	if err != nil {
		return 0, err
	}
	response.Body.Close()
	return response.StatusCode, nil
}
