package purchase

import (
	"context"
	"errors"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
)

// unavailable wraps an error of the database's condition as [*UnavailableError]; an
// error that is a fault of ours is returned as it is.
func unavailable(err error) error {
	var own *UnavailableError
	if errors.As(err, &own) || !isTransient(err) {
		return err
	}
	return &UnavailableError{Detail: "the database is not there or overloaded", RetryAfter: retryAfterTrouble, Err: err}
}

// deadlocked reports whether the database ended a transaction for another's sake.
func deadlocked(err error) bool {
	var pgErr *pgconn.PgError
	return errors.As(err, &pgErr) && pgErr.Code == pgerrcode.DeadlockDetected
}

// passingClasses are the SQLSTATE classes that speak of the database's condition:
// connection, transaction rollback, resources, lock or object state, operator
// intervention, system error.
const transientClasses = "08 40 53 55 57 58"

func isTransient(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		// No answer of the server's at all: it could not be reached, or not in time.
		return true
	}
	// A server that takes no writes is a standby: one that is being promoted, or a primary
	// that was one.
	return pgErr.Code == pgerrcode.ReadOnlySQLTransaction ||
		len(pgErr.Code) == 5 && strings.Contains(transientClasses, pgErr.Code[:2])
}
