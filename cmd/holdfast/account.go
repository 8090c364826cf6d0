package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/google/uuid"
	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/internal/app"
	"holdfast/internal/config"
	"holdfast/internal/money"
)

// The maximum digits of an amount, as in the API; the currency's decimals are checked
// separately.
const (
	amountDigits   = 12
	amountDecimals = 4
)

type accountCommand struct {
	Create  accountCreateCommand  `cmd:"" help:"Create an account."`
	List    accountListCommand    `cmd:"" help:"List the accounts with their balances."`
	Show    accountShowCommand    `cmd:"" help:"Show an account's balances."`
	Deposit accountDepositCommand `cmd:"" help:"Add money to an account."`
}

func withAccounts(ctx context.Context, a *cli, open app.Opener, use func(ctx context.Context, accounts *account.Store) error) error {
	c, err := config.Load(a.env)
	if err != nil {
		return err
	}
	pool, done, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	return use(ctx, account.New(pool))
}

type accountCreateCommand struct {
	ID            string `required:"" placeholder:"ID" help:"The account's id."`
	Currency      string `required:"" placeholder:"CODE" help:"ISO 4217, such as USD."`
	Available     string `default:"0" placeholder:"AMOUNT" help:"The opening balance."`
	Broker        string `placeholder:"NAME" help:"The broker for its purchases. Default: the default broker."`
	BrokerAccount string `placeholder:"NAME" help:"The account's name at the broker. Default: the id."`
	JSON          bool   `help:"Print JSON."`
}

func (c *accountCreateCommand) Run(ctx context.Context, a *cli) error {
	amount, err := parseAmount("--available", c.Available)
	if err != nil {
		return err
	}
	// Checked before the database is created: a usage error creates none.
	if !account.ValidID(c.ID) {
		return &usageError{"--id: " + account.ErrID.Error()}
	}
	if _, known := money.CurrencyDecimals(c.Currency); !known {
		return &usageError{"--currency: " + account.ErrCurrency.Error()}
	}
	if err := checkBroker(a, c.Broker); err != nil {
		return err
	}
	return withAccounts(ctx, a, app.CreateDatabase, func(ctx context.Context, accounts *account.Store) error {
		acc, err := accounts.Create(ctx, account.CreateParams{
			ID: c.ID, Currency: c.Currency, Available: amount, Broker: c.Broker, BrokerAccount: c.BrokerAccount,
			Actor: app.Actor,
		})
		if errors.Is(err, account.ErrExists) {
			return fmt.Errorf("account %q already exists", c.ID)
		}
		if err != nil {
			return accountError(err)
		}
		return printAccount(a, acc, c.JSON)
	})
}

// checkBroker refuses the name of a broker that the settings do not have: no purchase of the
// account would be taken.
func checkBroker(a *cli, name string) error {
	if name == "" {
		return nil
	}
	c, err := config.Load(a.env)
	if err != nil {
		return err
	}
	served := func(b config.Broker) bool { return b.Name == name }
	if !slices.ContainsFunc(c.Brokers, served) {
		return &usageError{fmt.Sprintf("--broker: the settings have no broker %q", name)}
	}
	return nil
}

type accountListCommand struct {
	JSON bool `help:"Print JSON."`
}

func (c *accountListCommand) Run(ctx context.Context, a *cli) error {
	return withAccounts(ctx, a, app.OpenDatabase, func(ctx context.Context, accounts *account.Store) error {
		list, more, err := accounts.List(ctx)
		if err != nil {
			return err
		}
		if more {
			say(a.errOut, "holdfast: only the first %d accounts are shown\n", account.MaxListed)
		}
		if c.JSON {
			views := make([]accountJSON, len(list))
			for i, acc := range list {
				views[i] = viewAccount(acc)
			}
			return printJSON(a.out, map[string]any{"data": views})
		}
		return printAccounts(a, list...)
	})
}

type accountShowCommand struct {
	ID   string `arg:"" help:"The account's id."`
	JSON bool   `help:"Print JSON."`
}

func (c *accountShowCommand) Run(ctx context.Context, a *cli) error {
	return withAccounts(ctx, a, app.OpenDatabase, func(ctx context.Context, accounts *account.Store) error {
		acc, err := accounts.Get(ctx, c.ID)
		if errors.Is(err, account.ErrNotFound) {
			return fmt.Errorf("account %q does not exist", c.ID)
		}
		if err != nil {
			return err
		}
		return printAccount(a, acc, c.JSON)
	})
}

type accountDepositCommand struct {
	ID             string `required:"" placeholder:"ID" help:"The account's id."`
	Amount         string `required:"" placeholder:"AMOUNT" help:"The amount to add."`
	Note           string `placeholder:"TEXT" help:"The reason; stored with the deposit."`
	Key            string `placeholder:"KEY" help:"Idempotency key: repeating a deposit with the same key adds nothing. Default: a new key, printed to stderr before the deposit."`
	IdempotencyKey string `placeholder:"KEY" help:"The same as --key."`
	JSON           bool   `help:"Print JSON."`
}

func (c *accountDepositCommand) Run(ctx context.Context, a *cli) error {
	amount, err := parseAmount("--amount", c.Amount)
	if err != nil {
		return err
	}
	if c.Key != "" && c.IdempotencyKey != "" {
		return &usageError{"--key and --idempotency-key cannot be combined"}
	}
	key := cmp.Or(c.Key, c.IdempotencyKey)
	if key == "" {
		key = "cli-" + uuid.NewString()
		say(a.errOut, "deposit key: %s (if the result is lost, repeat the deposit with --key)\n", key)
	}
	return withAccounts(ctx, a, app.OpenDatabase, func(ctx context.Context, accounts *account.Store) error {
		acc, _, err := accounts.Deposit(ctx, account.DepositParams{
			AccountID: c.ID, IdempotencyKey: key, Amount: amount, Note: c.Note, Actor: app.Actor,
		})
		if errors.Is(err, account.ErrNotFound) {
			return fmt.Errorf("account %q does not exist", c.ID)
		}
		if err != nil {
			return accountError(err)
		}
		return printAccount(a, acc, c.JSON)
	})
}

// accountError returns a usage error if err is about the arguments, and err otherwise.
func accountError(err error) error {
	for _, wrong := range []error{account.ErrID, account.ErrCurrency, account.ErrAmount} {
		if errors.Is(err, wrong) {
			return &usageError{err.Error()}
		}
	}
	return err
}

func parseAmount(flag, text string) (decimal.Decimal, error) {
	amount, err := money.Parse(text, amountDigits, amountDecimals)
	if err != nil {
		return decimal.Decimal{}, &usageError{flag + " " + err.Error()}
	}
	return amount, nil
}

// accountJSON is an account as --json prints it, in the API's form.
type accountJSON struct {
	ID        string `json:"id"`
	Currency  string `json:"currency"`
	Available string `json:"available"`
	Reserved  string `json:"reserved"`
	Spent     string `json:"spent"`
	Deposited string `json:"deposited"`
	// Broker and BrokerAccount are absent unless they were set.
	Broker        string `json:"broker,omitempty"`
	BrokerAccount string `json:"broker_account,omitempty"`
}

func viewAccount(acc account.Account) accountJSON {
	money := func(d decimal.Decimal) string { return money.FormatCurrency(d, acc.Currency) }
	return accountJSON{
		acc.ID, acc.Currency, money(acc.Available), money(acc.Reserved), money(acc.Spent), money(acc.Deposited),
		acc.Broker, acc.BrokerAccount,
	}
}

func printAccount(a *cli, acc account.Account, asJSON bool) error {
	if asJSON {
		return printJSON(a.out, viewAccount(acc))
	}
	return printAccounts(a, acc)
}

func printAccounts(a *cli, list ...account.Account) error {
	t := newTable(a.out, "ACCOUNT", "CURRENCY", "AVAILABLE", "RESERVED", "SPENT", "DEPOSITED")
	for _, acc := range list {
		v := viewAccount(acc)
		t.row(v.ID, v.Currency, v.Available, v.Reserved, v.Spent, v.Deposited)
	}
	return t.flush()
}
