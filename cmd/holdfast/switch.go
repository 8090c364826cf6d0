package main

import (
	"context"
	"fmt"

	"holdfast/client"
)

type switchCommand struct {
	Pause  pauseCommand  `cmd:"" help:"Pause intake (new purchases get 503) or passes (by workers), in every process."`
	Resume resumeCommand `cmd:"" help:"Resume intake or passes."`
}

// switching has what pausing and resuming share.
type switching struct {
	Name   string `arg:"" enum:"intake,passes" help:"intake or passes."`
	Broker string `placeholder:"NAME" help:"Only for this broker. Default: all brokers."`
	connection
}

type pauseCommand struct {
	Note string `required:"" placeholder:"TEXT" help:"The reason; shown to other operators."`
	switching
}

type resumeCommand struct {
	Note string `placeholder:"TEXT" help:"The reason; shown to other operators."`
	switching
}

func (c *pauseCommand) Run(ctx context.Context, a *cli) error  { return c.set(ctx, a, true, c.Note) }
func (c *resumeCommand) Run(ctx context.Context, a *cli) error { return c.set(ctx, a, false, c.Note) }

func (c switching) set(ctx context.Context, a *cli, paused bool, note string) error {
	api, err := c.open(a)
	if err != nil {
		return err
	}
	if err := api.SetSwitch(ctx, client.Switch{Name: c.Name, Paused: paused, Note: note, Broker: c.Broker}); err != nil {
		return asUsageError(err)
	}
	if c.JSON {
		return printJSON(a.out, map[string]any{"switch": c.Name, "paused": paused})
	}
	state := "on"
	if paused {
		state = "paused"
	}
	_, err = fmt.Fprintf(a.out, "%s is %s; it takes effect in every process within 5 seconds\n", c.Name, state)
	return err
}
