package postgres_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"holdfast/postgres"
)

func TestIsTransient(t *testing.T) {
	t.Parallel()
	answer := func(code string) error { return fmt.Errorf("read: %w", &pgconn.PgError{Code: code}) }
	for name, test := range map[string]struct {
		err  error
		want bool
	}{
		"SerializationFailure": {answer("40001"), true},
		"TooManyConnections":   {answer("53300"), true},
		"LockTimeout":          {answer("55P03"), true},
		"StatementTimeout":     {answer("57014"), true},
		"AdminShutdown":        {answer("57P01"), true},
		"Standby":              {answer("25006"), true},
		"UniqueViolation":      {answer("23505"), false},
		"UndefinedTable":       {answer("42P01"), false},
		"NoDatabase":           {answer("3D000"), false},
		"Deadline":             {fmt.Errorf("query: %w", context.DeadlineExceeded), true},
		"Cancelled":            {context.Canceled, true},
		"ClosedConnection":     {net.ErrClosed, true},
		"CutConnection":        {io.ErrUnexpectedEOF, true},
		"Nil":                  {nil, false},
		"OurFault":             {errors.New("cannot scan"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := postgres.IsTransient(test.err); got != test.want {
				t.Errorf("IsTransient(%v) = %t", test.err, got)
			}
		})
	}
}
