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

// Switch names what an operator can pause: intake or passes, of one broker or, with an
// empty Broker, of all.
type Switch struct{ Name, Broker string }

// Paused are the switches that are paused.
type Paused map[Switch]bool

// Of reports whether something is paused for a broker, by its own switch or by that of all.
func (p Paused) Of(name, brokerName string) bool {
	return p[Switch{Name: name}] || p[Switch{name, brokerName}]
}

// Switches knows what operators have paused, at most a second old while the database is
// available; while it is not, what was last known holds.
type Switches struct {
	pool   *pgxpool.Pool
	log    *slog.Logger
	paused atomic.Pointer[Paused]
}

// NewSwitches returns switches of which nothing is paused until Run has read them.
func NewSwitches(pool *pgxpool.Pool, log *slog.Logger) *Switches {
	s := &Switches{pool: pool, log: log}
	s.paused.Store(&Paused{})
	return s
}

// IntakePaused reports whether new purchases for a broker are refused.
func (s *Switches) IntakePaused(brokerName string) bool {
	return s.paused.Load().Of(SwitchIntake, brokerName)
}

// PassesPaused reports whether workers make no passes for a broker.
func (s *Switches) PassesPaused(brokerName string) bool {
	return s.paused.Load().Of(SwitchPasses, brokerName)
}

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

// All reads the switches.
func (s *Switches) All(ctx context.Context) (Paused, error) {
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	rows, err := db.New(s.pool).Switches(ctx)
	if err != nil {
		return nil, fmt.Errorf("read switches: %w", err)
	}
	paused := Paused{}
	for _, r := range rows {
		if r.Paused {
			paused[Switch{r.Name, r.Broker}] = true
		}
	}
	s.paused.Store(&paused)
	return paused, nil
}

// Set pauses or resumes something for all brokers; every process follows within seconds,
// this one at once.
func (s *Switches) Set(ctx context.Context, name string, paused bool, note, actor string) error {
	return s.SetFor(ctx, Switch{Name: name}, paused, note, actor)
}

// SetFor is Set for one broker, or for all.
func (s *Switches) SetFor(ctx context.Context, sw Switch, paused bool, note, actor string) error {
	err := db.New(s.pool).SetSwitch(ctx, db.SetSwitchParams{
		Name: sw.Name, Broker: sw.Broker, Paused: paused, Note: note, Actor: actor,
	})
	if err != nil {
		return fmt.Errorf("set switch: %w", err)
	}
	_, err = s.All(ctx)
	return err
}
