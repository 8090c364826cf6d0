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

// newIdentity picks the user for a new cluster: the distribution's own for
// Postgres, else the one that owns nothing.
func newIdentity() (identity, error) {
	if os.Geteuid() != 0 {
		return ourselves(), nil
	}
	for _, name := range []string{"postgres", "nobody"} {
		if as, err := identityNamed(name); err == nil {
			return as, nil
		}
	}
	return identity{}, errors.New("postgres does not run as root and there is no user postgres or nobody: start holdfast as an ordinary user")
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

// mkdir makes a folder for this user alone, and refuses one that is somebody
// else's: under a shared temp folder anyone could have put it there.
func (as identity) mkdir(dir string) error {
	err := os.Mkdir(dir, 0o700)
	if as.drop && (err == nil || as.unfinished(dir)) {
		err = os.Lchown(dir, int(as.uid), int(as.gid))
	}
	if err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("make data dir: %w", err)
	}
	return as.owns(dir)
}

// unfinished is a folder that root made and was killed before it gave it away.
func (as identity) unfinished(dir string) bool { return identity{}.owns(dir) == nil }

func (as identity) owns(dir string) error {
	info, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("find data dir: %w", err)
	}
	owner, known := info.Sys().(*syscall.Stat_t)
	if !info.IsDir() || known && owner.Uid != as.uid {
		return fmt.Errorf("%s is not a folder of user %d", dir, as.uid)
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
