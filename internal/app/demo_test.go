package app

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestDemoKeysAreKeptFromOthers(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte("client key: old"), 0o644); err != nil {
		t.Fatal(err)
	}
	want := demoKeys{client: "c", operator: "o"}
	if err := writeDemoKeys(path, want); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if got, err := readDemoKeys(path); err != nil || got != want {
		t.Errorf("read %+v, %v", got, err)
	}
}

// A keys file that others may write, or a link, could hold an operator key of theirs.
func TestForeignDemoKeysAreRefused(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	open, link := filepath.Join(dir, "open"), filepath.Join(dir, "link")
	if err := os.WriteFile(open, []byte("operator key: theirs"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.Chmod(open, 0o660), os.Symlink("/dev/null", link)); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{open, link} {
		if keys, err := readDemoKeys(path); err == nil || !strings.Contains(err.Error(), path) {
			t.Errorf("%s: %+v, %v", path, keys, err)
		}
	}
}
