package main

import (
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/testkit/pgtest"
)

// Whatever level the database's other users need: each session sets its own.
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

func alterDatabase(t *testing.T, database, change string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), database)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	name := pgx.Identifier{conn.Config().Database}.Sanitize()
	if _, err := conn.Exec(t.Context(), "ALTER DATABASE "+name+" "+change); err != nil {
		t.Fatal(err)
	}
}
