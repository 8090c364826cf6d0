package main

import (
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testkit/pgtest"
)

// Whatever isolation level the database's other users need: each session sets its own.
func TestDefaultIsolationLevelDoesNotMatter(t *testing.T) {
	t.Parallel()
	for _, level := range []string{"serializable", "repeatable read"} {
		t.Run(level, func(t *testing.T) {
			t.Parallel()
			database := pgtest.Empty(t)
			alterDatabase(t, database, "SET default_transaction_isolation = '"+level+"'")
			must(t, []string{"HOLDFAST_DATABASE_URL=" + database}, "migrate")
			everyOutcome(t, setupOn(t, database))
		})
	}
}

// A restore of the tables alone does not restore sequences: inserts would fail, and outcomes
// could not be stored.
func TestSequencesAreCheckedBeforePurchasesAreAccepted(t *testing.T) {
	t.Parallel()
	w := setup(t)
	s := launch(t, w.settings)
	_, p := s.buy(w.client, "acct-1", "ERR500-BOOKED", "k1")
	s.awaitStatus(w.client, p.ID, "COMPLETED")
	s.stop()
	execSQL(t, w.database, "SELECT setval('broker_attempt_id_seq', 1, false)")
	r := command(t, append([]string{"HOLDFAST_ADDR=127.0.0.1:0"}, w.settings...), "serve", "--log-level", "error")
	if r.code != exitFailed || !strings.Contains(r.err, "setval('broker_attempt_id_seq'") || strings.Count(r.err, "\n") != 1 {
		t.Errorf("serve: exit %d: %s%s", r.code, r.out, r.err)
	}
	r = command(t, w.settings, "audit", "--json")
	if r.code != exitFailed || !strings.Contains(r.out, `"invariant":13`) {
		t.Errorf("audit: exit %d: %s%s", r.code, r.out, r.err)
	}
}

// Commands need only the main URL.
func TestCommandsWithoutTheListenDatabase(t *testing.T) {
	t.Parallel()
	w := setup(t)
	settings := append([]string{"HOLDFAST_LISTEN_DATABASE_URL=postgres://holdfast@127.0.0.1:1/none"}, w.settings...)
	must(t, settings, "migrate")
	must(t, settings, "audit")
	must(t, settings, "key", "list")
	must(t, settings, "account", "deposit", "--id", "acct-1", "--amount", "1.00")
}

func execSQL(t *testing.T, database, statement string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	if _, err := conn.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func alterDatabase(t *testing.T, database, change string) {
	t.Helper()
	config, err := pgx.ParseConfig(database)
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, database, "ALTER DATABASE "+pgx.Identifier{config.Database}.Sanitize()+" "+change)
}
