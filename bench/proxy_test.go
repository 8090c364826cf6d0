package main

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testkit/pgtest"
)

// The proxy changes nothing, and counts what really goes to the database and back.
func TestProxyCountsRoundTrips(t *testing.T) {
	t.Parallel()
	p, through, err := startProxy(pgtest.Empty(t))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = p.close() })
	ctx := context.Background()
	conn, err := pgx.Connect(ctx, through+"&application_name=counted")
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(ctx)
	trips := func(do func()) int64 {
		before := p.counts()["counted"]
		do()
		return p.counts()["counted"] - before
	}
	ask := func(want int) {
		t.Helper()
		var got int
		if err := conn.QueryRow(ctx, "SELECT $1::integer + 1", want-1).Scan(&got); err != nil || got != want {
			t.Errorf("got %d, %v; want %d", got, err, want)
		}
	}
	if got := trips(func() { ask(2) }); got != 2 {
		t.Errorf("an unknown statement took %d round trips, want 2: prepare, execute", got)
	}
	if got := trips(func() { ask(3) }); got != 1 {
		t.Errorf("a prepared statement took %d round trips, want 1", got)
	}
	inTx := trips(func() {
		if err := pgx.BeginFunc(ctx, conn, func(pgx.Tx) error { ask(4); return nil }); err != nil {
			t.Error(err)
		}
	})
	if inTx != 3 {
		t.Errorf("a transaction of one statement took %d round trips, want 3", inTx)
	}
}
