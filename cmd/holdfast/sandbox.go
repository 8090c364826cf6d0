package main

import (
	"context"
	"errors"
	"fmt"
	"net"

	"holdfast/sandbox"
)

type sandboxCommand struct {
	Addr   string `placeholder:"ADDR" help:"Where to listen (HOLDFAST_ADDR, else 127.0.0.1:8090)."`
	Ledger string `placeholder:"FILE" help:"Where to keep the orders; in memory by default."`
}

// sandboxAddr is where the sandbox listens alone: beside a Holdfast of the same machine.
const sandboxAddr = "127.0.0.1:8090"

func (s *sandboxCommand) Run(ctx context.Context, a *app) error {
	r := &reader{lookup: a.find}
	logging := readLog(r)
	if err := r.err(); err != nil {
		return err
	}
	set, _ := a.find("HOLDFAST_ADDR")
	addr := orElse(s.Addr, orElse(set, sandboxAddr))
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log := newLogger(a.errOut, logging, a.interactive)
	broker, err := sandbox.New(sandbox.Config{Ledger: s.Ledger, Log: log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info("listening", "addr", listener.Addr().String(), "role", "sandbox")
	return broker.Serve(ctx, listener)
}
