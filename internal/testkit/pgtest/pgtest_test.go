package pgtest

import (
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/sql"
)

func TestNewIsMigratedAndOnesOwn(t *testing.T) {
	t.Parallel()
	mine, others := New(t), New(t)
	if err := sql.CheckVersion(t.Context(), mine); err != nil {
		t.Error(err)
	}
	run(t, mine, "INSERT INTO account (id, currency, available, deposited) VALUES ('a', 'USD', 0, 0)")
	if got := number(t, others, "SELECT count(*) FROM account"); got != 0 {
		t.Errorf("another test's database has %d of my rows", got)
	}
}

func TestEmptyHasNoTables(t *testing.T) {
	t.Parallel()
	pool := Pool(t, Empty(t))
	if got := number(t, pool, "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'"); got != 0 {
		t.Errorf("an empty database has %d tables", got)
	}
}

func TestADatabaseGoesWithItsTest(t *testing.T) {
	t.Parallel()
	var name string
	t.Run("Test", func(t *testing.T) {
		name = text(t, New(t), "SELECT current_database()")
	})
	if got := number(t, New(t), "SELECT count(*) FROM pg_database WHERE datname = '"+name+"'"); got != 0 {
		t.Errorf("%s is still there", name)
	}
}

// TestKilledTestsLeaveNothing: neither a server once the last of them is gone, nor
// databases to the next run.
func TestKilledTestsLeaveNothing(t *testing.T) {
	t.Parallel()
	temp := tempDir(t)
	first, server, url := holder(t, temp)
	second, same, _ := holder(t, temp)
	if same != server {
		t.Fatalf("two servers, %d and %d, in one run", server, same)
	}
	kill(first)
	if got := number(t, Pool(t, url), "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"); got != 2 {
		t.Errorf("%d databases of two tests", got)
	}
	kill(second)
	eventually(t, "the server is gone", func() bool { return syscall.Kill(server, 0) == syscall.ESRCH || zombie(server) })

	_, _, url = holder(t, temp)
	if got := number(t, Pool(t, url), "SELECT count(*) FROM pg_database WHERE datname LIKE 'test%'"); got != 1 {
		t.Errorf("%d databases, want the new one only", got)
	}
}

func TestOwnComesBackWithItsData(t *testing.T) {
	t.Parallel()
	own := Own(t)
	url := own.URL()
	for range 2 {
		run(t, Pool(t, url), "CREATE TABLE IF NOT EXISTS kept (n int)")
		before := number(t, Pool(t, url), "SELECT count(*) FROM kept")
		run(t, Pool(t, url), "INSERT INTO kept VALUES (1)")
		own.Restart(t)
		if got := number(t, Pool(t, url), "SELECT count(*) FROM kept"); got != before+1 {
			t.Errorf("%d rows after a crash, want %d", got, before+1)
		}
	}
	own.Stop(t)
	if _, err := pgx.Connect(t.Context(), url); err == nil {
		t.Error("a stopped cluster answers")
	}
	own.Start(t)
}

func TestFingerprintFollowsTheMigrations(t *testing.T) {
	t.Parallel()
	root := t.TempDir()
	write(t, root, "go.mod", "module x")
	write(t, root, "sql/migrate.go", "package sql")
	write(t, root, "sql/migrations/00001_a.sql", "CREATE TABLE a ();")
	before := stateOf(t, root)
	if stateOf(t, root) != before {
		t.Error("the same files give another fingerprint")
	}
	write(t, root, "sql/migrations/00001_a.sql", "CREATE TABLE b ();")
	if stateOf(t, root) == before {
		t.Error("an edited migration gives the same fingerprint")
	}
}

func run(t *testing.T, pool *pgxpool.Pool, statement string) {
	t.Helper()
	if _, err := pool.Exec(t.Context(), statement); err != nil {
		t.Fatal(err)
	}
}

func number(t *testing.T, pool *pgxpool.Pool, query string) (n int) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func text(t *testing.T, pool *pgxpool.Pool, query string) (s string) {
	t.Helper()
	if err := pool.QueryRow(t.Context(), query).Scan(&s); err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(s)
}
