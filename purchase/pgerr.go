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
	return &UnavailableError{Detail: "the database is unavailable or overloaded", RetryAfter: retryAfterTrouble, Err: err}
}

// transientClasses are the SQLSTATE classes that may recover on retry: connection,
// transaction rollback, resources, lock or object state, operator intervention, system error.
const transientClasses = "08 40 53 55 57 58"

func isTransient(err error) bool {
	if errors.Is(err, context.Canceled) {
		return false
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) {
		// No answer of the server's at all: it was unreachable, or too late.
		return true
	}
	// A server that takes no writes is a standby: one that is being promoted, or a primary
	// that was one.
	return pgErr.Code == pgerrcode.ReadOnlySQLTransaction || inClass(pgErr, transientClasses)
}

// definitiveClasses are the SQLSTATE classes of an error that ends the transaction for
// certain: of the statement, its data, its locks or the server's resources. The other
// classes (connection, system, internal, whatever a pooler makes up) may come after the
// commit.
const definitiveClasses = "0A 21 22 23 25 28 2D 34 3D 3F 40 42 44 53 54 55 P0"

// answered reports whether a statement has ended and its effect is certain: without an
// error all of it, with one nothing. An error that closes the session is not an answer: a
// server that shuts down says so about a commit that it has made, too.
func answered(err error) bool {
	if err == nil || errors.Is(err, errContended) || neverSent(err) {
		return true
	}
	var pgErr *pgconn.PgError
	if !errors.As(err, &pgErr) || severity(pgErr) != "ERROR" {
		return false
	}
	if pgErr.Code == pgerrcode.StatementCompletionUnknown {
		return false
	}
	return pgErr.Code == pgerrcode.QueryCanceled || inClass(pgErr, definitiveClasses)
}

func severity(err *pgconn.PgError) string {
	if err.SeverityUnlocalized != "" {
		return err.SeverityUnlocalized
	}
	return err.Severity
}

func inClass(err *pgconn.PgError, classes string) bool {
	return len(err.Code) == 5 && strings.Contains(classes, err.Code[:2])
}

// notSentError says that a statement was not sent: there was no connection for it.
type notSentError struct{ cause error }

func (e *notSentError) Error() string { return "no connection: " + e.cause.Error() }

func (e *notSentError) Unwrap() error { return e.cause }

// neverSent reports whether a statement cannot have reached the database.
func neverSent(err error) bool {
	var unsent *notSentError
	var unconnected *pgconn.ConnectError
	return errors.As(err, &unsent) || errors.As(err, &unconnected) || pgconn.SafeToRetry(err)
}
