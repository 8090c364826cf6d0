package purchase

import (
	"context"
	"fmt"
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/purchase/db"
)

// The two things that operators can pause.
const (
	SwitchIntake = "intake"
	SwitchPasses = "passes"
)

const (
	switchInterval = time.Second
	switchTimeout  = 2 * time.Second
)

// Switches knows what operators have paused, a second old at the most while the
// database is well; while it is away, what was last known holds.
type Switches struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	intake atomic.Bool
	passes atomic.Bool
}

// NewSwitches returns switches that stand at "on" until Run has read them.
func NewSwitches(pool *pgxpool.Pool, log *slog.Logger) *Switches {
	return &Switches{pool: pool, log: log}
}

// IntakePaused reports whether new purchases are refused.
func (s *Switches) IntakePaused() bool { return s.intake.Load() }

// PassesPaused reports whether workers rest.
func (s *Switches) PassesPaused() bool { return s.passes.Load() }

// Run reads the switches every second until ctx ends.
func (s *Switches) Run(ctx context.Context) error {
	ticker := time.NewTicker(switchInterval)
	defer ticker.Stop()
	for {
		if _, err := s.All(ctx); err != nil && ctx.Err() == nil {
			s.log.Warn("switches not read", "error", err)
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-ticker.C:
		}
	}
}

// All reads the switches and returns which are paused.
func (s *Switches) All(ctx context.Context) (map[string]bool, error) {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	rows, err := db.New(s.pool).Switches(ctx)
	if err != nil {
		return nil, fmt.Errorf("read switches: %w", err)
	}
	paused := make(map[string]bool, len(rows))
	for _, r := range rows {
		paused[r.Name] = r.Paused
	}
	s.intake.Store(paused[SwitchIntake])
	s.passes.Store(paused[SwitchPasses])
	return paused, nil
}

// Set pauses or resumes; every process follows within seconds, this one at once.
func (s *Switches) Set(ctx context.Context, name string, paused bool, note, actor string) error {
	n, err := db.New(s.pool).SetSwitch(ctx, db.SetSwitchParams{Name: name, Paused: paused, Note: note, Actor: actor})
	if err != nil {
		return fmt.Errorf("set switch: %w", err)
	}
	if n == 0 {
		return fmt.Errorf("set switch: there is none called %q", name)
	}
	_, err = s.All(ctx)
	return err
}
