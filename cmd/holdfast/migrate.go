package main

import (
	"fmt"

	"holdfast/sql"
)

type migrateCommand struct{}

func (*migrateCommand) Run(a *app) error {
	c, err := loadConfig(a.find)
	if err != nil {
		return err
	}
	url, leave, err := databaseFor(a.ctx, c)
	if err != nil {
		return err
	}
	defer leave()
	if c.DatabaseURL != "" {
		url = c.ListenURL // a migration holds a session lock, which a pooler would lose
	}
	if err := awaitDatabase(a.ctx, url, newLogger(a.errOut, c.Log, a.interactive)); err != nil {
		return err
	}
	if err := sql.Migrate(a.ctx, url); err != nil {
		return err
	}
	_, err = fmt.Fprintln(a.out, "the database is of this version")
	return err
}
