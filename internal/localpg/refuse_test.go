package localpg_test

import (
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"holdfast/internal/localpg"
)

func TestSecondOwnerIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	process, _ := owner(t, dir)
	_, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
	oneLine(t, err, dir, "process "+strconv.Itoa(process.Process.Pid))
	if !errors.Is(err, localpg.ErrInUse) {
		t.Errorf("error is %v", err)
	}
}

func TestAnotherMajorVersionIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	write(t, server.URL())
	stop(t, server)
	version := filepath.Join(dir, "postgres", "data", "PG_VERSION")
	mine, err := os.ReadFile(version)
	check(t, err)
	check(t, os.WriteFile(version, []byte("99\n"), 0o600))
	before := contents(t, dir)
	_, err = localpg.Start(t.Context(), localpg.Config{DataDir: dir})
	oneLine(t, err, "Postgres 99", strings.TrimSpace(string(mine)))
	if contents(t, dir) != before {
		t.Error("the data was touched")
	}
	check(t, os.WriteFile(version, mine, 0o600))
	written(t, start(t, dir).URL())
}

func TestDataOfSomethingElseIsRefusedUntouched(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	stop(t, start(t, dir))
	data := filepath.Join(dir, "postgres", "data")
	check(t, os.Remove(filepath.Join(data, "PG_VERSION")))
	before := contents(t, dir)
	_, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
	oneLine(t, err, data, "no Postgres data")
	if contents(t, dir) != before {
		t.Error("the data was touched")
	}
}

// contents is a sum of all files of the data, names and bytes.
func contents(t *testing.T, dir string) string {
	t.Helper()
	sum := sha256.New()
	root := filepath.Join(dir, "postgres")
	check(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || !entry.Type().IsRegular() {
			return err
		}
		text, err := os.ReadFile(path)
		fmt.Fprintln(sum, path, len(text))
		sum.Write(text)
		return err
	}))
	return string(sum.Sum(nil))
}

func TestFolderThatCannotBeMadeIsRefused(t *testing.T) {
	t.Parallel()
	for name, dir := range map[string]string{
		"BelowAFile":  "/dev/null/holdfast",
		"NotWritable": "/proc/holdfast", // closed to root too
		"NotSet":      "",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
			oneLine(t, err, "data dir", dir)
		})
	}
}

func TestCancelledStartLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	dir := emptyDir(t)
	gone, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := localpg.Start(gone, localpg.Config{DataDir: dir})
	oneLine(t, err)
	write(t, start(t, dir).URL()) // and the folder is free
}
