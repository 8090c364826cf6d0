package api_test

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"holdfast/api"
	"holdfast/outbox"
)

// live has what setup leaves out: events, and a worker that settles what is unknown.
func live(t *testing.T) *world {
	t.Helper()
	var streams *api.Streams
	var box *outbox.Outbox
	w := setup(t, func(p *api.Params) {
		box = outbox.New(outbox.Config{Pool: p.Pool, Keep: time.Hour, Encode: api.EncodeEvent})
		streams = api.NewStream(api.StreamParams{
			Hub: box.Hub, Events: box.Events, Keys: p.Keys, Accounts: p.Accounts, Purchases: p.Purchases,
		})
		p.Streams, p.Hub = streams, box.Hub
	})
	w.committed = box.Poke
	w.loop(box.Run)
	<-box.Hub.Ready()
	w.loop(w.work)
	t.Cleanup(streams.Close)
	return w
}

func (w *world) loop(run func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.WithoutCancel(w.t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		_ = run(ctx)
	}()
	w.t.Cleanup(func() {
		cancel()
		<-done
	})
}

// work passes over what is unknown, as a worker does.
func (w *world) work(ctx context.Context) error {
	for ctx.Err() == nil {
		rows, err := w.pool.Query(ctx, "SELECT id FROM transaction_history WHERE status = 'UNKNOWN'")
		if err != nil {
			return err
		}
		var ids []uuid.UUID
		for rows.Next() {
			var id uuid.UUID
			if err := rows.Scan(&id); err != nil {
				return err
			}
			ids = append(ids, id)
		}
		for _, id := range ids {
			_, _ = w.service.Pass(ctx, id, 0)
		}
		select {
		case <-ctx.Done():
		case <-time.After(300 * time.Millisecond):
		}
	}
	return nil
}

var (
	snippets     = regexp.MustCompile("(?s)```(sh|go|sh setup)\n(.*?)```((?:\n<!-- expect: [^\n]*-->)*)")
	expectations = regexp.MustCompile(`<!-- expect: (.*?) -->`)
)

// TestIntegrateSnippets runs the page for integrators from its first line to its last.
func TestIntegrateSnippets(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../docs/integrate.md")
	if err != nil {
		t.Fatal(err)
	}
	w := live(t)
	dir := t.TempDir()
	script := "set -euo pipefail\ncd " + dir + "\n"
	var shell, programs []snippet
	for _, found := range snippets.FindAllStringSubmatch(string(page), -1) {
		one := snippet{text: found[2]}
		for _, want := range expectations.FindAllStringSubmatch(found[3], -1) {
			one.wants = append(one.wants, want[1])
		}
		switch found[1] {
		case "sh":
			script += "echo '---8<---'\n" + one.text
			shell = append(shell, one)
		case "go":
			programs = append(programs, one)
		}
	}
	if len(shell) < 8 || len(programs) != 2 {
		t.Fatalf("%d shell snippets and %d programs: the page is not read as it is written", len(shell), len(programs))
	}
	for i, part := range strings.Split(w.run(dir, "bash", "-c", script), "---8<---")[1:] {
		wantInOrder(t, part, shell[i].wants)
	}
	w.outside(dir, string(page))
	for i, program := range programs {
		file := filepath.Join(dir, fmt.Sprintf("program%d.go", i))
		if err := os.WriteFile(file, []byte(program.text), 0o600); err != nil {
			t.Fatal(err)
		}
		wantInOrder(t, w.run(dir, "go", "run", "-mod=mod", file), program.wants)
	}
}

// outside makes dir a module of its own that takes the client as the page says. The sums
// are ours, and no go mod tidy asks for them: a test needs no network.
func (w *world) outside(dir, page string) {
	w.t.Helper()
	take := regexp.MustCompile(`(?m)^go mod edit .*$`).FindString(page)
	root, err := filepath.Abs("..")
	if err != nil || take == "" {
		w.t.Fatalf("take the client by %q: %v", take, err)
	}
	take = strings.ReplaceAll(take, "/path/to/holdfast", "'"+root+"'")
	w.run(dir, "bash", "-c", "go mod init example.com/shop && cp '"+root+"/go.sum' . && "+take)
}

// snippet is a piece of the page, and what its output must contain, in this order.
type snippet struct {
	text  string
	wants []string
}

func (w *world) run(dir, name string, args ...string) string {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(w.t.Context(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = dir
	command.Env = append(os.Environ(), "HOLDFAST_URL="+w.server.URL, "HOLDFAST_API_KEY="+w.client, "ACCOUNT=acct-1")
	out, err := command.CombinedOutput()
	if err != nil {
		w.t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return string(out)
}

func wantInOrder(t *testing.T, text string, wants []string) {
	t.Helper()
	rest := text
	for _, want := range wants {
		_, after, found := strings.Cut(rest, want)
		if !found {
			t.Errorf("lacks %q in its place:\n%s", want, text)
			return
		}
		rest = after
	}
}

// TestWaitIsWokenByTheHub: with the hub a waiting GET hears of a change at once, and not
// only at its next look two seconds later. One quick answer of five proves it, whatever
// else the machine does.
func TestWaitIsWokenByTheHub(t *testing.T) {
	t.Parallel()
	w := live(t)
	quickest := time.Hour
	for range 5 {
		id := w.buy(order(fields{"symbol": "DROP-BOOKED"})).wantStatus(202).text("id")
		a := w.get("/v1/purchases/"+id, w.client, map[string][]string{"Prefer": {"wait=20"}}).wantPurchase(200, "completed")
		settled, err := time.Parse(time.RFC3339, a.text("settled_at"))
		if err != nil {
			t.Fatal(err)
		}
		if a.header.Get("Preference-Applied") != "" {
			quickest = min(quickest, time.Since(settled))
		}
	}
	if quickest > time.Second {
		t.Errorf("the quickest answer came %v after its purchase was settled", quickest)
	}
}
