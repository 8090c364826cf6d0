package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"

	"holdfast/internal/app"
	"holdfast/internal/config"
	"holdfast/sandbox"
)

type sandboxCommand struct {
	Addr   string `placeholder:"ADDR" help:"Address to listen on. Default: HOLDFAST_ADDR, or 127.0.0.1:8090."`
	Ledger string `placeholder:"FILE" help:"File to store the orders in. Default: memory only."`
}

// sandboxAddr is the default address of a separate sandbox: it differs from serve's, so both
// can run on one machine.
const sandboxAddr = "127.0.0.1:8090"

func (s *sandboxCommand) Run(ctx context.Context, a *cli) error {
	logging, err := config.LoadLog(a.env)
	if err != nil {
		return err
	}
	addr := cmp.Or(s.Addr, a.env["HOLDFAST_ADDR"], sandboxAddr)
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if err != nil {
		return fmt.Errorf("listen: %w", err)
	}
	log := app.NewLogger(a.errOut, logging, a.interactive)
	broker, err := sandbox.New(sandbox.Config{Ledger: s.Ledger, Log: log})
	if err != nil {
		return errors.Join(err, listener.Close())
	}
	log.Info("listening", "addr", listener.Addr().String(), "role", "sandbox")
	return broker.Serve(ctx, listener)
}
