package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"go.uber.org/goleak"
)

// program is the bench, built once for all tests, next to the holdfast that it measures.
var program string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "holdfast-bench-test-")
	if err != nil {
		panic(err)
	}
	program = filepath.Join(dir, "bench")
	if out, err := exec.Command("go", "build", "-o", dir, ".", "holdfast/cmd/holdfast").CombinedOutput(); err != nil {
		fmt.Fprintf(os.Stderr, "build: %v\n%s", err, out)
		os.Exit(1)
	}
	code := m.Run()
	_ = os.RemoveAll(dir)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, err)
		code = 1
	}
	os.Exit(code)
}
