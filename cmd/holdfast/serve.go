package main

import (
	"context"
	"log/slog"
	"maps"

	"holdfast/internal/app"
	"holdfast/internal/config"
)

type serveCommand struct {
	Role      app.Role `default:"all" enum:"all,api,worker" help:"api, worker, or all for both."`
	NoMigrate bool     `help:"Do not migrate the database; refuse to start if it has another version."`

	overrides
}

// overrides are the settings that also have a flag, because they are changed often.
type overrides struct {
	DatabaseURL string `placeholder:"URL" help:"HOLDFAST_DATABASE_URL"`
	DataDir     string `placeholder:"DIR" help:"HOLDFAST_DATA_DIR"`
	Addr        string `placeholder:"ADDR" help:"HOLDFAST_ADDR"`
	MetricsAddr string `placeholder:"ADDR" help:"HOLDFAST_METRICS_ADDR"`
	Broker      string `placeholder:"NAME" help:"HOLDFAST_BROKER"`
	BrokerURL   string `placeholder:"URL" help:"HOLDFAST_BROKER_URL"`
	LogLevel    string `placeholder:"LEVEL" help:"HOLDFAST_LOG_LEVEL"`
	LogFormat   string `placeholder:"FORMAT" help:"HOLDFAST_LOG_FORMAT"`
}

// over returns env with the given flags applied.
func (o overrides) over(env config.Env) config.Env {
	env = maps.Clone(env)
	for name, value := range map[string]string{
		"HOLDFAST_DATABASE_URL": o.DatabaseURL, "HOLDFAST_DATA_DIR": o.DataDir, "HOLDFAST_ADDR": o.Addr,
		"HOLDFAST_METRICS_ADDR": o.MetricsAddr, "HOLDFAST_BROKER": o.Broker, "HOLDFAST_BROKER_URL": o.BrokerURL,
		"HOLDFAST_LOG_LEVEL": o.LogLevel, "HOLDFAST_LOG_FORMAT": o.LogFormat,
	} {
		if value != "" {
			env[name] = value
		}
	}
	return env
}

// Help lists the settings: serve is the command that reads them all.
func (*serveCommand) Help() string { return "Settings, from the environment:\n\n" + config.Help() }

// Run serves until a signal arrives or a part of the process fails.
func (s *serveCommand) Run(ctx context.Context, a *cli) error {
	c, err := config.Load(s.over(a.env))
	if err != nil {
		return err
	}
	log := app.NewLogger(a.errOut, c.Log, a.interactive)
	logConfigWarnings(c, log)
	return app.Serve(ctx, app.Params{Config: c, Role: s.Role, NoMigrate: s.NoMigrate, Log: log, Out: a.out})
}

func logConfigWarnings(c config.Config, log *slog.Logger) {
	for _, warning := range c.Warnings() {
		log.Warn("suspicious configuration", "hint", warning)
	}
}
