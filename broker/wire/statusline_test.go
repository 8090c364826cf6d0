package wire

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"holdfast/broker"
)

func TestStatusLine(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]int{
		"":                                           0,
		"HTTP/1.1 422 No":                            0,
		"HTTP/1.1 422 No\r":                          0,
		"HTTP/1.1 422 No\r\n":                        422,
		"HTTP/1.1 422\n":                             422,
		"HTTP/1.0 404 \n":                            404,
		"HTTP/1.1 4222 No\r\n":                       0,
		"HTTP/1.1 42 No\r\n":                         0,
		"HTTP/1.1  422 No\r\n":                       0,
		"HTTP/2.0 422 No\r\n":                        0,
		"http/1.1 422 No\r\n":                        0,
		"\r\nHTTP/1.1 422 No\r\n":                    0,
		"x\r\nHTTP/1.1 422 No\r\n":                   0,
		"HTTP/1.1 200 OK\r\nHTTP/1.1 422 No\r\n":     200,
		"HTTP/1.1 101 Up\r\n\r\nHTTP/1.1 422 No\r\n": 101,
		"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 422 No\r\n":                   422,
		"HTTP/1.1 103 H\nA: b\n\nHTTP/1.1 100 C\r\n\r\nHTTP/1.1 422 No\n":    422,
		"HTTP/1.1 103 H\r\nHTTP/1.1 422 No\r\n":                              0,
		"HTTP/1.1 422 " + strings.Repeat("x", 100_000) + "\r\n":              422,
		"HTTP/1.1 103 H\r\n" + strings.Repeat("x", 100_000) + "\r\n\r\n":     0,
		"HTTP/1.1 103 H\r\n\r\n" + strings.Repeat("x", 100_000) + "\r\n\r\n": 0,
	} {
		var whole, slow statusLine
		whole.feed([]byte(in))
		for i := range len(in) {
			slow.feed([]byte{in[i]})
		}
		if whole.code != want || slow.code != want {
			t.Errorf("%.60q: %d whole, %d byte by byte, want %d", in, whole.code, slow.code, want)
		}
	}
}

// TestLineBeforeTheRequestIsNoAnswer: it was left over, or says good-bye to an idle
// connection.
func TestLineBeforeTheRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	seen := &progress{ctx: t.Context()}
	seen.sawRead([]byte("HTTP/1.1 4"))
	if err := seen.allowWrite(); err != nil {
		t.Fatal(err)
	}
	seen.sawRead([]byte("HTTP/1.1 422 No\r\n"))
	if code := seen.refused(); code != 0 {
		t.Fatalf("refused with %d", code)
	}
}

// TestRefusalByItsLineOverTLS: the line is found in the plaintext.
func TestRefusalByItsLineOverTLS(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		requests.Add(1)
		connection, _, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		_, _ = connection.Write([]byte("HTTP/1.1 422 No\r\nX"))
		_ = connection.Close()
	}))
	t.Cleanup(server.Close)
	client := newClient(t, server)
	if reply := client.Post(t.Context(), "/", nil, []byte("{}")); reply.Status != 422 || reply.Fault == "" || requests.Load() != 1 {
		t.Errorf("place: %+v, %d requests", reply, requests.Load())
	}
	if reply := client.Get(t.Context(), "/"); reply.Status != 0 || reply.Fault == "" || requests.Load() != 2 {
		t.Errorf("lookup: %+v, %d requests", reply, requests.Load())
	}
}

// stopped is the context of a process that slept beyond its deadline: the hour has
// passed, but nothing has told so yet.
type stopped struct{ context.Context }

func (stopped) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }
func (stopped) Done() <-chan struct{}       { return nil }
func (stopped) Err() error                  { return nil }

func TestNothingIsSentLate(t *testing.T) {
	t.Parallel()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"HTTP": httptest.NewServer, "HTTPS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
			t.Cleanup(server.Close)
			client := newClient(t, server)
			for _, connection := range []string{"new", "reused"} {
				before := requests.Load()
				late := postIn(stopped{t.Context()}, client)
				if !late.NotSent || late.Fault != broker.Timeout || requests.Load() != before {
					t.Errorf("%s connection: %+v, %d requests", connection, late, requests.Load()-before)
				}
				if reply := client.Post(t.Context(), "/", nil, []byte("{}")); reply.Status != http.StatusOK {
					t.Fatalf("in time: %+v", reply)
				}
			}
		})
	}
}

// postIn makes the exchange without the layer that would see a deadline that has passed.
func postIn(ctx context.Context, client *Client) Reply {
	return client.do(ctx, func() {}, http.MethodPost, "/", nil, strings.NewReader("{}"))
}

func TestPast(t *testing.T) {
	t.Parallel()
	start := time.Now()
	ctx, cancel := context.WithDeadline(t.Context(), start.Add(time.Minute))
	defer cancel()
	for _, c := range []struct {
		name string
		now  time.Time
		want bool
	}{
		{"Before", start.Add(59 * time.Second), false},
		{"At", start.Add(time.Minute), true},
		{"After", start.Add(time.Hour), true},
		{"WallAlone", start.Round(0).Add(time.Hour), true},
	} {
		if got := past(ctx, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
	if past(t.Context(), start) {
		t.Error("no deadline has passed")
	}
}

// newClient trusts server's certificate.
func newClient(t *testing.T, server *httptest.Server) *Client {
	t.Helper()
	client, err := New(Config{BaseURL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if server.TLS != nil {
		trusted := server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs
		client.http.Transport.(*http.Transport).TLSClientConfig = &tls.Config{RootCAs: trusted}
	}
	return client
}
