package localpg_test

import (
	"context"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/internal/localpg"
)

func TestSmoke(t *testing.T) {
	s, err := localpg.Start(t.Context(), localpg.Config{DataDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Log(s.URL(), s.PID())
	c, err := pgx.Connect(t.Context(), s.URL())
	if err != nil {
		t.Fatal(err)
	}
	var d string
	c.QueryRow(t.Context(), "show data_directory").Scan(&d)
	t.Log(d)
	if err := s.Stop(context.Background()); err != nil {
		t.Fatal(err)
	}
}
