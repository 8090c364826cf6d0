package localpg

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
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

// stagingDir is the cluster while it is being created.
const stagingDir = "data.init"

// place is a data folder.
type place struct{ root string }

// The locks and the log lie beside the cluster, not in it: where Postgres runs as
// another user, root must not write through a folder of that user.
func (p place) cluster() string { return filepath.Join(p.root, "postgres") }
func (p place) data() string    { return filepath.Join(p.cluster(), "data") }
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
	return place{root: resolved}, checkOwner(resolved)
}

// checkOwner refuses a data dir in which another user could put what we trust, such as keys
// or a cluster. Root is trusted by everyone: it makes the mount points of containers. A mode
// that a mount has widened is repaired if the directory is ours.
func checkOwner(dir string) error {
	info, err := os.Stat(dir)
	if err != nil {
		return fmt.Errorf("find data dir: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known:
		return nil
	case owner.Uid == uint32(os.Geteuid()):
		return closeToOthers(dir, info)
	case owner.Uid == 0 && info.Mode().Perm()&0o002 == 0:
		return nil
	default:
		return fmt.Errorf("data dir %s belongs to user %d, or other users may write it: choose one that is user %d's own",
			dir, owner.Uid, os.Geteuid())
	}
}

func closeToOthers(dir string, info fs.FileInfo) error {
	if info.Mode().Perm()&0o022 == 0 {
		return nil
	}
	if err := os.Chmod(dir, info.Mode().Perm()&^0o022); err != nil {
		return fmt.Errorf("data dir: close to other users: %w", err)
	}
	return nil
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
	if err := as.mkdir(p.cluster()); err != nil {
		return as, fmt.Errorf("data dir: %w", err)
	}
	return as, p.repairMode(as)
}

// repairMode closes the cluster again that a mount made accessible to a group: Postgres
// refuses to start on one.
func (p place) repairMode(as identity) error {
	data, err := p.open("data")
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("open data: %w", err)
	}
	defer data.Close()
	if info, err := data.Stat(); err != nil || !info.IsDir() {
		return err // version reports what is there instead
	}
	return as.keep(data)
}

// open opens a file of the cluster. The directory belongs to a user whom root must not
// follow elsewhere: a link that leads out of it is an error.
func (p place) open(name string) (*os.File, error) {
	cluster, err := os.OpenRoot(p.cluster())
	if err != nil {
		return nil, err
	}
	defer cluster.Close()
	return cluster.Open(name)
}

// read reads a small file of the cluster, as open does.
func (p place) read(name string) ([]byte, error) {
	file, err := p.open(name)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	return io.ReadAll(io.LimitReader(file, readMax))
}

// readMax is above the size of every file that read is for.
const readMax = 64 << 10

// tempSocketDir is where the socket goes if the cluster's own directory cannot hold it. It
// depends on the data dir alone, so every process finds it, whatever its TMPDIR.
func (p place) tempSocketDir() string {
	sum := sha256.Sum256([]byte(p.root))
	return filepath.Join("/tmp", "holdfast-"+hex.EncodeToString(sum[:6]))
}

// socketDir is where the socket is, or is to be: in the cluster's directory, unless its path
// is too long for a socket address or closed to the user that Postgres runs as. A choice is
// recorded in our own directory, because permissions may change while a server runs; what
// the server's files say is not believed.
func (p place) socketDir(as identity) string {
	recorded, _ := os.ReadFile(p.socketFile())
	for _, dir := range []string{p.cluster(), p.tempSocketDir()} {
		if string(recorded) == dir {
			return dir
		}
	}
	if as.reaches(p.cluster()) && fits(p.cluster()) {
		return p.cluster()
	}
	return p.tempSocketDir()
}

func (p place) socketFile() string { return filepath.Join(p.locks(), "socket") }

// makeSocketDir creates the directory and records the choice.
func (p place) makeSocketDir(as identity) (string, error) {
	dir := p.socketDir(as)
	if err := as.mkdir(dir); err != nil {
		return "", fmt.Errorf("socket: %w", err)
	}
	if err := os.WriteFile(p.socketFile(), []byte(dir), 0o600); err != nil {
		return "", fmt.Errorf("record socket: %w", err)
	}
	return dir, nil
}

// fits also refuses what Postgres would read as a list of folders.
func fits(dir string) bool {
	return len(dir)+len("/.s.PGSQL.")+len(socketPort) <= socketPathMax && !strings.ContainsAny(dir, `,"`)
}
