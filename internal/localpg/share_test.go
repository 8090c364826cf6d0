package localpg_test

import (
	"context"
	"sync"
	"syscall"
	"testing"
	"time"

	"holdfast/internal/localpg"
)

func TestStartKeepsDataAndSettings(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	write(t, server.URL())
	for setting, want := range map[string]string{
		"fsync": "on", "synchronous_commit": "on", "full_page_writes": "on", "data_checksums": "on", "listen_addresses": "", "max_connections": "200",
	} {
		if got := ask(t, server.URL(), "SHOW "+setting); got != want {
			t.Errorf("%s is %q, want %q", setting, got, want)
		}
	}
	stop(t, server)
	if running(server.PID()) {
		t.Error("postgres runs on after Stop")
	}
	written(t, start(t, dir).URL())
}

// TestCtrlCSparesPostgres: a terminal's Ctrl-C goes to the whole process group.
func TestCtrlCSparesPostgres(t *testing.T) {
	t.Parallel()
	server := start(t, dataDir(t))
	group, err := syscall.Getpgid(server.PID())
	check(t, err)
	if group == syscall.Getpgrp() {
		t.Error("postgres is in our own process group")
	}
}

func TestAttachUsesTheRunningServer(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	write(t, server.URL())
	command := attach(t, dir)
	if command.Started() || command.PID() != server.PID() || command.URL() != server.URL() {
		t.Errorf("command has a server of its own: %s", command.URL())
	}
	stop(t, command)
	written(t, server.URL())
}

func TestAttachStartsAndStopsWhereNobodyServes(t *testing.T) {
	t.Parallel()
	command := attach(t, emptyDir(t))
	write(t, command.URL())
	if !command.Started() {
		t.Error("did not start the server")
	}
	stop(t, command)
	if running(command.PID()) {
		t.Error("postgres runs on after its only user")
	}
}

func TestTheLastUserStops(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	command := attach(t, dir)
	stop(t, server)
	write(t, command.URL())
	again := start(t, dir) // a command does not keep a server out
	written(t, again.URL())
	stop(t, again)
	stop(t, command)
	if running(command.PID()) {
		t.Error("postgres runs on after its last user")
	}
}

func TestManyAtOnceStartOne(t *testing.T) {
	t.Parallel()
	dir := emptyDir(t)
	servers := make([]*localpg.Server, 8)
	var all sync.WaitGroup
	for i := range servers {
		all.Go(func() {
			server, err := localpg.Attach(t.Context(), localpg.Config{DataDir: dir})
			if err != nil {
				t.Error(err)
				return
			}
			servers[i] = server
		})
	}
	all.Wait()
	started := 0
	for _, server := range servers {
		if server == nil {
			t.FailNow()
		}
		if server.Started() {
			started++
		}
		stop(t, server)
	}
	if started != 1 {
		t.Errorf("%d of %d started a server", started, len(servers))
	}
}

func TestStopUnusedWaitsForTheLastUser(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	command := attach(t, dir)
	soon, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if err := localpg.StopUnused(soon, dir); err == nil {
		t.Error("stopped under a user")
	}
	if !running(command.PID()) {
		t.Error("postgres is gone under its user")
	}
}

func TestCrashLosesNothing(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	write(t, server.URL())
	check(t, server.Crash(t.Context()))
	if running(server.PID()) {
		t.Error("postgres runs on after a crash")
	}
	written(t, start(t, dir).URL())
}
