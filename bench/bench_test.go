package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"
)

// A quick bench measures every figure, and each beside its baseline. What it measures
// means nothing, so nothing is asked of the numbers but to be there.
func TestBenchMeasuresEverything(t *testing.T) {
	t.Parallel()
	report := quickBench(t)
	measured := map[string]Figure{}
	for _, f := range report.Figures {
		measured[f.Name] = f
	}
	for _, name := range figureNames() {
		figure, ok := measured[name]
		if !ok || len(figure.Cases) == 0 {
			t.Errorf("figure %s is missing", name)
		}
		for _, c := range figure.Cases {
			checkCase(t, name, c)
		}
	}
}

// benchPatience: a quick bench starts some twenty processes, which a busy machine takes
// its time for.
const benchPatience = 5 * time.Minute

func quickBench(t *testing.T) (report Report) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), benchPatience)
	defer cancel()
	cmd := exec.CommandContext(ctx, program, "--quick", "--json")
	// It has children to end, and a database.
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = time.Minute
	var out, errOut bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errOut
	if err := cmd.Run(); err != nil {
		t.Fatalf("bench: %v\n%s", err, errOut.String())
	}
	if err := json.Unmarshal(out.Bytes(), &report); err != nil {
		t.Fatalf("bench: %v\n%s", err, out.String())
	}
	return report
}

func checkCase(t *testing.T, figure string, c Case) {
	t.Helper()
	baseline := 1
	if figure == "crash" { // the contract names none
		baseline = 0
	}
	if len(c.Subjects) < 1+baseline {
		t.Errorf("%s, %s: %d subjects", figure, c.Name, len(c.Subjects))
	}
	for _, column := range c.Columns {
		if _, ok := c.Subjects[0].Median[column]; !ok {
			t.Errorf("%s, %s: holdfast has no %s", figure, c.Name, column)
		}
	}
}

func TestBenchUsage(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"TooFewRounds":  {"--rounds", "2"},
		"UnknownFigure": {"--figure", "speed"},
		"NegativeCount": {"--history=-1"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			text, err := exec.CommandContext(t.Context(), program, args...).CombinedOutput()
			var exit *exec.ExitError
			if !errors.As(err, &exit) || exit.ExitCode() != exitUsage || len(text) == 0 {
				t.Errorf("%v, %q", err, text)
			}
		})
	}
}
