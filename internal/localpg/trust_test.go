package localpg_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"holdfast/internal/localpg"
)

// The files of the cluster belong to the user that Postgres runs as. Where holdfast is root
// that is a lesser user, so no path in them is believed.
func TestPathInThePidFileIsNotBelieved(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	server := start(t, dir)
	canary := filepath.Join(t.TempDir(), "canary")
	check(t, os.Mkdir(canary, 0o700))
	file := filepath.Join(dir, "postgres", "data", "postmaster.pid")
	text, err := os.ReadFile(file)
	check(t, err)
	lines := strings.Split(string(text), "\n")
	lines[4] = canary
	check(t, os.WriteFile(file, []byte(strings.Join(lines, "\n")), 0o600))
	written := attach(t, dir)
	if strings.Contains(written.URL(), "canary") {
		t.Errorf("connects to %s", written.URL())
	}
	stop(t, written)
	stop(t, server)
	info, err := os.Stat(canary)
	if err != nil || info.Sys().(*syscall.Stat_t).Uid != uint32(os.Geteuid()) {
		t.Errorf("canary: %v, %v", info, err)
	}
}

// A link in the cluster leads root nowhere.
func TestLinkOutOfTheClusterIsRefused(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	data := filepath.Join(dir, "postgres", "data")
	elsewhere := filepath.Join(t.TempDir(), "elsewhere")
	check(t, os.Rename(data, elsewhere))
	check(t, os.Symlink(elsewhere, data))
	_, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
	oneLine(t, err)
	check(t, os.Remove(data))
}

// A mount that makes everything accessible to a group changes nothing: it is ours.
func TestWidenedModesAreRepaired(t *testing.T) {
	t.Parallel()
	dir := dataDir(t)
	cluster := filepath.Join(dir, "postgres")
	for _, path := range []string{dir, cluster, filepath.Join(cluster, "data")} {
		check(t, os.Chmod(path, 0o777))
	}
	write(t, start(t, dir).URL())
	for path, others := range map[string]os.FileMode{dir: 0o022, cluster: 0o077, filepath.Join(cluster, "data"): 0o077} {
		info, err := os.Stat(path)
		check(t, err)
		if info.Mode().Perm()&others != 0 {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
	}
}

// Whoever can write the data dir decides what is served from it. Only root can make one of
// another user, so that anyone else refuses one of root's that all may write.
func TestDataDirOfAnotherUserIsRefused(t *testing.T) {
	t.Parallel()
	dir := "/tmp" // root's, and everyone may write it
	if os.Geteuid() == 0 {
		dir = t.TempDir()
		check(t, os.Chown(dir, 65534, 65534))
	}
	_, err := localpg.Start(t.Context(), localpg.Config{DataDir: dir})
	oneLine(t, err, "data dir "+dir, "user")
}

// Started by hand on a network address, the cluster lets nobody in without a password.
func TestClusterRejectsHosts(t *testing.T) {
	t.Parallel()
	server := attach(t, emptyDir(t))
	if got := ask(t, server.URL(), "SELECT string_agg(DISTINCT auth_method, ' ') FROM pg_hba_file_rules WHERE type = 'host'"); got != "reject" {
		t.Errorf("hosts: %s", got)
	}
}

// As process 1 of a container there is no other that would collect the backends of a server
// that crashed.
func TestProcessOneLeavesNoZombies(t *testing.T) {
	t.Parallel()
	namespace := []string{"unshare", "--kill-child", "--pid", "--fork", "--mount-proc"}
	if err := exec.Command(namespace[0], append(namespace[1:], "true")...).Run(); err != nil {
		if os.Getenv("CI") != "" {
			t.Fatalf("no process namespace: %v", err)
		}
		t.Skip("no process namespace: only root may make one")
	}
	cmd, _ := owner(t, dataDir(t), namespace...)
	root := childOf(t, cmd.Process.Pid)
	postmaster := childOf(t, root)
	check(t, syscall.Kill(postmaster, syscall.SIGKILL))
	eventually(t, "another postmaster and no zombie", func() bool {
		fresh, zombies := false, 0
		for _, pid := range children(root) {
			if !running(pid) {
				zombies++
			}
			fresh = fresh || pid != postmaster && len(children(pid)) > 3
		}
		return fresh && zombies == 0
	})
}

func childOf(t *testing.T, pid int) (child int) {
	t.Helper()
	eventually(t, "a child", func() bool {
		all := children(pid)
		if len(all) == 1 {
			child = all[0]
		}
		return child != 0
	})
	return child
}

func children(pid int) (all []int) {
	files, _ := filepath.Glob("/proc/" + strconv.Itoa(pid) + "/task/*/children")
	for _, file := range files {
		text, _ := os.ReadFile(file)
		for _, field := range strings.Fields(string(text)) {
			if child, err := strconv.Atoi(field); err == nil {
				all = append(all, child)
			}
		}
	}
	return all
}
