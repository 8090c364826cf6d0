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
	Account accountCommand `cmd:"" help:"Create and list accounts, show their balances and deposit to them."`
	Match   matchCommand   `cmd:"" help:"Compare the broker's order list with the purchases; exit 1 while a finding is open."`
	Audit   auditCommand   `cmd:"" help:"Check every invariant of the data, read only; exit 1 with each breach named."`

	Buy       buyCommand       `cmd:"" help:"Buy, and print the purchase."`
	Show      showCommand      `cmd:"" help:"Show a purchase and its history."`
	List      listCommand      `cmd:"" help:"List purchases, newest first."`
	Watch     watchCommand     `cmd:"" help:"Follow status changes as they happen."`
	Resolve   resolveCommand   `cmd:"" help:"Decide a purchase that the workers could not (operator)."`
	Reconcile reconcileCommand `cmd:"" help:"Let the workers try a purchase again, now (operator)."`
	Findings  findingsCommand  `cmd:"" help:"List and close what matching has found (operator)."`
	Switch    switchCommand    `cmd:"" help:"Pause and resume new purchases or the workers' passes (operator)."`
	Alert     alertCommand     `cmd:"" help:"Try the alert webhook."`

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
