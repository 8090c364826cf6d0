package localpg

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/gofrs/flock"
)

const (
	// superuser owns the cluster and every database in it.
	superuser = "holdfast"
	// database is made at the first start.
	database = "holdfast"
	// startTimeout bounds one start. Recovery after a crash replays at most
	// max_wal_size, which a slow disk does in well under this.
	startTimeout = 2 * time.Minute
	// leaveTimeout bounds the wait for another process that starts or stops.
	leaveTimeout = 30 * time.Second
	// unusedPoll is how soon StopUnused sees that the last user is gone.
	unusedPoll = 100 * time.Millisecond
)

// ErrInUse says that another process serves from the same data folder.
var ErrInUse = errors.New("data dir is in use by another holdfast")

// Config says where the cluster lives.
type Config struct {
	// DataDir is the folder that holds the cluster; it is made where it is missing.
	DataDir string
	// Log is told of starts, stops and deaths; nil is silence.
	Log *slog.Logger
	// Settings are Postgres settings on top of this package's own. They count
	// only where this call starts the server.
	Settings map[string]string
}

// Server is one use of a data folder's Postgres. Stop ends the use.
type Server struct {
	cfg   Config
	log   *slog.Logger
	place place
	as    identity

	owner *flock.Flock // nil for a user that is not the owner
	users *flock.Flock

	mu       sync.Mutex // guards the rest
	found    postmaster
	launched bool
	stopped  bool

	unwatch  context.CancelFunc
	watching sync.WaitGroup
}

// Start makes this process the owner of the folder's Postgres: it is started, or
// found running and taken over, and started again whenever it dies, until Stop.
// Another owner is [ErrInUse]. Errors are one line that a person can act on.
func Start(ctx context.Context, cfg Config) (*Server, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.own(); err != nil {
		return nil, err
	}
	if err := s.join(ctx); err != nil {
		return nil, errors.Join(err, s.owner.Unlock())
	}
	s.watch()
	return s, nil
}

// Attach uses the folder's Postgres, whoever runs it, and starts it where nobody
// does. It is for a command that needs the database for a moment.
func Attach(ctx context.Context, cfg Config) (*Server, error) {
	s, err := prepare(cfg)
	if err != nil {
		return nil, err
	}
	if err := s.join(ctx); err != nil {
		return nil, err
	}
	return s, nil
}

// Exists says whether the folder holds a cluster, or what stands in a cluster's place,
// which [Attach] refuses. It makes nothing.
func Exists(dataDir string) bool {
	_, err := os.Lstat(place{root: dataDir}.data())
	return !errors.Is(err, fs.ErrNotExist)
}

func prepare(cfg Config) (*Server, error) {
	if cfg.DataDir == "" {
		return nil, errors.New("no data dir is set")
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return nil, fmt.Errorf("find data dir: %w", err)
	}
	log := cfg.Log
	if log == nil {
		log = slog.New(slog.DiscardHandler)
	}
	s := &Server{cfg: cfg, log: log}
	s.place, err = newPlace(dir)
	return s, err
}

// URL is the address of the database, for this user only: the socket's folder is
// closed to all others.
func (s *Server) URL() string { return s.now().url(database) }

// PID is the postmaster's process id.
func (s *Server) PID() int { return s.now().pid }

func (s *Server) now() postmaster {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.found
}

// Started says whether this call started the server, rather than found it running.
func (s *Server) Started() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.launched
}

// Stop ends this use, and the server with it where nobody else uses it. Open
// connections are cut, what is committed stays. Once ctx is done Postgres is told
// to stop at once. A second call does nothing.
func (s *Server) Stop(ctx context.Context) error { return s.leave(ctx, fast) }

// Crash is Stop as a crash would be: no checkpoint, recovery at the next start.
// It stops the server even where others use it.
func (s *Server) Crash(ctx context.Context) error { return s.leave(ctx, immediate) }

func (s *Server) own() error {
	s.owner = s.place.lock("owner")
	held, err := s.owner.TryLock()
	if err != nil {
		return fmt.Errorf("lock data dir: %w", err)
	}
	if !held {
		return fmt.Errorf("%w: %s%s", ErrInUse, s.place.root, s.place.holder())
	}
	s.place.sign()
	return nil
}

func (s *Server) join(ctx context.Context) (err error) {
	ctx, cancel := context.WithTimeout(ctx, startTimeout)
	defer cancel()
	gate, err := s.place.gate(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, gate.Unlock()) }()
	s.users = s.place.lock("users")
	// Only a watcher that has found the server unused can hold this: it is stopping it.
	if _, err := s.users.TryRLockContext(ctx, poll); err != nil {
		return fmt.Errorf("lock data dir: %w", err)
	}
	if s.as, err = s.place.settle(); err == nil {
		err = s.ensure(ctx)
	}
	if err != nil {
		err = errors.Join(err, s.users.Unlock())
	}
	return err
}

func (s *Server) leave(ctx context.Context, how shutdown) error {
	if !s.retire() {
		return nil
	}
	s.endWatch()
	err := s.part(ctx, how)
	if s.owner != nil {
		err = errors.Join(err, s.owner.Unlock())
	}
	return err
}

// part stops the server where this was its last user.
func (s *Server) part(ctx context.Context, how shutdown) error {
	wait, cancel := context.WithTimeout(context.WithoutCancel(ctx), leaveTimeout)
	defer cancel()
	gate, err := s.place.gate(wait)
	if err != nil {
		return errors.Join(err, s.users.Unlock())
	}
	err = s.users.Unlock()
	if how == immediate || s.place.unused() {
		err = errors.Join(err, s.place.stop(ctx, how))
	}
	return errors.Join(err, gate.Unlock())
}

// retire reports whether this is the first call.
func (s *Server) retire() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first := !s.stopped
	s.stopped = true
	return first
}

// StopUnused waits until nobody uses the folder's Postgres and stops it then. It
// looks after servers whose users may be killed.
func StopUnused(ctx context.Context, dataDir string) error {
	dir, err := filepath.EvalSymlinks(dataDir)
	if err != nil {
		return fmt.Errorf("find data dir: %w", err)
	}
	p := place{root: dir}
	users := p.lock("users")
	if _, err := users.TryLockContext(ctx, unusedPoll); err != nil {
		return fmt.Errorf("wait for users: %w", err)
	}
	return errors.Join(p.stop(ctx, fast), users.Unlock())
}
