package localpg

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"syscall"
)

// identity is the user that Postgres runs as: ourselves, or, since it refuses root,
// another user where we are root.
type identity struct {
	uid, gid uint32
	drop     bool
}

// newIdentity picks the user for a new cluster: ourselves, or for root the distribution's
// user for Postgres. A user such as nobody is never used: other services run as it.
func newIdentity() (identity, error) {
	if os.Geteuid() != 0 {
		return ourselves(), nil
	}
	as, err := identityNamed("postgres")
	if err != nil {
		return as, errors.New("postgres does not run as root and there is no user postgres: create it (useradd --system postgres), or start holdfast as an ordinary user")
	}
	return as, nil
}

// identityOf is the owner of a cluster that is there already.
func identityOf(info fs.FileInfo) (identity, error) {
	owner, known := info.Sys().(*syscall.Stat_t)
	if os.Geteuid() != 0 || !known {
		return ourselves(), nil
	}
	if owner.Uid == 0 {
		return newIdentity()
	}
	return identity{uid: owner.Uid, gid: owner.Gid, drop: true}, nil
}

func ourselves() identity {
	return identity{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
}

func identityNamed(name string) (identity, error) {
	found, err := user.Lookup(name)
	if err != nil {
		return identity{}, fmt.Errorf("find user: %w", err)
	}
	uid, errUID := strconv.ParseUint(found.Uid, 10, 32)
	gid, errGID := strconv.ParseUint(found.Gid, 10, 32)
	if err := errors.Join(errUID, errGID); err != nil {
		return identity{}, fmt.Errorf("find user: %w", err)
	}
	return identity{uid: uint32(uid), gid: uint32(gid), drop: uid != 0}, nil
}

// attributes puts Postgres in a process group of its own, so that Ctrl-C in a
// terminal reaches us alone and we drain before the database goes.
func (as identity) attributes() *syscall.SysProcAttr {
	attributes := &syscall.SysProcAttr{Setpgid: true}
	if as.drop {
		attributes.Credential = &syscall.Credential{Uid: as.uid, Gid: as.gid}
	}
	return attributes
}

// mkdir creates a directory for this user alone, and refuses one that belongs to someone
// else: in a shared temp directory anyone could have put it there. Its parent must be one in
// which only we, or only root, can replace it. One that a mount made accessible to others is
// closed again.
func (as identity) mkdir(dir string) error {
	if err := os.Mkdir(dir, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("create directory: %w", err)
	}
	// What is checked is what is changed: the open directory, never its name.
	open, err := os.OpenFile(dir, os.O_RDONLY|syscall.O_DIRECTORY|syscall.O_NOFOLLOW, 0)
	if err != nil {
		return fmt.Errorf("%s is not a directory of user %d: %w", dir, as.uid, err)
	}
	defer open.Close()
	return as.take(open)
}

// take gives this user an open directory that root has created, now or before it was killed.
func (as identity) take(open *os.File) error {
	if as.drop && (identity{}).keep(open) == nil {
		if err := open.Chown(int(as.uid), int(as.gid)); err != nil {
			return fmt.Errorf("give directory to user %d: %w", as.uid, err)
		}
	}
	return as.keep(open)
}

// keep refuses an open directory of another user, and closes this user's to all others.
func (as identity) keep(open *os.File) error {
	info, err := open.Stat()
	if err != nil {
		return fmt.Errorf("find directory: %w", err)
	}
	if owner, known := info.Sys().(*syscall.Stat_t); known && owner.Uid != as.uid {
		return fmt.Errorf("%s is not a directory of user %d", open.Name(), as.uid)
	}
	if info.Mode().Perm() != 0o700 {
		if err := open.Chmod(0o700); err != nil {
			return fmt.Errorf("close %s to other users: %w", open.Name(), err)
		}
	}
	return nil
}

// reaches reports whether this user may pass through every folder down to dir,
// which root's own home, or a temp folder that root made, does not let it.
func (as identity) reaches(dir string) bool {
	if !as.drop {
		return true
	}
	for ; ; dir = filepath.Dir(dir) {
		info, err := os.Stat(dir)
		if err != nil || !as.passes(info) {
			return false
		}
		if dir == filepath.Dir(dir) {
			return true
		}
	}
}

func (as identity) passes(info fs.FileInfo) bool {
	owner, known := info.Sys().(*syscall.Stat_t)
	switch {
	case !known:
		return false
	case owner.Uid == as.uid:
		return info.Mode()&0o100 != 0
	case owner.Gid == as.gid:
		return info.Mode()&0o010 != 0
	default:
		return info.Mode()&0o001 != 0
	}
}
