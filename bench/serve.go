package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"

	"holdfast/internal/app"
	"holdfast/internal/config"
)

// runPart makes this process what another bench needs.
func (c *command) runPart(ctx context.Context) error {
	switch c.Part {
	case "serve-quiet":
		return serveProduct(ctx, true)
	case "serve-profiled":
		return serveProfiled(ctx, c.Profile)
	default:
		return runBaseline(ctx, c.Part, os.Getenv(partSetting), os.Stdin, os.Stdout)
	}
}

// serveProduct is holdfast serve in this process, with or without its events.
func serveProduct(ctx context.Context, noEvents bool) error {
	settings, err := config.Load(config.Environ())
	if err != nil {
		return err
	}
	log := app.NewLogger(os.Stderr, settings.Log, false)
	return app.Serve(ctx, app.Params{Config: settings, Role: app.RoleAll, NoEvents: noEvents, Log: log, Out: os.Stdout})
}

// serveProfiled is holdfast serve, and writes a profile of its whole life to dir.
func serveProfiled(ctx context.Context, dir string) (err error) {
	cpu, err := os.Create(filepath.Join(dir, "cpu.pprof"))
	if err != nil {
		return fmt.Errorf("create profile: %w", err)
	}
	defer cpu.Close()
	runtime.MemProfileRate = 16 << 10
	if err := pprof.StartCPUProfile(cpu); err != nil {
		return fmt.Errorf("profile: %w", err)
	}
	served := serveProduct(ctx, false)
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
