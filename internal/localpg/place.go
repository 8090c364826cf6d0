package localpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/gofrs/flock"
)

const (
	// poll is how often a lock or a starting server is looked at again.
	poll = 20 * time.Millisecond
	// socketPort is part of the socket's name only; nothing listens on a network.
	socketPort = "5432"
	// socketPathMax is the longest socket path that every system takes: macOS has
	// room for 103 bytes, Linux for 107.
	socketPathMax = 103
)

// place is a data folder.
type place struct{ root string }

// The locks and the log lie beside the cluster, not in it: where Postgres runs as
// another user, root must not write through a folder of that user.
func (p place) cluster() string { return filepath.Join(p.root, "postgres") }
func (p place) data() string    { return filepath.Join(p.cluster(), "data") }
func (p place) unborn() string  { return filepath.Join(p.cluster(), "data.init") }
func (p place) logFile() string { return filepath.Join(p.root, "postgres.log") }
func (p place) locks() string   { return filepath.Join(p.root, "locks") }

func (p place) lock(name string) *flock.Flock {
	return flock.New(filepath.Join(p.locks(), name), flock.SetPermissions(0o600))
}

// gate takes the lock of whoever starts or stops the server.
func (p place) gate(ctx context.Context) (*flock.Flock, error) {
	gate := p.lock("start")
	if _, err := gate.TryLockContext(ctx, poll); err != nil {
		return nil, fmt.Errorf("wait for another start or stop in %s: %w", p.root, err)
	}
	return gate, nil
}

// unused reports whether nobody uses the server. The caller holds the gate, so
// nobody comes in meanwhile.
func (p place) unused() bool {
	users := p.lock("users")
	held, err := users.TryLock()
	if err != nil || !held {
		return false
	}
	return users.Unlock() == nil
}

// sign leaves the owner's process id for the message to a second one. It is not
// worth failing for.
func (p place) sign() {
	_ = os.WriteFile(filepath.Join(p.locks(), "owner"), []byte(strconv.Itoa(os.Getpid())), 0o600)
}

func (p place) holder() string {
	text, err := os.ReadFile(filepath.Join(p.locks(), "owner"))
	if pid, bad := strconv.Atoi(string(text)); err == nil && bad == nil {
		return fmt.Sprintf(" (process %d)", pid)
	}
	return ""
}

// newPlace makes the folder and the one for the locks.
func newPlace(dir string) (place, error) {
	p := place{root: dir}
	for _, folder := range []string{p.root, p.locks()} {
		if err := os.MkdirAll(folder, folderMode()); err != nil {
			return p, fmt.Errorf("make data dir %s: %w", dir, err)
		}
	}
	resolved, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return p, fmt.Errorf("find data dir: %w", err)
	}
	return place{root: resolved}, nil
}

// folderMode lets the user that root drops to pass through, and nobody read.
func folderMode() fs.FileMode {
	if os.Geteuid() == 0 {
		return 0o711
	}
	return 0o700
}

// settle says who Postgres runs as, the owner of a cluster that is there already,
// and makes the cluster's folder for that user. The caller holds the gate.
func (p place) settle() (as identity, err error) {
	info, err := os.Stat(p.cluster())
	switch {
	case errors.Is(err, fs.ErrNotExist):
		as, err = newIdentity()
	case err == nil:
		as, err = identityOf(info)
	}
	if err != nil {
		return as, fmt.Errorf("settle in data dir: %w", err)
	}
	return as, as.mkdir(p.cluster())
}

// socketDir is where the socket goes: beside the data, so that every process finds
// it whatever its TMPDIR, but for paths that a socket address cannot hold.
func (p place) socketDir(as identity) (string, error) {
	if as.reaches(p.cluster()) && fits(p.cluster()) {
		return p.cluster(), nil
	}
	sum := sha256.Sum256([]byte(p.root))
	name := "holdfast-" + hex.EncodeToString(sum[:6])
	for _, parent := range []string{os.TempDir(), "/tmp"} {
		dir := filepath.Join(parent, name)
		if fits(dir) && as.reaches(parent) {
			return dir, as.mkdir(dir)
		}
	}
	return "", fmt.Errorf("no folder for a socket: %s and TMPDIR are too long for a socket's path", p.cluster())
}

// fits also refuses what Postgres would read as a list of folders.
func fits(dir string) bool {
	return len(dir)+len("/.s.PGSQL.")+len(socketPort) <= socketPathMax && !strings.ContainsAny(dir, `,"`)
}
