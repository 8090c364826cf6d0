package main

import (
	"runtime/debug"

	"github.com/alecthomas/kong"
	"github.com/posener/complete"
	"github.com/willabides/kongplete"
)

// commands is the command line, in the order of its help.
type commands struct {
	Serve   serveCommand   `cmd:"" help:"Run the API, the workers and the console."`
	Migrate migrateCommand `cmd:"" help:"Migrate the database to this version; safe to run concurrently."`
	Sandbox sandboxCommand `cmd:"" help:"Run the sandbox broker only."`

	Key     keyCommand     `cmd:"" help:"Create, list and revoke API keys."`
	Account accountCommand `cmd:"" help:"Create and list accounts, show their balances and deposit to them."`
	Match   matchCommand   `cmd:"" help:"Compare the broker's order list with the purchases; exit 1 while a finding is open."`
	Audit   auditCommand   `cmd:"" help:"Check every invariant of the data, read-only; exit 1 with each breach listed."`

	Buy       buyCommand       `cmd:"" help:"Buy, and print the purchase."`
	Show      showCommand      `cmd:"" help:"Show a purchase and its history."`
	List      listCommand      `cmd:"" help:"List purchases, newest first."`
	Watch     watchCommand     `cmd:"" help:"Follow status changes as they happen."`
	Resolve   resolveCommand   `cmd:"" help:"Decide the outcome of a purchase that the workers could not settle (operator)."`
	Reconcile reconcileCommand `cmd:"" help:"Have the workers reconcile a purchase again, now (operator)."`
	Findings  findingsCommand  `cmd:"" help:"List and close the findings of matching (operator)."`
	Switch    switchCommand    `cmd:"" help:"Pause and resume new purchases or the workers' passes (operator)."`
	Alert     alertCommand     `cmd:"" help:"Test the alert webhook."`

	Completion completionCommand `cmd:"" help:"Print shell code that completes holdfast's commands."`

	Version kong.VersionFlag `help:"Print the version."`
}

// predictors complete flags that have a fixed set of values.
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
