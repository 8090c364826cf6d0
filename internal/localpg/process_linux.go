package localpg

import (
	"bytes"
	"fmt"
	"os"
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

// throughDescriptor is a path to a folder that is open as file descriptor 3: no
// folder above it is asked for permission.
const throughDescriptor = "/proc/self/fd/3"
