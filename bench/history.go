package main

import (
	_ "embed"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// historyChunk is what one statement makes.
const historyChunk = 250_000

//go:embed history.sql
var historySQL string

// history measures purchases on a long history beside an empty one.
func (l *env) history() ([]Case, error) {
	long, err := l.copyOf(productTemplate)
	if err != nil {
		return nil, err
	}
	if err := l.with(long, l.makeHistory); err != nil {
		return nil, err
	}
	old, err := l.serve(long)
	if err != nil {
		return nil, err
	}
	if err := l.awaitRelayed(long); err != nil {
		return nil, err
	}
	empty, err := l.product()
	if err != nil {
		return nil, err
	}
	if err := l.warm(old, empty); err != nil {
		return nil, err
	}
	c, err := l.compare(fmt.Sprintf("%d purchases before, %d clients", l.o.History, l.o.Busy), throughput,
		subject{"holdfast", func() (Values, error) { return l.runLoad(old, l.o.Busy, l.o.Accounts) }},
		subject{"holdfast, empty", func() (Values, error) { return l.runLoad(empty, l.o.Busy, l.o.Accounts) }})
	return []Case{c}, err
}

// makeHistory fills the table without its indexes and makes them again, as a restore
// does; the primary key stays, for the ids come in its order.
func (l *env) makeHistory(conn *pgx.Conn) error {
	again, err := l.dropIndexes(conn)
	if err != nil {
		return err
	}
	for done := 0; done < l.o.History; done += historyChunk {
		l.say("  making the history: %d of %d", done, l.o.History)
		chunk := min(historyChunk, l.o.History-done)
		if _, err := conn.Exec(l.ctx, historySQL, chunk, l.o.Accounts, done, l.o.History); err != nil {
			return fmt.Errorf("make history: %w", err)
		}
	}
	for _, statement := range append(again, "ALTER TABLE "+table+" RESET (autovacuum_enabled)",
		"SET session_replication_role = origin", "VACUUM ANALYZE", "CHECKPOINT") {
		l.say("  making the history: %.60s", statement)
		if _, err := conn.Exec(l.ctx, statement); err != nil {
			return fmt.Errorf("make history: %w", err)
		}
	}
	return nil
}

// table is the one that grows with the years.
const table = "transaction_history"

// dropIndexes drops what slows the filling down and returns the statements that bring it
// back. Foreign keys need no look: the accounts are there.
func (l *env) dropIndexes(conn *pgx.Conn) (again []string, err error) {
	rows, _ := conn.Query(l.ctx, `
SELECT format('ALTER TABLE %I DROP CONSTRAINT %I', $1::text, conname),
       format('ALTER TABLE %I ADD CONSTRAINT %I %s', $1::text, conname, pg_get_constraintdef(oid))
FROM pg_constraint WHERE conrelid = $1::text::regclass AND contype = 'u'
UNION ALL
SELECT format('DROP INDEX %s', indexrelid::regclass), pg_get_indexdef(indexrelid)
FROM pg_index i WHERE indrelid = $1::text::regclass
AND NOT EXISTS (SELECT FROM pg_constraint c WHERE c.conindid = i.indexrelid AND c.conrelid = i.indrelid)`, table)
	drops := []string{"SET session_replication_role = replica", "ALTER TABLE " + table + " SET (autovacuum_enabled = off)"}
	var drop, bring string
	_, err = pgx.ForEachRow(rows, []any{&drop, &bring}, func() error {
		drops, again = append(drops, drop), append(again, bring)
		return nil
	})
	for _, statement := range drops {
		if err == nil {
			_, err = conn.Exec(l.ctx, statement)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("drop indexes: %w", err)
	}
	return again, nil
}

// relayPatience bounds the wait until a history's events are in the log.
const relayPatience = 5 * time.Minute

func (l *env) awaitRelayed(database string) error {
	return l.with(database, func(conn *pgx.Conn) error {
		for deadline := time.Now().Add(relayPatience); ; time.Sleep(settlePoll) {
			var left bool
			if err := conn.QueryRow(l.ctx, "SELECT EXISTS (SELECT FROM outbox)").Scan(&left); err != nil || !left {
				return err
			}
			if time.Now().After(deadline) {
				return fmt.Errorf("the history's events did not reach the log in %s", relayPatience)
			}
		}
	})
}
