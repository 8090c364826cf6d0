package postgres

import (
	"context"
	"errors"
	"io"
	"net"
	"strings"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/puddle/v2"
)

// transientClasses are the SQLSTATE classes that concern the database's condition:
// connection, transaction rollback, resources, lock or object state, operator
// intervention, system error.
const transientClasses = "08 40 53 55 57 58"

// IsTransient reports whether err concerns the database's condition and not the statement:
// the same statement may succeed on retry. It does not say whether this one took effect.
func IsTransient(err error) bool {
	if code := Code(err); code != "" {
		// A server that takes no writes is a standby: one that is being promoted, or a
		// primary that was demoted.
		return code == pgerrcode.ReadOnlySQLTransaction ||
			len(code) == 5 && strings.Contains(transientClasses, code[:2])
	}
	var network net.Error
	var connect *pgconn.ConnectError
	return errors.As(err, &network) || errors.As(err, &connect) || pgconn.SafeToRetry(err) || pgconn.Timeout(err) ||
		errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) ||
		errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, puddle.ErrClosedPool)
}

// IsDeadlock reports whether the database aborted the transaction to end a deadlock.
func IsDeadlock(err error) bool { return Code(err) == pgerrcode.DeadlockDetected }

// Code returns the SQLSTATE of the server's answer, or "" if the server did not answer.
func Code(err error) string {
	var pgErr *pgconn.PgError
	if errors.As(err, &pgErr) {
		return pgErr.Code
	}
	return ""
}
