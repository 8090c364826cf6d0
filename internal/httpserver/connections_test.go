package httpserver

import (
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"time"
)

// At the limit, connections without a request give way, oldest first; a request in
// progress does not.
func TestSilentConnectionsGiveWay(t *testing.T) {
	t.Parallel()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	server := New(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "served") }), slog.New(slog.DiscardHandler))
	server.conns.max = 4
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() { _ = server.Shutdown(t.Context()) })
	dial := func() net.Conn {
		conn, err := net.Dial("tcp", listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { conn.Close() })
		return conn
	}
	for range 20 {
		dial()
	}
	honest := dial()
	_ = honest.SetDeadline(time.Now().Add(20 * time.Second))
	if _, err := io.WriteString(honest, "GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"); err != nil {
		t.Fatal(err)
	}
	if answer, err := io.ReadAll(honest); err != nil || len(answer) == 0 {
		t.Errorf("answer %q, %v", answer, err)
	}
}
