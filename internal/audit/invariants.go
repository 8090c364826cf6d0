package audit

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"time"

	"github.com/bojanz/currency"
	"github.com/jackc/pgx/v5"

	"holdfast/sql"
)

//go:embed *.sql
var queries embed.FS

// invariants are numbered as in the contract. Each returns at most limit+1 breaches.
var invariants = []struct {
	number int
	check  func(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) ([]Breach, error)
}{
	{1, query("jobs.sql")},
	{2, query("money.sql")},
	{3, query("retry.sql")},
	{4, query("events.sql")},
	{5, query("attempts.sql")},
	{6, query("orders.sql")},
	{7, query("replays.sql")},
	{8, query("schedule.sql")},
	{9, query("outbox.sql")},
	{10, query("holds.sql")},
	{11, query("alerts.sql")},
	{12, query("answers.sql")},
	{13, sequences},
}

// query checks an invariant by a query that returns (subject, detail) of every breach.
func query(file string) func(context.Context, pgx.Tx, pgx.NamedArgs) ([]Breach, error) {
	return func(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) ([]Breach, error) {
		return collect(ctx, tx, file, args, func(row pgx.CollectableRow) (b Breach, err error) {
			return b, row.Scan(&b.Subject, &b.Detail)
		})
	}
}

func sequences(ctx context.Context, tx pgx.Tx, _ pgx.NamedArgs) ([]Breach, error) {
	behind, err := sql.SequencesBehind(ctx, tx)
	var found []Breach
	for _, s := range behind {
		found = append(found, Breach{Subject: s.Name, Detail: s.String()})
	}
	return found, err
}

// awaitingSweep lists the purchases in UNKNOWN whose job is missing, but not for so long
// that the sweep must have repaired it.
func awaitingSweep(ctx context.Context, tx pgx.Tx, args pgx.NamedArgs) ([]string, error) {
	return collect(ctx, tx, "awaiting.sql", args, pgx.RowTo[string])
}

// collationWarning reports that the C library's order of text has changed since the
// database was created. Holdfast's own indexes do not depend on it; River's and other
// applications' may.
func collationWarning(ctx context.Context, tx pgx.Tx) ([]string, error) {
	text, err := queries.ReadFile("collation.sql")
	if err != nil {
		return nil, fmt.Errorf("read query: %w", err)
	}
	var recorded, actual string
	err = tx.QueryRow(ctx, string(text)).Scan(&recorded, &actual)
	if errors.Is(err, pgx.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read collation version: %w", err)
	}
	return []string{fmt.Sprintf("collation version mismatch: the database was created with %s, the operating system provides %s:"+
		" REINDEX DATABASE, then ALTER DATABASE … REFRESH COLLATION VERSION", recorded, actual)}, nil
}

func collect[T any](ctx context.Context, tx pgx.Tx, file string, args pgx.NamedArgs, scan pgx.RowToFunc[T]) ([]T, error) {
	text, err := queries.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("read query: %w", err)
	}
	rows, err := tx.Query(ctx, string(text), args)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", file, err)
	}
	found, err := pgx.CollectRows(rows, scan)
	if err != nil {
		return nil, fmt.Errorf("run %s: %w", file, err)
	}
	return found, nil
}

// arguments are what the queries name.
func (p Params) arguments() pgx.NamedArgs {
	codes, decimals := currencies()
	names := make([]string, len(p.Brokers))
	for i, b := range p.Brokers {
		names[i] = b.Name
	}
	return pgx.NamedArgs{
		"grace":          p.PendingGrace.Seconds(),
		"sweep":          p.SweepInterval.Seconds(),
		"retention":      p.EventRetention.Seconds(),
		"brokers":        names,
		"key_retentions": column(p.Brokers, func(b Broker) time.Duration { return b.KeyRetention }),
		"max_ages":       column(p.Brokers, func(b Broker) time.Duration { return b.MaxAge }),
		"longest_waits":  column(p.Brokers, func(b Broker) time.Duration { return b.LongestWait }),
		"call_timeouts":  column(p.Brokers, func(b Broker) time.Duration { return b.Timeout }),
		"slack":          (2*p.SweepInterval + driftTolerance).Seconds(),
		"queues":         p.Queues,
		"currencies":     codes,
		"decimals":       decimals,
		"most":           limit + 1,
	}
}

// column returns one setting of every broker, in seconds.
func column(brokers []Broker, of func(Broker) time.Duration) []float64 {
	seconds := make([]float64, len(brokers))
	for i, b := range brokers {
		seconds[i] = of(b).Seconds()
	}
	return seconds
}

// currencies returns the codes of ISO 4217 and the number of decimals of each.
func currencies() (codes []string, decimals []int32) {
	codes = currency.GetCurrencyCodes()
	for _, code := range codes {
		digits, _ := currency.GetDigits(code)
		decimals = append(decimals, int32(digits))
	}
	return codes, decimals
}
