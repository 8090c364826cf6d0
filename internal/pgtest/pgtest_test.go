package pgtest_test

import (
	"testing"

	"holdfast/internal/pgtest"
)

func TestNewIsMigratedAndOnesOwn(t *testing.T) {
	t.Parallel()
	a, b := pgtest.New(t), pgtest.New(t)
	if _, err := a.Exec(t.Context(), "INSERT INTO account (id, currency, available, deposited) VALUES ('a','USD',0,0)"); err != nil {
		t.Fatal(err)
	}
	var n int
	if err := b.QueryRow(t.Context(), "SELECT count(*) FROM account").Scan(&n); err != nil {
		t.Fatal(err)
	}
	if n != 0 {
		t.Errorf("another test's row is there")
	}
}
