package wire

import (
	"net/http"
	"net/http/httptest"
	"sync/atomic"
	"testing"
	"time"

	"go.uber.org/goleak"

	"holdfast/broker"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestHTTP2IsNotSpoken: over HTTP/2 net/http repeats any method after a refused stream.
// The server offers it; the client of the production constructor must not take it.
func TestHTTP2IsNotSpoken(t *testing.T) {
	t.Parallel()
	var major atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		major.Store(int64(r.ProtoMajor))
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	t.Cleanup(server.Close)

	client := newClient(t, server)
	if reply := client.Post(t.Context(), order()); reply.Status != http.StatusOK || major.Load() != 1 {
		t.Fatalf("status %d (%s), HTTP/%d", reply.Status, reply.Fault, major.Load())
	}
}

// TestUntrustedServerGetsNothing: the order leaves only after the handshake.
func TestUntrustedServerGetsNothing(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	server.StartTLS()
	t.Cleanup(server.Close)
	client, err := New(Config{BaseURL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	reply := client.Post(t.Context(), order())
	if !reply.NotSent || reply.Fault != broker.ConnectionFailed || requests.Load() != 0 {
		t.Fatalf("%+v, %d requests", reply, requests.Load())
	}
}

func TestEmptyBodyIsNotSent(t *testing.T) {
	t.Parallel()
	var requests atomic.Int64
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
	t.Cleanup(server.Close)
	client, err := New(Config{BaseURL: server.URL, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	if reply := client.Post(t.Context(), Post{Path: "/"}); !reply.NotSent || requests.Load() != 0 {
		t.Fatalf("%+v, %d requests", reply, requests.Load())
	}
}

// TestProxyFromTheEnvironmentIsIgnored: a proxy could send the order twice.
func TestProxyFromTheEnvironmentIsIgnored(t *testing.T) {
	t.Parallel()
	for _, client := range []*http.Client{newFresh(nil), newPooled(nil)} {
		if client.Transport.(*http.Transport).Proxy != nil {
			t.Fatal("the transport asks the environment for a proxy")
		}
	}
}
