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
	if err := postgres.Await(ctx, url, app.NewLogger(a.errOut, c.Log, a.interactive)); err != nil {
		return err
	}
	a.progress("migrating the database; if another process is migrating it, this one waits")
	if err := sql.Migrate(ctx, url); err != nil {
		return err
	}
	if m.JSON {
		return printJSON(a.out, map[string]any{"migrated": true})
	}
	_, err = fmt.Fprintln(a.out, "the database has this version")
	return err
}
