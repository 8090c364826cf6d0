package main

import (
	"context"
	"errors"
	"log/slog"
)

// The halves of Holdfast that a process can be.
const (
	roleAll    = "all"
	roleAPI    = "api"
	roleWorker = "worker"
)

type serveCommand struct {
	Role      string `default:"all" enum:"all,api,worker" help:"all, or one half: api or worker."`
	NoMigrate bool   `help:"Leave the database as it is, and refuse one of another version."`

	overrides
}

// overrides are the settings that one changes often enough to want a flag.
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

// over lays the flags that were given over the environment.
func (o overrides) over(find lookup) lookup {
	given := map[string]string{
		"HOLDFAST_DATABASE_URL": o.DatabaseURL, "HOLDFAST_DATA_DIR": o.DataDir, "HOLDFAST_ADDR": o.Addr,
		"HOLDFAST_METRICS_ADDR": o.MetricsAddr, "HOLDFAST_BROKER": o.Broker, "HOLDFAST_BROKER_URL": o.BrokerURL,
		"HOLDFAST_LOG_LEVEL": o.LogLevel, "HOLDFAST_LOG_FORMAT": o.LogFormat,
	}
	return func(name string) (string, bool) {
		if value := given[name]; value != "" {
			return value, true
		}
		return find(name)
	}
}

// Help lists the settings: serve is the command that reads them all.
func (*serveCommand) Help() string { return "Settings, from the environment:\n\n" + settingsHelp() }

// Run serves until a signal, or until a part of the process fails.
func (s *serveCommand) Run(ctx context.Context, a *app) error {
	c, err := loadConfig(s.over(a.find))
	if err != nil {
		return err
	}
	log := newLogger(a.errOut, c.Log, a.interactive)
	greetings(a, c, log)
	n := newNode(c, s.Role, s.NoMigrate, log, a.out)
	err = n.start(ctx)
	if err == nil {
		err = n.wait(ctx)
	}
	if ctx.Err() != nil && errors.Is(err, context.Canceled) {
		err = nil // told to stop while it started
	}
	return errors.Join(err, n.stop(ctx))
}

func greetings(a *app, c config, log *slog.Logger) {
	for _, name := range unknownSettings(a.environ) {
		log.Warn("no setting has this name", "name", name)
	}
	for _, remark := range remarks(c) {
		log.Warn("look at the settings", "remark", remark)
	}
}
