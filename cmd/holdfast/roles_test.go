package main

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/internal/testkit/pgtest"
)

// grantRoles runs sql/roles.sql as the database's owner.
func grantRoles(t *testing.T, database string) {
	t.Helper()
	text, err := os.ReadFile("../../sql/roles.sql")
	if err != nil {
		t.Fatal(err)
	}
	execSQL(t, database, string(text))
}

// as returns the database's URL for another role.
func as(t *testing.T, database, role string) string {
	t.Helper()
	u, err := url.Parse(database)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(role)
	return u.String()
}

// Each process role and each command works with the privileges of its own database role.
func TestLeastPrivilegeRolesSuffice(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	grantRoles(t, database)
	must(t, []string{"HOLDFAST_DATABASE_URL=" + as(t, database, "holdfast_migrate")}, "migrate")
	grantRoles(t, database)
	w := setupOn(t, as(t, database, "holdfast_api"))
	settings := func(role string) []string {
		return append(append([]string{}, w.settings...), "HOLDFAST_DATABASE_URL="+as(t, database, role))
	}
	api := launch(t, settings("holdfast_api"), "--role", "api", "--no-migrate")
	worker := launch(t, settings("holdfast_worker"), "--role", "worker", "--no-migrate")
	seen := api.follow(w.client)
	for symbol, status := range map[string]string{
		"AAPL": "COMPLETED", "REJECT": "REJECTED", "ERR500-BOOKED": "COMPLETED", "DROP-LOST": "COMPLETED", "ERR500-FOREVER": "MANUAL_REVIEW",
	} {
		_, p := api.buy(w.client, "acct-1", symbol, "key-"+symbol)
		p = api.awaitStatus(w.client, p.ID, status)
		eventually(t, "events of "+symbol, func() error { return wholeStory(seen(), p) })
	}
	var days int
	if ask(t, database, "SELECT count(*) FROM pg_inherits WHERE inhparent = 'purchase_event'::regclass", &days); days < 8 {
		t.Errorf("the event log has %d partitions: the worker added no days", days)
	}
	operator := []string{"HOLDFAST_URL=http://" + api.addr, "HOLDFAST_API_KEY=" + w.operator}
	for _, args := range [][]string{
		{"switch", "pause", "passes", "--note", "n"}, {"switch", "resume", "passes"}, {"reconcile", "--status", "MANUAL_REVIEW"}, {"list"},
	} {
		must(t, operator, args...)
	}
	if a, err := api.call(http.MethodPost, "/v1/stream-tickets", w.client, "{}"); err != nil || a.status != http.StatusCreated {
		t.Errorf("stream ticket: %d, %v: %s", a.status, err, a.body)
	}
	if a, err := api.call(http.MethodGet, "/v1/findings", w.operator, ""); err != nil || a.status != http.StatusOK {
		t.Errorf("findings: %d, %v: %s", a.status, err, a.body)
	}
	auditHolds(t, settings("holdfast_audit"))
	must(t, settings("holdfast_api"), "account", "deposit", "--id", "acct-1", "--amount", "1.00")
	for _, s := range []*serving{api, worker} {
		if log := s.err.String(); strings.Contains(log, "permission denied") {
			t.Errorf("log:\n%s", worthReading(log))
		}
	}
}

func TestLeastPrivilegeRolesDenyTheRest(t *testing.T) {
	t.Parallel()
	database := pgtest.Empty(t)
	grantRoles(t, database)
	must(t, []string{"HOLDFAST_DATABASE_URL=" + as(t, database, "holdfast_migrate")}, "migrate")
	grantRoles(t, database)
	for role, statements := range map[string][]string{
		"holdfast_api": {
			"ALTER TABLE account ADD COLUMN x text", "DROP TABLE transaction_history", "TRUNCATE broker_attempt",
			"DELETE FROM transaction_history", "DELETE FROM broker_attempt", "DELETE FROM purchase_transition",
			"DELETE FROM purchase_note", "DELETE FROM purchase_event", "DELETE FROM deposit", "DELETE FROM account",
			"UPDATE purchase_transition SET status = 'UNKNOWN'", "UPDATE purchase_event SET status = 'UNKNOWN'",
			"UPDATE deposit SET amount = 1", "DELETE FROM alert", "CREATE TABLE x (y int)",
			"SELECT drop_event_day('2020-01-01')", "UPDATE holdfast_schema_version SET version_id = 1",
		},
		"holdfast_worker": {
			"ALTER TABLE account ADD COLUMN x text", "DROP TABLE purchase_event", "DELETE FROM transaction_history",
			"DELETE FROM broker_attempt", "DELETE FROM purchase_event", "INSERT INTO account (id, currency) VALUES ('a', 'USD')",
			"INSERT INTO deposit (id, account_id, amount, actor) VALUES (gen_random_uuid(), 'a', 1, 'a')",
			"UPDATE api_key SET revoked_at = NULL", "UPDATE switch SET paused = false", "CREATE TABLE x (y int)",
		},
		"holdfast_audit": {
			"UPDATE account SET available = 0", "INSERT INTO purchase_note (transaction_id, code, detail, actor) VALUES (gen_random_uuid(), '', '', '')",
			"DELETE FROM river_job", "SELECT setval('outbox_id_seq', 1)", "CREATE TABLE x (y int)",
		},
	} {
		conn, err := pgx.Connect(t.Context(), as(t, database, role))
		if err != nil {
			t.Fatal(err)
		}
		for _, statement := range statements {
			var refused *pgconn.PgError
			if _, err := conn.Exec(t.Context(), statement); !errors.As(err, &refused) || refused.Code != "42501" {
				t.Errorf("%s: %s: error %v, want insufficient privilege", role, statement, err)
			}
		}
		if err := conn.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
