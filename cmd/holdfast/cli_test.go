package main

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/jackc/pgx/v5"

	"holdfast/client"
	"holdfast/internal/testkit/pgtest"
)

// A usage error exits with 2 and a one-line error; help exits with 0.
func TestExitCodes(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		args     []string
		settings []string
		code     int
		says     string
	}{
		"Help":            {args: []string{"--help"}, code: exitDone, says: "serve"},
		"ServeHelp":       {args: []string{"serve", "--help"}, code: exitDone, says: "HOLDFAST_PENDING_GRACE"},
		"Version":         {args: []string{"--version"}, code: exitDone, says: "holdfast"},
		"NoCommand":       {code: exitUsage, says: "expected one of"},
		"UnknownCommand":  {args: []string{"sell"}, code: exitUsage, says: "sell"},
		"UnknownFlag":     {args: []string{"serve", "--rolle", "api"}, code: exitUsage, says: "--rolle"},
		"UnknownRole":     {args: []string{"serve", "--role", "boss"}, code: exitUsage, says: "--role"},
		"Setting":         {args: []string{"serve"}, settings: []string{"HOLDFAST_WORKERS=x"}, code: exitUsage, says: "HOLDFAST_WORKERS"},
		"SettingOfAudit":  {args: []string{"audit"}, settings: []string{"HOLDFAST_SWEEP_INTERVAL=x"}, code: exitUsage, says: "HOLDFAST_SWEEP_INTERVAL"},
		"ScopeUnknown":    {args: []string{"key", "create", "--scope", "god"}, code: exitUsage, says: "--scope"},
		"ClientNoAccount": {args: []string{"key", "create", "--scope", "client"}, code: exitUsage, says: "--account"},
		"Amount":          {args: []string{"account", "deposit", "--id", "a", "--amount", "1e3"}, code: exitUsage, says: "--amount"},
		"MatchRange":      {args: []string{"match", "--since", "2026-12-01T00:00:00Z", "--until", "2026-11-01T00:00:00Z"}, code: exitUsage, says: "--since"},
		"CloseNoNote":     {args: []string{"findings", "close", "x"}, code: exitUsage, says: "--note"},
		"NoWebhook":       {args: []string{"alert", "test"}, code: exitUsage, says: "HOLDFAST_ALERT_WEBHOOK_URL"},
		"NoDatabase": {args: []string{"key", "list"}, code: exitFailed, says: "connect",
			settings: []string{"HOLDFAST_DATABASE_URL=postgres://nobody@127.0.0.1:1/none"}},
		"ListOfNone": {args: []string{"list", "--limit", "0"}, code: exitUsage, says: "--limit",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"NegativeWait": {args: buying("AAPL", "--wait=-1s"), code: exitUsage, says: "--wait",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"NoDuration": {args: buying("AAPL", "--wait", "soon"), code: exitUsage, says: "--wait",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"Metadata": {args: buying("AAPL", "--metadata", "{"), code: exitUsage, says: "--metadata",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"NoKey":   {args: []string{"show", "x"}, code: exitUsage, says: "HOLDFAST_API_KEY"},
		"NoURL":   {args: []string{"show", "x"}, code: exitUsage, says: "HOLDFAST_URL", settings: []string{"HOLDFAST_API_KEY=k", "HOLDFAST_URL=here"}},
		"Outcome": {args: []string{"resolve", "x", "--outcome", "maybe", "--note", "n"}, code: exitUsage, says: "--outcome"},
		"NoNote":  {args: []string{"resolve", "x", "--outcome", "rejected"}, code: exitUsage, says: "--note"},
		"ReconcileNothing": {args: []string{"reconcile"}, code: exitUsage, says: "--status",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"ReconcileOneOfMany": {args: []string{"reconcile", "x", "--older-than", "1h"}, code: exitUsage, says: "--older-than",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"OlderThanTomorrow": {args: []string{"reconcile", "--status", "UNKNOWN", "--older-than=-1h"}, code: exitUsage, says: "--older-than",
			settings: []string{"HOLDFAST_API_KEY=k"}},
		"Switch":    {args: []string{"switch", "pause", "all", "--note", "n"}, code: exitUsage, says: "name"},
		"Shell":     {args: []string{"completion", "cmd"}, code: exitUsage, says: "shell"},
		"Currency":  {args: []string{"account", "create", "--id", "a", "--currency", "XYZ"}, code: exitUsage, says: "--currency"},
		"AccountID": {args: []string{"account", "create", "--id", ".a", "--currency", "USD"}, code: exitUsage, says: "--id"},
		"Broker":    {args: []string{"account", "create", "--id", "a", "--currency", "USD", "--broker", "none"}, code: exitUsage, says: "--broker"},
		"ListNobodyThere": {args: []string{"list"}, code: exitFailed, says: "no Holdfast answers at http://127.0.0.1:1",
			settings: []string{"HOLDFAST_URL=http://127.0.0.1:1", "HOLDFAST_API_KEY=k"}},
		"WatchNobodyThere": {args: []string{"watch"}, code: exitFailed, says: "no Holdfast answers at http://127.0.0.1:1",
			settings: []string{"HOLDFAST_URL=http://127.0.0.1:1", "HOLDFAST_API_KEY=k"}},
		"Completion": {args: []string{"completion", "bash"}, code: exitDone, says: "complete -C"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := command(t, test.settings, test.args...)
			if r.code != test.code || !strings.Contains(r.out+r.err, test.says) {
				t.Errorf("exit %d, want %d with %q:\n%s%s", r.code, test.code, test.says, r.out, r.err)
			}
			if strings.Count(r.err, "connection refused") > 1 {
				t.Errorf("duplicate text: %q", r.err)
			}
			if r.code != exitDone && strings.Count(r.err, "\n") != 1 {
				t.Errorf("not one line: %q", r.err)
			}
		})
	}
}

// Every command has its own help.
func TestEveryCommandHasHelp(t *testing.T) {
	t.Parallel()
	parser := newParser(cli{out: io.Discard, errOut: io.Discard})
	for _, leaf := range parser.Model.Leaves(true) {
		names := strings.Fields(leaf.FullPath())[1:]
		t.Run(strings.Join(names, "-"), func(t *testing.T) {
			t.Parallel()
			r := command(t, nil, append(names, "--help")...)
			if r.code != exitDone || !strings.Contains(r.out, "Usage: holdfast "+strings.Join(names, " ")) || leaf.Help == "" {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
			printsData := !slices.Contains([]string{"serve", "sandbox", "completion"}, names[0])
			if printsData && !strings.Contains(r.out, "--json") {
				t.Error("it prints data but has no --json")
			}
			if strings.Contains(r.out, "=STRING") {
				t.Errorf("a flag has no placeholder:\n%s", r.out)
			}
		})
	}
}

// Commands that read or change a database do not create one: in a database created by mistake,
// every invariant would hold.
func TestNoDatabaseIsMadeByASlip(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"Audit":          {"audit"},
		"Match":          {"match"},
		"KeyList":        {"key", "list"},
		"KeyRevoke":      {"key", "revoke", "key_none"},
		"AccountList":    {"account", "list"},
		"AccountShow":    {"account", "show", "demo"},
		"AccountDeposit": {"account", "deposit", "--id", "demo", "--amount", "1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "typo")
			r := command(t, []string{"HOLDFAST_DATA_DIR=" + dir}, args...)
			want := "no Holdfast database in " + dir + ": set HOLDFAST_DATA_DIR or HOLDFAST_DATABASE_URL"
			if r.code != exitFailed || !strings.Contains(r.err, want) || r.out != "" {
				t.Errorf("exit %d: %s%s", r.code, r.out, r.err)
			}
			if _, err := os.Stat(dir); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("the directory was created: %v", err)
			}
		})
	}
}

// The commands that a new database begins with create it.
func TestAccountCreateMakesTheDatabase(t *testing.T) {
	t.Parallel()
	settings := trialSettings(t)
	must(t, settings, "account", "create", "--id", "acct-1", "--currency", "USD", "--available", "10")
	if out := must(t, settings, "account", "show", "acct-1", "--json"); !strings.Contains(out, `"available":"10.00"`) {
		t.Errorf("account: %s", out)
	}
	dir := strings.TrimPrefix(settings[0], "HOLDFAST_DATA_DIR=")
	if out := must(t, settings, "audit"); !strings.Contains(out, "every invariant holds in the private Postgres in "+dir) {
		t.Errorf("audit: %s", out)
	}
}

// If a setting lists several hosts, the audit names the one that it checked.
func TestAuditNamesTheServerThatAnswered(t *testing.T) {
	t.Parallel()
	database := pgtest.NewURL(t)
	_, host, _ := strings.Cut(database, "host=")
	host, _, _ = strings.Cut(host, "&")
	several := strings.NewReplacer("host="+host, "host=/nowhere,"+host, "port=5432", "port=1,5432").Replace(database)
	out := must(t, []string{"HOLDFAST_DATABASE_URL=" + several}, "audit")
	socket, err := url.QueryUnescape(host)
	if err != nil || !strings.Contains(out, " on "+socket) || strings.Contains(out, "nowhere") {
		t.Errorf("%s: %q, %v", several, out, err)
	}
}

func TestKeysAndAccounts(t *testing.T) {
	t.Parallel()
	settings := []string{"HOLDFAST_DATABASE_URL=" + pgtest.NewURL(t)}
	create := []string{"account", "create", "--id", "acct-1", "--currency", "USD", "--available", "1000.00"}
	must(t, settings, create...)
	if r := command(t, settings, create...); r.code != exitFailed || !strings.Contains(r.err, "exists") {
		t.Errorf("again: exit %d, %q", r.code, r.err)
	}
	must(t, settings, "account", "create", "--id", "acct-0", "--currency", "JPY")
	deposit := []string{"account", "deposit", "--id", "acct-1", "--amount", "50.00", "--idempotency-key", "d1", "--json"}
	if r := command(t, settings, "account", "show", "none"); r.code != exitFailed {
		t.Errorf("no account shown: exit %d", r.code)
	}
	for range 2 { // the second is the same deposit
		if out := must(t, settings, deposit...); !strings.Contains(out, `"available":"1050.00"`) {
			t.Errorf("deposit: %s", out)
		}
	}
	wantAccounts(t, settings)
	named := must(t, settings, "account", "create", "--id", "acct-9", "--currency", "USD", "--broker-account", "customer-7", "--json")
	if !strings.Contains(named, `"broker_account":"customer-7"`) || strings.Contains(named, `"broker":`) {
		t.Errorf("created %s", named)
	}
	secret := lastLine(must(t, settings, "key", "create", "--scope", "client", "--account", "acct-1"))
	var list struct {
		Data []struct {
			ID, Prefix, Scope string
			AccountID         *string `json:"account_id"`
			CreatedAt         string  `json:"created_at"`
			RevokedAt         *string `json:"revoked_at"`
		}
	}
	decode(t, must(t, settings, "key", "list", "--json"), &list)
	if len(list.Data) != 1 || text(list.Data[0].AccountID) != "acct-1" || !strings.HasPrefix(secret, list.Data[0].Prefix) {
		t.Fatalf("list = %+v, key %q", list, secret)
	}
	must(t, settings, "key", "revoke", list.Data[0].ID)
	decode(t, must(t, settings, "key", "list", "--json"), &list)
	if list.Data[0].RevokedAt == nil {
		t.Error("the key is not shown as revoked")
	}
	if r := command(t, settings, "key", "revoke", "key_none"); r.code != exitFailed {
		t.Errorf("revoke of no key: exit %d", r.code)
	}
	if r := command(t, settings, "key", "create", "--scope", "client", "--account", "none"); r.code != exitFailed {
		t.Errorf("key for no account: exit %d", r.code)
	}
	auditHolds(t, settings)
}

// wantAccounts checks acct-0 and acct-1, in a list and alone.
func wantAccounts(t *testing.T, settings []string) {
	t.Helper()
	first := `{"id":"acct-0","currency":"JPY","available":"0","reserved":"0","spent":"0","deposited":"0"}`
	second := `{"id":"acct-1","currency":"USD","available":"1050.00","reserved":"0.00","spent":"0.00","deposited":"1050.00"}`
	if out, want := must(t, settings, "account", "list", "--json"), `{"data":[`+first+","+second+"]}\n"; out != want {
		t.Errorf("list = %s, want %s", out, want)
	}
	if out := must(t, settings, "account", "show", "acct-0", "--json"); out != first+"\n" {
		t.Errorf("show = %s, want %s", out, first)
	}
	lines := strings.Split(must(t, settings, "account", "list"), "\n")
	if !slices.Equal(strings.Fields(lines[0]), []string{"ACCOUNT", "CURRENCY", "AVAILABLE", "RESERVED", "SPENT", "DEPOSITED"}) ||
		!slices.Equal(strings.Fields(lines[2]), []string{"acct-1", "USD", "1050.00", "0.00", "0.00", "1050.00"}) {
		t.Errorf("list: %q", lines)
	}
}

func decode(t *testing.T, text string, value any) {
	t.Helper()
	if err := json.Unmarshal([]byte(text), value); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
}

func TestAuditNamesBreaches(t *testing.T) {
	t.Parallel()
	url := pgtest.NewURL(t)
	settings := []string{"HOLDFAST_DATABASE_URL=" + url}
	must(t, settings, "account", "create", "--id", "acct-1", "--currency", "USD", "--available", "10")
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.Background())
	if _, err := conn.Exec(t.Context(), `UPDATE account SET deposited = 20, available = 20`); err != nil {
		t.Fatal(err)
	}
	r := command(t, settings, "audit", "--json")
	var report struct {
		OK       bool
		Breaches []struct {
			Invariant       int
			Subject, Detail string
		}
	}
	decode(t, r.out, &report)
	if r.code != exitFailed || report.OK || len(report.Breaches) != 1 || report.Breaches[0].Subject != "acct-1" || report.Breaches[0].Invariant != 2 {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
	if r := command(t, settings, "audit"); r.code != exitFailed || !strings.Contains(r.out, "invariant 2 is violated by acct-1") {
		t.Errorf("exit %d: %s", r.code, r.out)
	}
}

// Three concurrent migrations all succeed, and a serve that must not migrate accepts the
// result.
func TestMigrateFromSeveralPlaces(t *testing.T) {
	t.Parallel()
	settings := []string{"HOLDFAST_DATABASE_URL=" + pgtest.Empty(t)}
	refused := command(t, append(settings, "HOLDFAST_ADDR=127.0.0.1:0"), "serve", "--no-migrate", "--log-level", "error")
	if refused.code != exitFailed || !strings.Contains(refused.err, "holdfast migrate") {
		t.Errorf("serve on another version: exit %d, %q", refused.code, refused.err)
	}
	var migrators sync.WaitGroup
	for range 3 {
		migrators.Go(func() {
			if r := command(t, settings, "migrate"); r.code != exitDone {
				t.Errorf("migrate: exit %d, %s", r.code, r.err)
			}
		})
	}
	migrators.Wait()
	launch(t, append(settings, "HOLDFAST_DATA_DIR="+t.TempDir()), "--no-migrate")
}

func TestAlertTest(t *testing.T) {
	t.Parallel()
	received := make(chan *http.Request, 1)
	hook := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { received <- r }))
	t.Cleanup(hook.Close)
	must(t, []string{"HOLDFAST_ALERT_WEBHOOK_URL=" + hook.URL, "HOLDFAST_ALERT_WEBHOOK_SECRET=a-secret-of-24-characters"}, "alert", "test")
	if r := <-received; r.Header.Get("webhook-id") == "" || !strings.HasPrefix(r.Header.Get("webhook-signature"), "v1,") {
		t.Errorf("header = %v", r.Header)
	}
}

// A typo in a setting's name aborts startup, and every command that uses the database.
func TestUnknownSettingIsRefused(t *testing.T) {
	t.Parallel()
	wantRefused(t, []string{"HOLDFAST_WORKRES"}, "HOLDFAST_WORKRES=3")
	if r := command(t, []string{"HOLDFAST_DATA_DIR=" + t.TempDir(), "HOLDFAST_WORKRES=3"}, "audit"); r.code != exitUsage || !strings.Contains(r.err, "HOLDFAST_WORKRES") {
		t.Errorf("audit: exit %d, %s", r.code, r.err)
	}
}

// The program itself completes commands, flags and the values of enumerations.
func TestShellCompletion(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]string{
		"holdfast se": "serve", "holdfast account l": "list", "holdfast account list --j": "--json", "holdfast list --status U": "UNKNOWN",
		"holdfast key create --scope c": "client", "holdfast switch pause i": "intake", "holdfast completion z": "zsh",
		"holdfast serve --role w": "worker", "holdfast resolve x --outcome r": "rejected", "holdfast reconcile --status M": "MANUAL_REVIEW",
	} {
		r := command(t, []string{"COMP_LINE=" + line, "COMP_POINT=" + strconv.Itoa(len(line))})
		if r.code != exitDone || strings.TrimSpace(r.out) != want {
			t.Errorf("%q: exit %d: %q %q", line, r.code, r.out, r.err)
		}
	}
}

func TestTexts(t *testing.T) {
	t.Parallel()
	processing, ok, ms := "processing", 200, int64(0)
	for got, want := range map[string]string{
		describeCount(1, false): "1 purchase is due",
		describeCount(2, false): "2 purchases are due",
		describeCount(0, true):  "0 purchases would be due",
		describeAttempt(client.Entry{Result: &processing, Reason: &processing, StatusCode: &ok, DurationMS: &ms}): "processing, HTTP 200, <1ms",
		oneLine(errors.New("no connection:\n\tat a: refused\n\tat a: refused\n\tat b: refused")):                  "no connection: at a: refused at b: refused",
	} {
		if got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}
