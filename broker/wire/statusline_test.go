package wire

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"
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

// TestLineBeforeTheRequestIsNoAnswer: it was left over, or closes an idle connection.
func TestLineBeforeTheRequestIsNoAnswer(t *testing.T) {
	t.Parallel()
	seen := &progress{ctx: t.Context()}
	seen.sawRead([]byte("HTTP/1.1 4"))
	if err := seen.allowWrite(); !errors.Is(err, errUnrequested) {
		t.Fatalf("the request may be written: %v", err)
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
	if reply := client.Post(t.Context(), order()); reply.Status != 422 || reply.Fault == "" || requests.Load() != 1 {
		t.Errorf("place: %+v, %d requests", reply, requests.Load())
	}
	if reply := client.Get(t.Context(), "/", time.Time{}); reply.Status != 0 || reply.Fault == "" || requests.Load() != 2 {
		t.Errorf("lookup: %+v, %d requests", reply, requests.Load())
	}
}
