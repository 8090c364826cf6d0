package jobs

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"holdfast/broker"
)

// doomedURL names the database of a child process that works on it until it is killed.
const doomedURL = "HOLDFAST_TEST_DOOMED_URL"

func TestMain(m *testing.M) {
	if url := os.Getenv(doomedURL); url != "" {
		if err := runDoomed(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	goleak.VerifyTestMain(m)
}

// runDoomed is a worker process whose every lookup hangs; each says so on stdout.
func runDoomed(url string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	hanging := &stubBroker{lookup: func(_ context.Context, key string) broker.Answer {
		fmt.Println("looking up", key)
		select {}
	}}
	service, err := newService(pool, hanging, testPolicy(), slog.New(slog.DiscardHandler))
	if err != nil {
		return err
	}
	config := testConfig(pool, service, slog.New(slog.DiscardHandler))
	workers, err := NewWorkers(config)
	if err != nil {
		return err
	}
	if err := workers.Start(ctx); err != nil {
		return err
	}
	select {}
}
