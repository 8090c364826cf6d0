package pgtest

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"holdfast/internal/localpg"
)

// keeperFor makes this program a keeper of the folder that it names.
const keeperFor = "HOLDFAST_PGTEST_KEEPER"

// A test binary that finds the variable set is no test run but the keeper: it waits
// until every process that uses the cluster is gone, killed ones too, stops the
// server and ends. Tests have no end of their own that kill -9 respects.
func init() { //nolint:gochecknoinits // It must come before any test's own main.
	dir, set := os.LookupEnv(keeperFor)
	if !set {
		return
	}
	if err := localpg.StopUnused(context.Background(), dir); err != nil {
		os.Exit(1)
	}
	os.Exit(0)
}

// keep starts the keeper. It holds none of our files, or `go test` would wait for it.
func keep(dir string) error {
	self, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find the test binary: %w", err)
	}
	keeper := exec.Command(self)
	keeper.Dir = "/"
	keeper.Env = append(os.Environ(), keeperFor+"="+dir)
	keeper.SysProcAttr = &syscall.SysProcAttr{Setsid: true} // Ctrl-C is not for it
	if err := keeper.Start(); err != nil {
		return fmt.Errorf("start keeper: %w", err)
	}
	return keeper.Process.Release()
}
