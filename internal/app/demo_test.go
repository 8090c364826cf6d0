package app

import (
	"os"
	"path/filepath"
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
