package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	"holdfast/internal/bench"
)

// runPart makes this process what another bench needs.
func (c *benchCommand) runPart(ctx context.Context, a *app) error {
	switch c.Part {
	case "serve-quiet":
		return serveQuiet(ctx, a)
	case "serve-profiled":
		return serveProfiled(ctx, a, c.Profile)
	default:
		config, _ := a.find("HOLDFAST_BENCH_PART")
		return bench.RunPart(ctx, c.Part, config, a.in, a.out)
	}
}

// serveQuiet is serve with its events off: nothing relays, notifies or listens.
func serveQuiet(ctx context.Context, a *app) error {
	c, err := loadConfig(a.find)
	if err != nil {
		return err
	}
	n := newNode(c, roleAll, false, newLogger(a.errOut, c.Log, a.interactive), a.out)
	for _, step := range []func(context.Context) error{
		n.listen, n.reachDatabase, n.migrate, n.openPools, n.openBroker, n.openRooms,
		n.startQuietLoops, n.startWorkers, n.serve,
	} {
		if err := step(ctx); err != nil {
			return errors.Join(err, n.stop(ctx))
		}
	}
	return errors.Join(n.wait(ctx), n.stop(ctx))
}

func (n *node) startQuietLoops(ctx context.Context) error {
	ctx, cancel := context.WithCancel(context.WithoutCancel(ctx))
	n.onStop("loops", func(stop context.Context) error {
		cancel()
		return n.awaitLoops(stop)
	})
	n.loop(ctx, "switches", n.switches.Run)
	n.loop(ctx, "keys", n.keys.Run)
	return nil
}

// serveProfiled is serve, with a profile of its whole life left in dir.
func serveProfiled(ctx context.Context, a *app, dir string) (err error) {
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return fmt.Errorf("make profile: %w", err)
	}
	defer cpu.Close()
	runtime.MemProfileRate = 16 << 10
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	served := (&serveCommand{Role: roleAll}).Run(ctx, a)
	pprof.StopCPUProfile()
	return errors.Join(served, writeProfiles(dir, "allocs"))
}

func writeProfiles(dir, name string) error {
	file, err := os.Create(filepath.Join(dir, name+".pprof"))
	if err != nil {
		return fmt.Errorf("make profile: %w", err)
	}
	defer file.Close()
	if err := pprof.Lookup(name).WriteTo(file, 0); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	return nil
}
