package main

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
)

var (
	fences       = regexp.MustCompile("(?ms)^```(.*?)\n(.*?)^```((?:\n<!-- expect: [^\n]*-->)*)")
	expectations = regexp.MustCompile(`<!-- expect: (.*?) -->`)
)

// snippet is a fenced block of the page, and what its output must contain, in this order.
type snippet struct {
	text  string
	wants []string
}

// integrator is a reader of the page: a directory, a Holdfast without settings, and what it
// printed at startup.
type integrator struct {
	t        *testing.T
	dir      string
	settings []string
}

// TestIntegrateSnippets runs the page for integrators from its first to its last line, as a
// reader who has just started the program.
func TestIntegrateSnippets(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/integrate.md")
	if err != nil {
		t.Fatal(err)
	}
	settings := []string{"HOLDFAST_DATA_DIR=" + filepath.Join(t.TempDir(), "data")}
	s := launch(t, settings)
	r := &integrator{t: t, dir: t.TempDir(), settings: []string{
		"HOLDFAST_URL=http://" + s.addr, "HOLDFAST_API_KEY=" + s.printed("client key: "), "ACCOUNT=demo",
	}}
	kinds := readSnippets(t, string(page))
	r.setUp(kinds["sh setup"])
	r.shell(kinds["sh"])
	for i, program := range kinds["go"] {
		file := filepath.Join(r.dir, fmt.Sprintf("program%d.go", i))
		if err := os.WriteFile(file, []byte(program.text), 0o600); err != nil {
			t.Fatal(err)
		}
		wantInOrder(t, r.run("go", "run", "-mod=mod", file), program.wants)
	}
	auditHolds(t, settings)
}

// readSnippets returns every fenced block of a page, by its language. There must be no language
// that the test does not run.
func readSnippets(t *testing.T, page string) map[string][]snippet {
	t.Helper()
	kinds, n := map[string][]snippet{}, 0
	for _, found := range fences.FindAllStringSubmatch(page, -1) {
		one := snippet{text: found[2]}
		for _, want := range expectations.FindAllStringSubmatch(found[3], -1) {
			one.wants = append(one.wants, want[1])
		}
		kinds[found[1]], n = append(kinds[found[1]], one), n+1
	}
	if runs := len(kinds["sh"]) + len(kinds["go"]) + len(kinds["sh setup"]); runs != n || 2*n != strings.Count(page, "```") {
		t.Fatalf("%d snippets are run of %d, with %d fences", runs, n, strings.Count(page, "```"))
	}
	if wants := strings.Count(page, "<!-- expect"); wants != countWants(kinds) {
		t.Fatalf("%d expectations, and %d are read", wants, countWants(kinds))
	}
	return kinds
}

func countWants(kinds map[string][]snippet) (n int) {
	for _, list := range kinds {
		for _, one := range list {
			n += len(one.wants)
		}
	}
	return n
}

// setUp replaces the setup blocks, which a reader adapts: the exported values are known, the
// reader's module is in the test's directory, and the client is in this repository. It uses our
// go.sum instead of go mod tidy: a test needs no network.
func (r *integrator) setUp(steps []snippet) {
	r.t.Helper()
	root, err := filepath.Abs("../..")
	if err != nil {
		r.t.Fatal(err)
	}
	r.run("bash", "-c", "go mod init example.com/shop && cp '"+root+"/go.sum' .")
	for _, step := range steps {
		switch {
		case strings.HasPrefix(step.text, "export "):
			r.run("bash", "-euc", step.text)
		case strings.HasPrefix(step.text, "go mod edit "):
			r.run("bash", "-euc", strings.ReplaceAll(step.text, "/path/to/holdfast", "'"+root+"'"))
		case step.text == "go mod tidy\n":
		default:
			r.t.Fatalf("%q is never run", step.text)
		}
	}
}

// shell runs all blocks in one session, so that variables are kept.
func (r *integrator) shell(pieces []snippet) {
	r.t.Helper()
	var script strings.Builder
	script.WriteString("set -euo pipefail\n")
	for _, one := range pieces {
		script.WriteString("echo '---8<---'\n" + one.text)
	}
	parts := strings.Split(r.run("bash", "-c", script.String()), "---8<---")[1:]
	if len(parts) != len(pieces) {
		r.t.Fatalf("%d pieces of %d ran", len(parts), len(pieces))
	}
	for i, part := range parts {
		wantInOrder(r.t, part, pieces[i].wants)
	}
}

func (r *integrator) run(name string, args ...string) string {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 3*time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, name, args...)
	command.Dir = r.dir
	command.Env = append(os.Environ(), r.settings...)
	out, err := command.CombinedOutput()
	if err != nil {
		r.t.Fatalf("%s: %v\n%s", name, err, out)
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
