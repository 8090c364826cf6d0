package jobs

import (
	"context"
	"flag"
	"fmt"
	"log/slog"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/jackc/pgx/v5/pgxpool"
	"go.uber.org/goleak"

	"holdfast/purchase"
)

// They name the database and the broker of a child process that works until it is killed.
const (
	doomedURL    = "HOLDFAST_TEST_DOOMED_URL"
	doomedBroker = "HOLDFAST_TEST_DOOMED_BROKER"
)

func TestMain(m *testing.M) {
	if url := os.Getenv(doomedURL); url != "" {
		if err := runDoomed(url); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
	}
	// Most tests wait, for a grace, a lease or a lock: more may run than there are cores.
	flag.Parse()
	if err := flag.Set("test.parallel", strconv.Itoa(max(8, runtime.GOMAXPROCS(0)))); err != nil {
		panic(err)
	}
	goleak.VerifyTestMain(m)
}

// runDoomed is a worker process. The broker is the parent's and decides when it has
// been in a pass for long enough.
func runDoomed(url string) error {
	ctx := context.Background()
	pool, err := pgxpool.New(ctx, url)
	if err != nil {
		return err
	}
	r, log := testRules(), slog.New(slog.DiscardHandler)
	client, err := adapter(os.Getenv(doomedBroker), r.timeout)
	if err != nil {
		return err
	}
	service, err := newService(pool, client, r.Policy, purchase.NewSwitches(pool, log), log)
	if err != nil {
		return err
	}
	config, err := testConfig(pool, service, r.RescueAfter, log)
	if err != nil {
		return err
	}
	workers, err := NewWorkers(config)
	if err != nil {
		return err
	}
	if err := workers.Start(ctx); err != nil {
		return err
	}
	select {}
}
