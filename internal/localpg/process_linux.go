package localpg

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
)

// serves reports whether the process is a Postgres on this data folder, which is
// always a postmaster's working folder. Where that cannot be read (another user's
// process, in a container) any Postgres counts: better refused than run twice.
func serves(pid int, data string) bool {
	name, err := os.ReadFile(fmt.Sprintf("/proc/%d/comm", pid))
	if err != nil || !bytes.HasPrefix(name, []byte("postgres")) {
		return false
	}
	works, err := os.Stat(fmt.Sprintf("/proc/%d/cwd", pid))
	if err != nil {
		return true
	}
	own, err := os.Stat(data)
	return err == nil && os.SameFile(works, own)
}

// zombie reports whether the process is dead and only its parent has not asked.
func zombie(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return false
	}
	// The state follows the name, which is in brackets and may hold anything.
	end := bytes.LastIndexByte(stat, ')')
	return end >= 0 && end+2 < len(stat) && stat[end+2] == 'Z'
}

// reapOrphans collects the backends of a server that crashed. In a container that has no
// init, where we are process 1, they become our children. The postmaster is left to [exited].
func reapOrphans(postmaster int) {
	if os.Getpid() != 1 {
		return
	}
	names, _ := filepath.Glob("/proc/[0-9]*/comm")
	for _, path := range names {
		pid, err := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		name, _ := os.ReadFile(path)
		if err == nil && pid != postmaster && bytes.HasPrefix(name, []byte("postgres")) && zombie(pid) {
			exited(pid)
		}
	}
}

// throughDescriptor is a path to a folder that is open as file descriptor 3: no
// folder above it is asked for permission.
const throughDescriptor = "/proc/self/fd/3"
