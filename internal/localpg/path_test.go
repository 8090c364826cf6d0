package localpg_test

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/localpg"
)

// TestAnyFolderWorks: a socket's address holds about 100 bytes, and the user that
// root drops to may walk neither /root nor a temp folder that root made.
func TestAnyFolderWorks(t *testing.T) {
	t.Parallel()
	open, err := os.MkdirTemp("", "hf") //nolint:usetesting // TempDir's parent is closed to others, and too long.
	check(t, err)
	t.Cleanup(func() { check(t, os.RemoveAll(open)) })
	check(t, os.Chmod(open, 0o755))
	for name, test := range map[string]struct {
		dir  string
		made bool // a cluster is there already
	}{
		"ShortAndOpen":    {dir: filepath.Join(open, "a")},
		"LongAndOpen":     {dir: filepath.Join(open, strings.Repeat("long", 40)), made: true},
		"LikeAQuery":      {dir: filepath.Join(open, "a b+c&d%20"), made: true},
		"LikeAList":       {dir: filepath.Join(open, "a,b"), made: true},
		"ClosedToOthers":  {dir: filepath.Join(t.TempDir(), "a")},
		"LongAndClosed":   {dir: filepath.Join(t.TempDir(), strings.Repeat("long", 40)), made: true},
		"ThroughASymlink": {dir: link(t, filepath.Join(open, "real")), made: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := test.dir
			if test.made {
				plant(t, dir)
			}
			server, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
			check(t, err)
			write(t, server.URL())
			notRoot(t, server.PID())
			stop(t, server)
			if !test.made {
				written(t, start(t, dir).URL())
			}
		})
	}
}

func link(t *testing.T, to string) string {
	t.Helper()
	check(t, os.Mkdir(to, 0o755))
	from := filepath.Join(t.TempDir(), "link")
	check(t, os.Symlink(to, from))
	return from
}

func notRoot(t *testing.T, pid int) {
	t.Helper()
	info, err := os.Stat(fmt.Sprintf("/proc/%d", pid))
	if err != nil {
		t.Fatalf("find postmaster: %v", err)
	}
	if info.Sys().(*syscall.Stat_t).Uid == 0 {
		t.Error("postgres runs as root")
	}
}

// TestOthersAreShutOut: there is no password, so the folder must keep others away.
func TestOthersAreShutOut(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	socket := ask(t, server.URL(), "SHOW unix_socket_directories")
	for _, folder := range []string{socket, filepath.Join(dir, "postgres")} {
		info, err := os.Stat(folder)
		check(t, err)
		if info.Mode().Perm() != 0o700 {
			t.Errorf("%s has mode %v", folder, info.Mode())
		}
	}
}
