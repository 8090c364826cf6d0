package main

import (
	"net"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5/pgproto3"
)

// pooler answers as PgBouncer does: a session's own settings are refused, all else is let
// in.
func pooler(t *testing.T) (url string) {
	t.Helper()
	listener, err := new(net.ListenConfig).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go pool(conn)
		}
	}()
	return "postgres://u@" + listener.Addr().String() + "/db?sslmode=disable"
}

func pool(conn net.Conn) {
	defer conn.Close()
	backend := pgproto3.NewBackend(conn, conn)
	message, err := backend.ReceiveStartupMessage()
	if err != nil {
		return
	}
	if start, ok := message.(*pgproto3.StartupMessage); ok && start.Parameters["statement_timeout"] != "" {
		backend.Send(&pgproto3.ErrorResponse{Severity: "FATAL", Code: "08P01", Message: "unsupported startup parameter: statement_timeout"})
		_ = backend.Flush()
		return
	}
	backend.Send(&pgproto3.AuthenticationOk{})
	backend.Send(&pgproto3.ReadyForQuery{TxStatus: 'I'})
	if backend.Flush() == nil {
		_, _ = backend.Receive() // until it goes
	}
}

// A migration's lock would stay behind in a session of the pooler's.
func TestMigrateRefusesAPooler(t *testing.T) {
	t.Parallel()
	r := command(t, []string{"HOLDFAST_DATABASE_URL=" + pooler(t)}, "migrate")
	if r.code != exitUsage || !strings.Contains(r.err, "HOLDFAST_LISTEN_DATABASE_URL") {
		t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
	}
}
