package main

import (
	"runtime/debug"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"
)

// commands is the whole command line, in the order of its help.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the API, the workers and the console."`
	Migrate migrateCommand `cmd:"" help:"Bring the database to this version; safe from several places at once."`
	Sandbox sandboxCommand `cmd:"" help:"Run the sandbox broker alone."`

	Key     keyCommand     `cmd:"" help:"Create, list and revoke API keys."`
	Account accountCommand `cmd:"" help:"Create accounts and deposit to them."`
	Audit   auditCommand   `cmd:"" help:"Check every invariant of the data, read only; exit 1 with each breach named."`

	Alert alertCommand `cmd:"" help:"Try the alert webhook."`

	Completion completionCommand `cmd:"" help:"Print what makes a shell complete holdfast's commands."`

	Version kong.VersionFlag `help:"Print the version."`
}

// predictors complete the values of flags that have few.
func predictors() []kongplete.Option {
	return []kongplete.Option{
		kongplete.WithPredictor("status",
			complete.PredictSet("PENDING", "COMPLETED", "REJECTED", "UNKNOWN", "MANUAL_REVIEW")),
	}
}

func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok || info.Main.Version == "" {
		return "holdfast (devel)"
	}
	return "holdfast " + info.Main.Version
}
