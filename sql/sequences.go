package sql

import (
	"context"
	"errors"
	"fmt"

	"github.com/jackc/pgx/v5"
)

// ErrSequence is returned if a sequence would give out numbers that are in use: a restore
// that left sequences behind makes inserts fail, and with them the storing of outcomes.
var ErrSequence = errors.New("sequence is behind its column")

// A Sequence stands below the highest value of its column.
type Sequence struct {
	Name, Column  string
	Last, Highest int64
}

// String names the sequence and what repairs it.
func (s Sequence) String() string {
	return fmt.Sprintf("%s stands at %d, but the highest value of %s is %d: SELECT setval('%s', %d)",
		s.Name, s.Last, s.Column, s.Highest, s.Name, s.Highest)
}

// Querier is a pool, a connection or a transaction.
type Querier interface {
	Query(ctx context.Context, query string, args ...any) (pgx.Rows, error)
	QueryRow(ctx context.Context, query string, args ...any) pgx.Row
}

// CheckSequences returns [ErrSequence] for the first sequence that is behind.
func CheckSequences(ctx context.Context, db Querier) error {
	behind, err := SequencesBehind(ctx, db)
	if err == nil && len(behind) > 0 {
		return fmt.Errorf("%w: %s", ErrSequence, behind[0])
	}
	return err
}

// SequencesBehind returns the sequences of Holdfast's and River's tables that stand below
// the highest value of their column.
func SequencesBehind(ctx context.Context, db Querier) ([]Sequence, error) {
	owned, err := sequences(ctx, db)
	if err != nil {
		return nil, err
	}
	var behind []Sequence
	for _, o := range owned {
		s := Sequence{Name: o.name, Column: o.table + "." + o.column}
		// The names come from the catalog, quoted there. The column is read first: the
		// sequence, which no snapshot holds back, can only be ahead of what is read.
		err := db.QueryRow(ctx, "SELECT COALESCE(max("+o.column+"), 0) FROM "+o.table).Scan(&s.Highest)
		if err == nil {
			err = db.QueryRow(ctx, "SELECT last_value - CASE WHEN is_called THEN 0 ELSE 1 END FROM "+o.name).Scan(&s.Last)
		}
		if err != nil {
			return nil, fmt.Errorf("read sequence %s: %w", o.name, err)
		}
		if s.Last < s.Highest {
			behind = append(behind, s)
		}
	}
	return behind, nil
}

type ownedSequence struct{ name, table, column string }

// sequences reads from the catalog which there are: River's change with its version.
func sequences(ctx context.Context, db Querier) ([]ownedSequence, error) {
	rows, err := db.Query(ctx, `
		SELECT s.oid::regclass::text, t.oid::regclass::text, quote_ident(a.attname)
		FROM pg_class s
		JOIN pg_depend d ON d.classid = 'pg_class'::regclass AND d.objid = s.oid
		                AND d.refclassid = 'pg_class'::regclass AND d.deptype IN ('a', 'i')
		JOIN pg_class t ON t.oid = d.refobjid
		JOIN pg_attribute a ON a.attrelid = t.oid AND a.attnum = d.refobjsubid
		WHERE s.relkind = 'S'
		  AND t.relnamespace = (SELECT relnamespace FROM pg_class WHERE oid = to_regclass($1))
		  AND (t.relname = ANY ($2) OR starts_with(t.relname, 'river_'))
		ORDER BY 1`, versionTable, numberedTables)
	if err != nil {
		return nil, fmt.Errorf("list sequences: %w", err)
	}
	owned, err := pgx.CollectRows(rows, func(row pgx.CollectableRow) (o ownedSequence, err error) {
		return o, row.Scan(&o.name, &o.table, &o.column)
	})
	if err != nil {
		return nil, fmt.Errorf("list sequences: %w", err)
	}
	return owned, nil
}

// numberedTables are Holdfast's tables whose rows a sequence numbers.
var numberedTables = []string{versionTable, "broker_attempt", "purchase_note", "outbox"}
