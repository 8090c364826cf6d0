package jobs

import (
	"context"
	"fmt"

	"github.com/jackc/pgx/v5/pgxpool"

	"holdfast/jobs/db"
)

// Queues reports of each queue that Holdfast uses whether it is paused, as River UI can do.
func Queues(ctx context.Context, pool *pgxpool.Pool) (map[string]bool, error) {
	paused, err := db.New(pool).PausedQueues(ctx)
	if err != nil {
		return nil, fmt.Errorf("read paused queues: %w", err)
	}
	queues := map[string]bool{queuePasses: false, queueAlerts: false}
	for _, name := range paused {
		if _, ours := queues[name]; ours {
			queues[name] = true
		}
	}
	return queues, nil
}
