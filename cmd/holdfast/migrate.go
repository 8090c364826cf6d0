package main

import (
	"context"
	"fmt"

	"holdfast/internal/app"
	"holdfast/internal/config"
	"holdfast/postgres"
	"holdfast/sql"
)

type migrateCommand struct {
	JSON bool `help:"Print JSON."`
}

func (m *migrateCommand) Run(ctx context.Context, a *cli) error {
	c, err := config.Load(a.env)
	if err != nil {
		return err
	}
	url, leave, err := app.DatabaseURL(ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	if c.DatabaseURL != "" {
		url = c.ListenURL // its lock needs a session
	}
	if err := postgres.Await(ctx, url, app.NewLogger(a.errOut, c.Log, a.interactive)); err != nil {
		return err
	}
	pooled, err := postgres.BehindPooler(ctx, url)
	if err != nil {
		return err
	}
	if pooled { // its lock would stay behind in a session of the pooler's
		return &usageError{"a migration needs a direct connection: set HOLDFAST_LISTEN_DATABASE_URL"}
	}
	a.progress("bringing the database to this version; another that does so goes first")
	if err := sql.Migrate(ctx, url); err != nil {
		return err
	}
	if m.JSON {
		return printJSON(a.out, map[string]any{"migrated": true})
	}
	_, err = fmt.Fprintln(a.out, "the database is of this version")
	return err
}
