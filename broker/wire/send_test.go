package wire

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httptrace"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"holdfast/broker"
)

// order is a request that may be sent at any time.
func order() Post { return Post{Path: "/", Body: []byte("{}")} }

// orderBefore is one that must have been sent within d.
func orderBefore(d time.Duration) Post {
	post := order()
	post.SendBefore = time.Now().Add(d)
	return post
}

// newClient trusts server's certificate.
func newClient(t *testing.T, server *httptest.Server) *Client {
	t.Helper()
	config := Config{BaseURL: server.URL, Timeout: 10 * time.Second}
	if server.TLS != nil {
		config.TLS = &tls.Config{RootCAs: server.Client().Transport.(*http.Transport).TLSClientConfig.RootCAs}
	}
	client, err := New(config)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

// serve counts requests, over HTTP and HTTPS.
func serve(t *testing.T, test func(t *testing.T, client *Client, requests *atomic.Int64)) {
	t.Helper()
	for name, start := range map[string]func(http.Handler) *httptest.Server{"HTTP": httptest.NewServer, "HTTPS": httptest.NewTLSServer} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var requests atomic.Int64
			server := start(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { requests.Add(1) }))
			t.Cleanup(server.Close)
			test(t, newClient(t, server), &requests)
		})
	}
}

// checkNotSent wants an order that was too late to be sent.
func checkNotSent(t *testing.T, reply Reply, requests int64) {
	t.Helper()
	if !reply.NotSent || reply.Fault != broker.Timeout || reply.Status != 0 || requests != 0 {
		t.Errorf("%+v, %d requests; want not sent, timeout, none", reply, requests)
	}
}

func TestSendBefore(t *testing.T) {
	t.Parallel()
	serve(t, func(t *testing.T, client *Client, requests *atomic.Int64) {
		checkNotSent(t, client.Post(t.Context(), orderBefore(0)), requests.Load())
		if reply := client.Post(t.Context(), orderBefore(time.Minute)); reply.Status != http.StatusOK || requests.Load() != 1 {
			t.Errorf("in time: %+v, %d requests", reply, requests.Load())
		}
	})
}

// TestSendBeforePassesOnceConnected: whatever delays the order between the connection and
// the first write, the last check comes after it.
func TestSendBeforePassesOnceConnected(t *testing.T) {
	t.Parallel()
	serve(t, func(t *testing.T, client *Client, requests *atomic.Int64) {
		post := orderBefore(300 * time.Millisecond)
		ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
			GotConn: func(httptrace.GotConnInfo) { <-time.After(time.Until(post.SendBefore)) },
		})
		checkNotSent(t, client.Post(ctx, post), requests.Load())
	})
}

// TestSendBeforeLimitsTheSendOnly: the answer has the whole timeout.
func TestSendBeforeLimitsTheSendOnly(t *testing.T) {
	t.Parallel()
	post := orderBefore(500 * time.Millisecond)
	server := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {
		<-time.After(time.Until(post.SendBefore) + 100*time.Millisecond)
	}))
	t.Cleanup(server.Close)
	if reply := newClient(t, server).Post(t.Context(), post); reply.Status != http.StatusOK {
		t.Errorf("%+v", reply)
	}
}

// TestSendBeforeCutsARequest: bytes that have not left by then are not sent. What arrived
// is no whole request, but something was sent: uncertain.
func TestSendBeforeCutsARequest(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	received := make(chan int64, 1)
	post := orderBefore(300 * time.Millisecond)
	post.Body = make([]byte, 64<<20) // more than the socket's buffers hold
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		defer func() { _ = connection.Close() }()
		<-time.After(time.Until(post.SendBefore) + 200*time.Millisecond) // reads nothing until then
		n, _ := io.Copy(io.Discard, connection)
		received <- n
	}()
	reply := clientOf(t, "http://"+listener.Addr().String()).Post(t.Context(), post)
	if reply.NotSent || reply.Fault != broker.Timeout {
		t.Errorf("%+v", reply)
	}
	if n := <-received; n >= int64(len(post.Body)) {
		t.Errorf("%d bytes arrived", n)
	}
}

func TestStalledHandshakeIsNotSent(t *testing.T) {
	t.Parallel()
	listener := listen(t) // the kernel accepts, nobody answers the TLS hello
	checkNotSent(t, clientOf(t, "https://"+listener.Addr().String()).Post(t.Context(), orderBefore(200*time.Millisecond)), 0)
}

func TestStalledDialIsNotSent(t *testing.T) {
	t.Parallel()
	client := clientOf(t, "http://"+fullListener(t))
	checkNotSent(t, client.Post(t.Context(), orderBefore(200*time.Millisecond)), 0)
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	checkNotSent(t, client.Post(ctx, order()), 0)
}

// TestUnansweredExchangeIsReset: closed in good order, the kernel could deliver the order
// long after the exchange was declared over.
func TestUnansweredExchangeIsReset(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	ended := make(chan error, 1)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			ended <- err
			return
		}
		defer func() { _ = connection.Close() }()
		_, err = io.Copy(io.Discard, connection)
		ended <- err
	}()
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	reply := clientOf(t, "http://"+listener.Addr().String()).Post(ctx, order())
	if reply.NotSent || reply.Fault != broker.Timeout {
		t.Errorf("%+v", reply)
	}
	if err := <-ended; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the connection ended with %v, want a reset", err)
	}
}

// TestEarlyAnswerIsNotSentTo: a connection that carries an answer before anything was
// asked cannot be trusted with an order.
func TestEarlyAnswerIsNotSentTo(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	go func() {
		connection, err := listener.Accept()
		if err != nil {
			return
		}
		_, _ = io.WriteString(connection, "HTTP/1.1 422 No\r\nContent-Length: 0\r\n\r\n")
		_, _ = io.Copy(io.Discard, connection)
		_ = connection.Close()
	}()
	client := clientOf(t, "http://"+listener.Addr().String())
	arrived := make(chan struct{})
	ctx := httptrace.WithClientTrace(t.Context(), &httptrace.ClientTrace{
		GotConn: func(httptrace.GotConnInfo) { <-arrived },
		ConnectDone: func(_, _ string, _ error) {
			time.AfterFunc(200*time.Millisecond, func() { close(arrived) })
		},
	})
	if reply := client.Post(ctx, order()); !reply.NotSent || reply.Status != 0 {
		t.Errorf("%+v, want not sent", reply)
	}
}

// suspended is the context of a process that slept beyond its deadline: the time has
// passed, but no timer has fired yet.
type suspended struct{ context.Context }

func (suspended) Deadline() (time.Time, bool) { return time.Now().Add(-time.Millisecond), true }
func (suspended) Done() <-chan struct{}       { return nil }
func (suspended) Err() error                  { return nil }

func TestNothingIsSentAfterTheDeadline(t *testing.T) {
	t.Parallel()
	serve(t, func(t *testing.T, client *Client, requests *atomic.Int64) {
		checkNotSent(t, postIn(suspended{t.Context()}, client), requests.Load())
	})
}

// postIn makes the exchange without the layer that would notice a deadline that has passed.
func postIn(ctx context.Context, client *Client) Reply {
	return client.do(ctx, func() {}, call{http: client.fresh, method: http.MethodPost, path: "/", body: strings.NewReader("{}")})
}

func TestPast(t *testing.T) {
	t.Parallel()
	start := time.Now()
	deadline := start.Add(time.Minute)
	for _, c := range []struct {
		name string
		now  time.Time
		want bool
	}{
		{"Before", start.Add(59 * time.Second), false},
		{"At", deadline, true},
		{"After", start.Add(time.Hour), true},
		{"WallAlone", start.Round(0).Add(time.Hour), true},
	} {
		if got := past(deadline, c.now); got != c.want {
			t.Errorf("%s: %v", c.name, got)
		}
	}
}

func clientOf(t *testing.T, url string) *Client {
	t.Helper()
	client, err := New(Config{BaseURL: url, Timeout: 10 * time.Second})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(client.Close)
	return client
}

func listen(t *testing.T) net.Listener {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	return listener
}

// fullListener is an address where a connection is neither accepted nor refused: the
// queue of a listener that accepts nothing is full.
func fullListener(t *testing.T) string {
	t.Helper()
	listener := listen(t).(*net.TCPListener)
	raw, err := listener.SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if err := raw.Control(func(fd uintptr) { _ = syscall.Listen(int(fd), 0) }); err != nil {
		t.Fatal(err)
	}
	for {
		connection, err := (&net.Dialer{Timeout: 200 * time.Millisecond}).DialContext(t.Context(), "tcp", listener.Addr().String())
		if err != nil {
			return listener.Addr().String()
		}
		t.Cleanup(func() { _ = connection.Close() })
	}
}
