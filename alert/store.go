package alert

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/alert/db"
)

const (
	// reportPause is how long a process that reported, or tried to report, an alert of a
	// type leaves the database alone about that type: a thousand refused calls are one
	// alert.
	reportPause   = time.Minute
	reportTimeout = 10 * time.Second
)

// Scheduler makes sure, in the caller's transaction, that each alert has a delivery job.
type Scheduler interface {
	ScheduleAlertsTx(ctx context.Context, tx pgx.Tx, ids []uuid.UUID) error
}

// Store writes alerts.
type Store struct {
	pool      *pgxpool.Pool
	scheduler Scheduler
	log       *slog.Logger
	// reported is when each type was last reported here.
	reported sync.Map
}

// New returns a store.
func New(pool *pgxpool.Pool, scheduler Scheduler, log *slog.Logger) *Store {
	return &Store{pool: pool, scheduler: scheduler, log: log}
}

// Raise writes an alert and its delivery job, unless one of its type was written within the
// hour.
func (s *Store) Raise(ctx context.Context, kind string, data map[string]any) error {
	return pgx.BeginFunc(ctx, s.pool, func(tx pgx.Tx) error {
		_, err := s.RaiseTx(ctx, tx, kind, data)
		return err
	})
}

// RaiseTx is Raise in the caller's transaction. It reports whether the alert was written.
func (s *Store) RaiseTx(ctx context.Context, tx pgx.Tx, kind string, data map[string]any) (bool, error) {
	text, err := json.Marshal(data)
	if err != nil {
		return false, fmt.Errorf("encode alert: %w", err)
	}
	queries := db.New(tx)
	if err := queries.LockAlertType(ctx, kind); err != nil {
		return false, fmt.Errorf("raise alert: %w", err)
	}
	id, err := queries.RaiseAlert(ctx, uuid.New(), kind, string(text))
	if errors.Is(err, pgx.ErrNoRows) {
		return false, nil
	}
	if err != nil {
		return false, fmt.Errorf("raise alert: %w", err)
	}
	return true, s.scheduler.ScheduleAlertsTx(ctx, tx, []uuid.UUID{id})
}

// Report raises an alert whose failure must not stop what raised it: it is logged, and the
// next report tries again. It goes on if ctx ends.
func (s *Store) Report(ctx context.Context, kind string, data map[string]any) {
	if last, ok := s.reported.Load(kind); ok && time.Since(last.(time.Time)) < reportPause {
		return
	}
	s.reported.Store(kind, time.Now())
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), reportTimeout)
	defer cancel()
	if err := s.Raise(ctx, kind, data); err != nil {
		s.reported.Delete(kind)
		s.log.Error("alert not raised", "type", kind, "error", err)
	}
}
