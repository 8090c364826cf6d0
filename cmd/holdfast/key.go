package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"holdfast/auth"
	"holdfast/internal/app"
	"holdfast/internal/config"
)

type keyCommand struct {
	Create keyCreateCommand `cmd:"" help:"Create a key and print it once, alone on the last line."`
	List   keyListCommand   `cmd:"" help:"List the keys, never their secrets."`
	Revoke keyRevokeCommand `cmd:"" help:"Revoke a key permanently; it stops working everywhere within five seconds."`
}

// withKeys opens the key store of the configured database for one use.
func withKeys(ctx context.Context, a *cli, open app.Opener, use func(ctx context.Context, keys *auth.Store) error) error {
	c, err := config.Load(a.env)
	if err != nil {
		return err
	}
	pool, done, err := open(ctx, c)
	if err != nil {
		return err
	}
	defer done()
	return use(ctx, auth.New(auth.Config{Pool: pool}))
}

type keyCreateCommand struct {
	Scope     string        `required:"" enum:"client,operator,broker" placeholder:"client|operator|broker" help:"What the key allows; broker: only sending broker events."`
	Account   string        `placeholder:"ID" help:"The account of a client key."`
	ExpiresIn time.Duration `placeholder:"DURATION" help:"The key expires after this time. Default: never."`
	JSON      bool          `help:"Print JSON."`
}

func (k *keyCreateCommand) Run(ctx context.Context, a *cli) error {
	if k.Scope == auth.ScopeClient && k.Account == "" {
		return &usageError{"--scope client requires --account"}
	}
	if k.Scope != auth.ScopeClient && k.Account != "" {
		return &usageError{"--account requires --scope client: other keys have no account"}
	}
	if k.ExpiresIn < 0 {
		return &usageError{"--expires-in must not be negative"}
	}
	return withKeys(ctx, a, app.CreateDatabase, func(ctx context.Context, keys *auth.Store) error {
		key, secret, err := keys.Create(ctx, auth.CreateParams{Scope: k.Scope, AccountID: k.Account, Lifetime: k.ExpiresIn})
		if errors.Is(err, auth.ErrAccountNotFound) {
			return fmt.Errorf("account %q does not exist", k.Account)
		}
		if err != nil {
			return err
		}
		return k.print(a, key, secret)
	})
}

func (k *keyCreateCommand) print(a *cli, key auth.Key, secret string) error {
	if k.JSON {
		return printJSON(a.out, struct {
			keyView
			Key string `json:"key"`
		}{viewKey(key), secret})
	}
	_, err := fmt.Fprintf(a.out, "key %s (%s), shown only once:\n%s\n", key.ID, k.Scope, secret)
	return err
}

// keyView is a key as --json prints it.
type keyView struct {
	ID        string     `json:"id"`
	Prefix    string     `json:"prefix"`
	Scope     string     `json:"scope"`
	AccountID *string    `json:"account_id"`
	CreatedAt time.Time  `json:"created_at"`
	ExpiresAt *time.Time `json:"expires_at"`
	LastUsed  *time.Time `json:"last_used_at"`
	RevokedAt *time.Time `json:"revoked_at"`
}

func viewKey(k auth.Key) keyView {
	view := keyView{ID: k.ID, Prefix: k.Prefix, Scope: k.Scope, CreatedAt: k.CreatedAt.UTC(),
		ExpiresAt: k.ExpiresAt, LastUsed: k.LastUsedAt, RevokedAt: k.RevokedAt}
	if k.AccountID != "" {
		view.AccountID = &k.AccountID
	}
	return view
}

type keyListCommand struct {
	JSON bool `help:"Print JSON."`
}

func (k *keyListCommand) Run(ctx context.Context, a *cli) error {
	return withKeys(ctx, a, app.OpenDatabase, func(ctx context.Context, keys *auth.Store) error {
		list, err := keys.List(ctx)
		if err != nil {
			return err
		}
		if k.JSON {
			return printJSON(a.out, map[string]any{"data": viewKeys(list)})
		}
		t := newTable(a.out, "ID", "PREFIX", "SCOPE", "ACCOUNT", "CREATED", "EXPIRES", "LAST USED", "REVOKED")
		for _, key := range list {
			t.row(key.ID, key.Prefix, key.Scope, orDash(key.AccountID), moment(&key.CreatedAt),
				moment(key.ExpiresAt), moment(key.LastUsedAt), moment(key.RevokedAt))
		}
		return t.flush()
	})
}

func viewKeys(list []auth.Key) []keyView {
	views := make([]keyView, len(list))
	for i, key := range list {
		views[i] = viewKey(key)
	}
	return views
}

type keyRevokeCommand struct {
	ID   string `arg:"" name:"key-id" help:"The key's id, as key list shows it."`
	JSON bool   `help:"Print JSON."`
}

func (k *keyRevokeCommand) Run(ctx context.Context, a *cli) error {
	return withKeys(ctx, a, app.OpenDatabase, func(ctx context.Context, keys *auth.Store) error {
		key, err := keys.Revoke(ctx, k.ID)
		if errors.Is(err, auth.ErrKeyNotFound) {
			return fmt.Errorf("key %q does not exist", k.ID)
		}
		if err != nil {
			return err
		}
		if k.JSON {
			return printJSON(a.out, viewKey(key))
		}
		_, err = fmt.Fprintf(a.out, "key %s has been revoked\n", key.ID)
		return err
	})
}
