package app

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/shopspring/decimal"

	"holdfast/account"
	"holdfast/auth"
)

// What serve creates if no setting names a database or a broker.
const (
	demoAccount  = "demo"
	demoCurrency = "USD"
	demoFile     = "keys"
)

// Actor is recorded for what a command or serve itself changes in the database.
const Actor = "operator:cli"

var demoCash = decimal.New(100_000, 0)

// demoKeys are stored in the data dir with mode 0600: the database has only their hashes,
// and every start prints them.
type demoKeys struct{ client, operator string }

// openDemo ensures that the demo account and its keys exist, and prints the keys.
func (n *node) openDemo(ctx context.Context) error {
	if !n.config.Demo() || !n.serves() {
		return nil
	}
	_, err := n.accounts.Create(ctx, account.CreateParams{
		ID: demoAccount, Currency: demoCurrency, Available: demoCash, Actor: Actor,
	})
	if err != nil && !errors.Is(err, account.ErrExists) {
		return fmt.Errorf("open demo account: %w", err)
	}
	keys, err := readDemoKeys(n.demoPath())
	if err != nil {
		return err
	}
	if keys, err = n.ensureDemoKeys(ctx, keys); err != nil {
		return fmt.Errorf("open demo keys: %w", err)
	}
	if err := writeDemoKeys(n.demoPath(), keys); err != nil {
		return err
	}
	n.demo = keys
	fmt.Fprintf(n.out, "client key: %s\noperator key: %s\n", keys.client, keys.operator)
	return nil
}

func (n *node) demoPath() string { return filepath.Join(n.config.DataDir, demoFile) }

func (n *node) ensureDemoKeys(ctx context.Context, keys demoKeys) (demoKeys, error) {
	var err error
	if keys.client, err = n.ensureKey(ctx, keys.client, auth.ScopeClient, demoAccount); err != nil {
		return keys, err
	}
	keys.operator, err = n.ensureKey(ctx, keys.operator, auth.ScopeOperator, "")
	return keys, err
}

// ensureKey returns the secret of an active key: the stored one, or a new one if there is
// none or it was revoked.
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

// readDemoKeys returns no keys if the file is missing or incomplete.
func readDemoKeys(path string) (demoKeys, error) {
	if err := checkKeysFile(path); err != nil {
		return demoKeys{}, err
	}
	text, err := os.ReadFile(path)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return demoKeys{}, fmt.Errorf("read demo keys: %w", err)
	}
	var keys demoKeys
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

// checkKeysFile refuses a file in which someone else could have put an operator's key.
func checkKeysFile(path string) error {
	info, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("find demo keys: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.Mode().IsRegular() || info.Mode().Perm()&0o022 != 0 || known && owner.Uid != uint32(os.Geteuid()) {
		return fmt.Errorf("%s is not a file that only user %d may write: remove it", path, os.Geteuid())
	}
	return nil
}

// writeDemoKeys replaces the file atomically: half a key would be useless.
func writeDemoKeys(path string, keys demoKeys) error {
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

// printQuickstart prints commands to paste.
func (n *node) printQuickstart() {
	if n.demo.client == "" {
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
	fmt.Fprintf(n.out, lines, url, n.demo.client, cmp.Or(n.sandboxURL, n.config.Broker.URL), n.config.DataDir)
}

// reachable replaces an unspecified address by one that a browser accepts.
func reachable(addr net.Addr) string {
	tcp, ok := addr.(*net.TCPAddr)
	if ok && tcp.IP.IsUnspecified() {
		return fmt.Sprintf("127.0.0.1:%d", tcp.Port)
	}
	return addr.String()
}
