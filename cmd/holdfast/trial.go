package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"

	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/auth"
)

// The trial: what serve brings where nothing says which database and which broker.
const (
	trialAccount  = "demo"
	trialCurrency = "USD"
	trialFile     = "keys"
)

var trialCash = decimal.New(100_000, 0)

// trialKeys are kept in the data dir, readable by nobody else, because the database has
// only their hashes and each start prints them again.
type trialKeys struct{ client, operator string }

// openTrial makes sure of the demo account and its keys, and prints these.
func (n *node) openTrial(ctx context.Context) error {
	if !n.config.trial() || !n.serves() {
		return nil
	}
	_, err := n.accounts.Create(ctx, account.CreateParams{
		ID: trialAccount, Currency: trialCurrency, Available: trialCash, Actor: cliActor,
	})
	if err != nil && !errors.Is(err, account.ErrExists) {
		return fmt.Errorf("open demo account: %w", err)
	}
	keys, err := readTrialKeys(n.trialPath())
	if err != nil {
		return err
	}
	if keys, err = n.ensureTrialKeys(ctx, keys); err != nil {
		return fmt.Errorf("open demo keys: %w", err)
	}
	if err := writeTrialKeys(n.trialPath(), keys); err != nil {
		return err
	}
	n.trial = keys
	say(n.out, "client key: %s\noperator key: %s\n", keys.client, keys.operator)
	return nil
}

func (n *node) trialPath() string { return filepath.Join(n.config.DataDir, trialFile) }

func (n *node) ensureTrialKeys(ctx context.Context, keys trialKeys) (trialKeys, error) {
	var err error
	if keys.client, err = n.ensureKey(ctx, keys.client, auth.ScopeClient, trialAccount); err != nil {
		return keys, err
	}
	keys.operator, err = n.ensureKey(ctx, keys.operator, auth.ScopeOperator, "")
	return keys, err
}

// ensureKey returns the secret of a living key: the kept one, or a new one where there
// is none or it was revoked.
func (n *node) ensureKey(ctx context.Context, secret, scope, accountID string) (string, error) {
	if secret != "" {
		key, err := n.keys.EnsureKey(ctx, secret, scope, accountID)
		if err != nil || key.RevokedAt == nil {
			return secret, err
		}
	}
	secret = auth.NewSecret(scope)
	_, err := n.keys.EnsureKey(ctx, secret, scope, accountID)
	return secret, err
}

// readTrialKeys returns no keys where the file is not there, or not whole.
func readTrialKeys(path string) (trialKeys, error) {
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return trialKeys{}, fmt.Errorf("read demo keys: %w", err)
	}
	var keys trialKeys
	for line := range bytes.Lines(text) {
		name, secret, _ := strings.Cut(strings.TrimSpace(string(line)), ": ")
		switch name {
		case "client key":
			keys.client = secret
		case "operator key":
			keys.operator = secret
		}
	}
	return keys, nil
}

// writeTrialKeys replaces the file as a whole: half a key would be a dead one.
func writeTrialKeys(path string, keys trialKeys) error {
	text := fmt.Sprintf("client key: %s\noperator key: %s\n", keys.client, keys.operator)
	next := path + ".next"
	if err := os.Remove(next); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("keep demo keys: %w", err)
	}
	if err := os.WriteFile(next, []byte(text), 0o600); err != nil {
		return fmt.Errorf("keep demo keys: %w", err)
	}
	if err := os.Rename(next, path); err != nil {
		return fmt.Errorf("keep demo keys: %w", err)
	}
	return nil
}

// invite prints lines to paste: buy, look, follow.
func (n *node) invite() {
	if n.trial.client == "" {
		return
	}
	const lines = `
export HOLDFAST_URL=%[1]s HOLDFAST_API_KEY=%[2]s

# Buy, look, follow:
curl -sS -X POST $HOLDFAST_URL/v1/purchases -H "Authorization: Bearer $HOLDFAST_API_KEY" -H "Idempotency-Key: try-$(date +%%s)" -H 'Content-Type: application/json' -d '{"account_id":"demo","symbol":"AAPL","quantity":"10","limit_price":"25.00"}'
curl -sS "$HOLDFAST_URL/v1/purchases?limit=1" -H "Authorization: Bearer $HOLDFAST_API_KEY"
curl -sSN "$HOLDFAST_URL/v1/events?last_event_id=0" -H "Authorization: Bearer $HOLDFAST_API_KEY"

# Console: %[1]s/console/ (with the operator key)
# Sandbox broker: %[3]s
# Data: %[4]s

`
	url := "http://" + reachable(n.listener.Addr())
	say(n.out, lines, url, n.trial.client, orElse(n.sandboxURL, n.config.Broker.URL), n.config.DataDir)
}

// reachable turns "every address" into one that a browser takes.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return addr.String()
}
