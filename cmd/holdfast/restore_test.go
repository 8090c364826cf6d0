package main

import (
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testkit/pgtest"
	"holdfast/sandbox"
)

// A database with a history, open purchases and events that have no number yet is dumped and
// restored into another cluster, where transaction ids start over. Subscribers resume there
// without a gap, and open purchases are reconciled.
func TestDumpAndRestore(t *testing.T) {
	t.Parallel()
	old, fresh := pgtest.Own(t), pgtest.Own(t)
	w := setupOn(t, old.URL(), patient...)
	s := launch(t, w.settings)
	f := startTraffic(t, w, s)
	f.flows(30)
	setMode(t, w, sandbox.Mode{Outage: "error"})
	let := holdRelays(t, old.URL())
	eventually(t, "events wait and purchases are open", func() error {
		var waiting, open int
		ask(t, old.URL(), `SELECT (SELECT count(*) FROM outbox), (SELECT count(*) FROM transaction_history WHERE status = 'UNKNOWN')`,
			&waiting, &open)
		if waiting < 10 || open < 10 {
			return fmt.Errorf("%d wait, %d are open", waiting, open)
		}
		return nil
	})
	s.kill()
	let()

	restored := restore(t, old, fresh)
	setMode(t, w, sandbox.Mode{})
	w.settings = append(w.settings, "HOLDFAST_DATABASE_URL="+restored, "HOLDFAST_ADDR="+s.addr)
	f.nodes[0] = launch(t, w.settings)
	f.flows(30)
	f.end(w.settings, restored)
}

func setMode(t *testing.T, w *world, mode sandbox.Mode) {
	t.Helper()
	if err := w.broker.SetMode(mode); err != nil {
		t.Fatal(err)
	}
}

// holdRelays blocks every relay until let is called.
func holdRelays(t *testing.T, database string) (let func()) {
	t.Helper()
	holder, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := holder.Exec(t.Context(), "BEGIN; SELECT FROM purchase_event_head FOR UPDATE"); err != nil {
		t.Fatal(err)
	}
	return func() { _ = holder.Close(t.Context()) }
}

// restore copies a cluster's database into a new one of another cluster, as the operations page
// describes, and returns its address.
func restore(t *testing.T, from, to *pgtest.Cluster) string {
	t.Helper()
	to.Exec(t, "CREATE DATABASE restored")
	restored := strings.Replace(to.URL(), "/holdfast?", "/restored?", 1)
	dump := exec.CommandContext(t.Context(), from.Tool(t, "pg_dump"), "--dbname="+from.URL())
	load := exec.CommandContext(t.Context(), to.Tool(t, "psql"), "--no-psqlrc", "--quiet", "--set=ON_ERROR_STOP=1", "--dbname="+restored)
	text, err := dump.Output()
	if err == nil {
		load.Stdin = strings.NewReader(string(text))
		text, err = load.CombinedOutput()
	}
	var failed *exec.ExitError
	if errors.As(err, &failed) {
		t.Fatalf("dump and restore: %v\n%s%s", err, failed.Stderr, text)
	}
	if err != nil {
		t.Fatal(err)
	}
	return restored
}

// During a long dump, and with writing transactions left open here and in another database of
// the cluster, events are still prompt.
func TestEventsAreNotHeldUpByOthers(t *testing.T) {
	t.Parallel()
	database, elsewhere := pgtest.NewURL(t), pgtest.NewURL(t)
	w := setupOn(t, database, patient...)
	for _, url := range []string{database, elsewhere} {
		other, err := pgx.Connect(t.Context(), url)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = other.Close(context.Background()) })
		for _, statement := range []string{
			"BEGIN ISOLATION LEVEL REPEATABLE READ",
			"LOCK TABLE transaction_history, account, outbox, purchase_event, purchase_event_head IN ACCESS SHARE MODE",
			"INSERT INTO account (id, currency) VALUES ('nobody', 'USD')",
		} {
			if _, err := other.Exec(t.Context(), statement); err != nil {
				t.Fatal(err)
			}
		}
	}
	f := startTraffic(t, w, launch(t, w.settings))
	f.flows(150)
	f.end(w.settings, database)
	f.prompt()
}
