package api_test

import (
	"bytes"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"runtime"
	"strconv"
	"testing"
	"time"
)

// dial opens a stream on a bare connection, whose reading is the test's own.
func (s *streaming) dial(t testing.TB, secret string, last int) net.Conn {
	t.Helper()
	address, err := url.Parse(s.server.URL)
	if err != nil {
		t.Fatal(err)
	}
	conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", address.Host)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	if address.Scheme == "https" {
		if err := conn.(*net.TCPConn).SetReadBuffer(16 << 10); err != nil {
			t.Fatal(err)
		}
		config := s.server.Client().Transport.(*http.Transport).TLSClientConfig.Clone()
		config.ServerName = "example.com" // the test server's name
		conn = tls.Client(conn, config)
	}
	_, err = fmt.Fprintf(conn, "GET /v1/events HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer %s\r\nLast-Event-ID: %d\r\n\r\n", secret, last)
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// A reader that takes nothing is closed at a bound and resumes; nobody else notices.
func TestSlowReaderIsClosed(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*streaming) *streaming{"Plain": (*streaming).startHTTP, "TLS": (*streaming).startTLS} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := begin(newStreaming(t, 0))
			slow := s.dial(t, s.operator, 0)
			if tcp, plain := slow.(*net.TCPConn); plain {
				if err := tcp.SetReadBuffer(16 << 10); err != nil {
					t.Fatal(err)
				}
			}
			s.closesTheSlow(t, slow)
		})
	}
}

func (s *streaming) closesTheSlow(t *testing.T, slow net.Conn) {
	t.Helper()
	quick := s.open(t, s.operator, "", "-")
	soon(t, "both subscribed", func() bool { return s.box.Subscribers() == 2 })
	happened := 0
	for s.box.Subscribers() == 2 && happened < 100_000 {
		s.happen(t, "acct", 200)
		happened += 200
		s.until(t, int64(happened))
	}
	if happened >= 100_000 {
		t.Fatal("the slow reader is never closed")
	}
	for id := range happened {
		quick.wants(strconv.Itoa(id + 1))
	}
	got, _ := io.ReadAll(slow)
	last := checkIDs(t, got, 0)
	if last == 0 || last >= happened {
		t.Fatalf("the slow reader got %d of %d", last, happened)
	}
	rest := s.open(t, s.operator, "", strconv.Itoa(last))
	for id := last; id < happened; id++ {
		rest.wants(strconv.Itoa(id + 1))
	}
}

var idLine = regexp.MustCompile(`(?m)^id: (\d+)\n(?:.+\n)+\n`)

// checkIDs fails where the whole events of a stream do not follow upon each other.
func checkIDs(t *testing.T, stream []byte, last int) int {
	t.Helper()
	for _, match := range idLine.FindAllSubmatch(stream, -1) {
		if id := string(match[1]); id != strconv.Itoa(last+1) {
			t.Fatalf("after %d came %s", last, id)
		}
		last++
	}
	return last
}

// A quiet stream must cost next to nothing.
//
//nolint:paralleltest // It measures the process's memory.
func TestManyStreamsInBoundedSize(t *testing.T) {
	s := newStreaming(t, 0).startHTTP()
	const n = 2000
	before := memory()
	conns := make([]net.Conn, n)
	for i := range conns {
		conns[i] = s.dial(t, s.operator, 0)
	}
	soon(t, "all subscribed", func() bool { return s.box.Subscribers() == n })
	soon(t, "at most 12 kB a stream, the client's end included", func() bool { return (memory()-before)/n <= 12<<10 })
	t.Logf("%d bytes a stream, the client's end included", (memory()-before)/n)

	begun := time.Now()
	s.happen(t, "acct", 1)
	for _, conn := range conns {
		readEvent(t, conn)
	}
	t.Logf("one event to all after %v", time.Since(begun))
}

// memory is what the process holds for objects and stacks.
func memory() uint64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc + m.StackInuse
}

func readEvent(t testing.TB, conn net.Conn) {
	t.Helper()
	conn.SetReadDeadline(time.Now().Add(streamPatience))
	var got []byte
	buf := make([]byte, 4096)
	for !bytes.Contains(got, []byte("\ndata: ")) || !bytes.HasSuffix(got, []byte("\n\n")) {
		n, err := conn.Read(buf)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, buf[:n]...)
	}
}
