package main

import (
	"context"
	"errors"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"holdfast/sandbox"
)

// sameKey is how many equal requests are sent at once.
const sameKey = 50

// Fifty equal requests at once to two processes of one database: one row, one call to the
// broker, one first answer, and all responses have the same purchase.
func TestSameKeyOnTwoProcesses(t *testing.T) {
	t.Parallel()
	w := setup(t)
	nodes := []*serving{launch(t, w.settings, "--role", "api"), launch(t, w.settings, "--role", "api")}
	for i, test := range []struct {
		symbol  string
		delay   time.Duration
		first   int // the first call's answer
		replays []int
	}{
		{"AAPL", 0, 201, []int{201, 202}},
		{"SLOW", 300 * time.Millisecond, 201, []int{201, 202}},
		{"REJECT", 0, 422, []int{422, 202}},
		{"DROP-LOST", 0, 202, []int{202}},
	} {
		t.Run(test.symbol, func(t *testing.T) {
			if test.delay > 0 {
				if err := w.broker.Script(sandbox.Response{Call: "place", Delay: sandbox.Duration(test.delay)}); err != nil {
					t.Fatal(err)
				}
			}
			answers, purchases := buyAtOnce(t, nodes, w.client, test.symbol)
			firsts := 0
			for j, a := range answers {
				allowed := test.replays
				if a.header.Get("Idempotent-Replayed") == "" {
					firsts, allowed = firsts+1, []int{test.first}
				}
				if !slices.Contains(allowed, a.status) || purchases[j].ID != purchases[0].ID || a.header.Get("Location") == "" {
					t.Errorf("answer %d of purchase %s (first %s), replayed %q: %s", a.status, purchases[j].ID, purchases[0].ID,
						a.header.Get("Idempotent-Replayed"), a.body)
				}
			}
			if places := w.broker.Ledger("").Places; firsts != 1 || places != i+1 {
				t.Errorf("%d first answers, the broker was called %d times in all, want 1 and %d", firsts, places, i+1)
			}
			if n := rowCount(t, w, test.symbol); n != 1 {
				t.Errorf("%d rows", n)
			}
		})
	}
	auditHolds(t, w.settings)
}

// buyAtOnce sends the same request sameKey times, to the nodes in turn.
func buyAtOnce(t *testing.T, nodes []*serving, key, symbol string) ([]answer, []purchaseView) {
	t.Helper()
	answers, faults := make([]answer, sameKey), make([]error, sameKey)
	start := make(chan struct{})
	var clients sync.WaitGroup
	for i := range sameKey {
		clients.Go(func() {
			<-start
			answers[i], faults[i] = nodes[i%len(nodes)].call(http.MethodPost, "/v1/purchases", key, order("acct-1", symbol),
				"Idempotency-Key", "same-"+symbol)
		})
	}
	close(start)
	clients.Wait()
	if err := errors.Join(faults...); err != nil {
		t.Fatal(err)
	}
	purchases := make([]purchaseView, sameKey)
	for i, a := range answers {
		decode(t, a.body, &purchases[i])
	}
	return answers, purchases
}

// rowCount counts in the table itself.
func rowCount(t *testing.T, w *world, symbol string) (n int) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), strings.TrimPrefix(w.settings[0], "HOLDFAST_DATABASE_URL="))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if err := conn.QueryRow(t.Context(), "SELECT count(*) FROM transaction_history WHERE symbol = $1", symbol).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}
