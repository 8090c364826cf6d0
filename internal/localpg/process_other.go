//go:build unix && !linux

package localpg

import (
	"os/exec"
	"strconv"
	"strings"
)

// serves reports whether the process is a Postgres on this data folder, by its
// command line: systems without /proc tell no more.
func serves(pid int, data string) bool {
	command := ps(pid, "command=")
	return strings.Contains(command, "postgres") && strings.Contains(command, data)
}

// zombie reports whether the process is dead and only its parent has not asked.
func zombie(pid int) bool { return strings.HasPrefix(ps(pid, "state="), "Z") }

func ps(pid int, column string) string {
	out, err := exec.Command("ps", "-o", column, "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(out))
}

// reapOrphans: here another process is the one that adopts orphans.
func reapOrphans(int) {}

// throughDescriptor: there is no such path here.
const throughDescriptor = ""
