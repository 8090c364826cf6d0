package postgres

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// startTimeout bounds the wait for an unreachable database at startup: services that are
// started together find each other in this time, and a wrong address is reported soon.
const (
	startTimeout = 30 * time.Second
	startPoll    = 250 * time.Millisecond
)

// Await waits until the database accepts connections and writes, for up to 30 s. An error
// that waiting cannot fix, such as a wrong password or an unknown database, fails at once.
func Await(ctx context.Context, url string, log *slog.Logger) error {
	deadline := time.Now().Add(startTimeout)
	for logged := false; ; logged = true {
		err := PingPrimary(ctx, url)
		if err == nil || !mayConnectLater(err) || ctx.Err() != nil || time.Now().After(deadline) {
			return err
		}
		if !logged {
			log.WarnContext(ctx, "waiting for the database", "at_most", startTimeout.String(), "error", err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(startPoll):
		}
	}
}

// PingPrimary connects to a server that accepts writes: a standby may be about to be
// promoted.
func PingPrimary(ctx context.Context, url string) error {
	config, err := pgx.ParseConfig(url)
	if err != nil {
		return fmt.Errorf("read database address: %w", err)
	}
	if config.ConnectTimeout == 0 {
		config.ConnectTimeout = connectTimeout
	}
	if config.ValidateConnect == nil {
		config.ValidateConnect = pgconn.ValidateConnectTargetSessionAttrsReadWrite
	}
	conn, err := pgx.ConnectConfig(ctx, config)
	if err != nil {
		return fmt.Errorf("connect to the database: %w", err)
	}
	ctx, cancel := context.WithTimeout(ctx, connectTimeout)
	defer cancel()
	return conn.Close(ctx)
}

// mayConnectLater is [IsTransient], without the code that a pooler has for every refusal,
// such as a wrong password.
func mayConnectLater(err error) bool {
	return IsTransient(err) && Code(err) != pgerrcode.ProtocolViolation
}

// BehindPooler reports whether url leads to a pooler that keeps no sessions.
func BehindPooler(ctx context.Context, url string) (bool, error) {
	pool, err := OpenPool(ctx, url, PoolParams{Name: "start", Size: 1, Limits: RequestLimits})
	if err != nil {
		return false, err
	}
	defer pool.Close()
	err = pool.Ping(ctx)
	if refusesSessions(err) {
		return true, nil
	}
	if err != nil {
		return false, fmt.Errorf("connect to the database: %w", err)
	}
	return false, nil
}

// refusesSessions recognizes PgBouncer by its error about session parameters.
func refusesSessions(err error) bool {
	var said *pgconn.PgError
	return errors.As(err, &said) && strings.Contains(said.Message, "unsupported startup parameter")
}
