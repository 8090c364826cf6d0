package purchase

import (
	"errors"

	"holdfast/postgres"
)

// unavailable wraps an error of the database's condition as [*UnavailableError]; an
// error that is a fault of ours is returned as it is.
func unavailable(err error) error {
	var own *UnavailableError
	if errors.As(err, &own) || !postgres.IsTransient(err) {
		return err
	}
	return &UnavailableError{Detail: "the database is not there or overloaded", RetryAfter: retryAfterTrouble, Err: err}
}
