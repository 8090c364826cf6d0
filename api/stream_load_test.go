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
	const happened = 2 * burst
	for range 2 {
		s.happen(t, "acct", burst)
	}
	for id := range happened {
		quick.wants(strconv.Itoa(id + 1))
	}
	soon(t, "the slow reader is closed", func() bool { return s.streams.Open() == 1 })
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

// burst is above what the ring of the hub holds, and above what all buffers on the way do.
const burst = 5000

// A reader that reads, however slowly, is not closed, whatever comes at once: it goes on
// from the log where the ring has left it behind.
func TestABurstClosesNoReader(t *testing.T) {
	t.Parallel()
	onEach(t, 0, func(t *testing.T, s *streaming) {
		response := s.request(t, s.operator, "", "-")
		ofAccount := s.request(t, s.client, "", "-")
		soon(t, "both subscribed", func() bool { return s.box.Subscribers() == 2 })
		const last = 2 * burst
		all, own := readSlowly(response.Body, last), readSlowly(ofAccount.Body, last)
		for range 2 {
			s.happen(t, "acct", burst)
		}
		for name, read := range map[string]chan []byte{"all": all, "own": own} {
			if got := checkIDs(t, <-read, 0); got != last {
				t.Errorf("%s: %d of %d events", name, got, last)
			}
		}
		if n := s.streams.Open(); n != 2 {
			t.Errorf("%d streams are open", n)
		}
	})
}

// readSlowly reads a few events at a time until the last one, or the stream's end.
func readSlowly(body io.Reader, last int) chan []byte {
	read := make(chan []byte, 1)
	go func() {
		var got []byte
		piece, end := make([]byte, 8<<10), fmt.Appendf(nil, "\nid: %d\n", last)
		for ended := false; !ended || !bytes.HasSuffix(got, []byte("\n\n")); {
			n, err := body.Read(piece)
			got = append(got, piece[:n]...)
			if err != nil {
				break
			}
			ended = ended || bytes.Contains(got[max(0, len(got)-n-len(end)):], end)
			<-time.After(time.Millisecond) // a reader's own pace
		}
		read <- got
	}()
	return read
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
