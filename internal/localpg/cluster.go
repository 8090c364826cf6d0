package localpg

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgerrcode"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
)

// logMax is the size at which the server's log is put aside, once.
const logMax = 16 << 20

// orphansLeft is what a server says that finds processes of one that was killed. They
// notice within moments, and a start waits for them as long as orphanPatience.
const (
	orphansLeft    = "pre-existing shared memory block"
	orphanPatience = 5 * time.Second
)

// ensure returns once the server answers: it is found running, or started. The
// caller holds the gate.
func (s *Server) ensure(ctx context.Context) error {
	child := 0
	for began := time.Now(); ; {
		found, running := s.postmaster()
		switch {
		case running && ready(ctx, found):
			s.note(found, child != 0)
			return nil
		case running: // starting, recovering or on its way down
		case child == 0:
			pid, err := s.launch(ctx)
			if err != nil {
				return err
			}
			child = pid
		case !alive(child):
			s.place.clean()
			if !s.place.hasOrphans() || time.Since(began) > orphanPatience {
				return fmt.Errorf("start postgres: %s", s.place.lastWords())
			}
			child = 0
		}
		if !pause(ctx, poll) {
			return fmt.Errorf("start postgres in %s: process %d does not answer: %w", s.place.root, found.pid, context.Cause(ctx))
		}
	}
}

// postmaster is the server that runs on the data, with the socket that it must listen on.
func (s *Server) postmaster() (postmaster, bool) {
	found, running := s.place.postmaster()
	found.socket = s.place.socketDir(s.as)
	return found, running
}

func (s *Server) note(found postmaster, launched bool) {
	s.log.Debug("postgres is ready", "pid", found.pid, "started", launched, "data_dir", s.place.root)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.found, s.launched = found, s.launched || launched
}

// ready reports whether the server takes connections, and makes the database at the
// first time.
func ready(ctx context.Context, found postmaster) bool {
	if !found.listens {
		return false
	}
	conn, err := pgx.Connect(ctx, found.url("postgres")+"&connect_timeout=5")
	if full := (*pgconn.PgError)(nil); errors.As(err, &full) && full.Code == pgerrcode.TooManyConnections {
		return true
	}
	if err != nil {
		return false
	}
	defer conn.Close(context.WithoutCancel(ctx))
	return makeDatabase(ctx, conn) == nil
}

func makeDatabase(ctx context.Context, conn *pgx.Conn) error {
	var there bool
	err := conn.QueryRow(ctx, "SELECT EXISTS (SELECT FROM pg_database WHERE datname = $1)", database).Scan(&there)
	if err == nil && !there {
		_, err = conn.Exec(ctx, "CREATE DATABASE "+database)
	}
	if err != nil {
		return fmt.Errorf("make database: %w", err)
	}
	return nil
}

// launch starts a postmaster on the data, which it creates the first time.
func (s *Server) launch(ctx context.Context) (pid int, err error) {
	bin, err := s.data(ctx)
	if err != nil {
		return 0, err
	}
	socket, err := s.place.makeSocketDir(s.as)
	if err != nil {
		return 0, err
	}
	if err := s.place.clear(socket); err != nil {
		return 0, err
	}
	return s.spawn(bin, socket)
}

// data makes the cluster where there is none, and finds the binaries that fit it.
func (s *Server) data(ctx context.Context) (binaries, error) {
	want, err := s.place.version()
	if err != nil {
		return binaries{}, err
	}
	bin, err := find(ctx, s.as, want, candidates(ctx))
	if err == nil && want == 0 {
		err = s.initialise(ctx, bin)
	}
	return bin, err
}

// version is the major version of the data, 0 where there is none yet. A data
// folder that is not ours to read is refused, never filled.
func (p place) version() (int, error) {
	text, err := p.read("data/PG_VERSION")
	if errors.Is(err, fs.ErrNotExist) {
		if _, err := os.Lstat(p.data()); err == nil {
			return 0, fmt.Errorf("%s is there but is no Postgres data: move it away", p.data())
		}
		return 0, nil
	}
	if err != nil {
		return 0, fmt.Errorf("read data version: %w", err)
	}
	major, err := strconv.Atoi(strings.TrimSpace(string(text)))
	if err != nil { // what it says instead is not repeated: it may be another file's
		return 0, errors.New("read data version: PG_VERSION is not a number")
	}
	return major, nil
}

// initialise makes the cluster under another name and renames it when it is whole,
// so that a crash halfway leaves nothing that looks like data.
func (s *Server) initialise(ctx context.Context, bin binaries) error {
	cluster, err := os.OpenRoot(s.place.cluster())
	if err != nil {
		return fmt.Errorf("create cluster: %w", err)
	}
	defer cluster.Close()
	if err := cluster.RemoveAll(stagingDir); err != nil {
		return fmt.Errorf("create cluster: %w", err)
	}
	cmd := exec.CommandContext(ctx, bin.path("initdb"),
		"--username="+superuser, "--auth-local=trust", "--auth-host=reject",
		"--encoding=UTF8", "--locale=C", "--data-checksums", "--no-instructions")
	done, err := s.prepareCmd(cmd, stagingDir)
	if err != nil {
		return err
	}
	defer done()
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("create cluster: %w: %s%s", err, lastLine(out.String()), hint(out.String()))
	}
	if err := cluster.Rename(stagingDir, "data"); err != nil {
		return fmt.Errorf("create cluster: %w", err)
	}
	s.log.Info("made a private Postgres cluster", "major", bin.major, "data_dir", s.place.root)
	return nil
}

// hint says what to do about an error of initdb that does not.
func hint(out string) string {
	if !strings.Contains(out, "could not look up effective user") {
		return ""
	}
	return fmt.Sprintf(": add user %d to /etc/passwd, run as a user that is in it, or set HOLDFAST_DATABASE_URL", os.Geteuid())
}

// spawn starts the postmaster and lets go of it: see exited.
func (s *Server) spawn(bin binaries, socket string) (int, error) {
	out, err := s.place.openLog()
	if err != nil {
		return 0, err
	}
	defer out.Close()
	cmd := exec.Command(bin.path("postgres"), s.settings(socket)...) //nolint:noctx // It outlives every context.
	done, err := s.prepareCmd(cmd, "data")
	if err != nil {
		return 0, err
	}
	defer done()
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		return 0, fmt.Errorf("start postgres: %w", err)
	}
	pid := cmd.Process.Pid
	return pid, cmd.Process.Release()
}

// prepareCmd gives a command its user, its surroundings and the folder to work on. The
// folder goes as an open descriptor where the user that root drops to cannot walk
// there, as under /root.
func (s *Server) prepareCmd(cmd *exec.Cmd, folder string) (done func(), err error) {
	cmd.Dir = "/" // a folder that every user may be in
	cmd.SysProcAttr = s.as.attributes()
	// Nothing of the caller's: a stray PGDATA or locale must not change the server.
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C", "TZ=UTC"}
	if s.as.reaches(s.place.cluster()) {
		cmd.Args = append(cmd.Args, "-D", filepath.Join(s.place.cluster(), folder))
		return func() {}, nil
	}
	if throughDescriptor == "" {
		return nil, fmt.Errorf("data dir %s is closed to user %d, which Postgres runs as: choose one outside root's own folders", s.place.root, s.as.uid)
	}
	open, err := os.Open(s.place.cluster())
	if err != nil {
		return nil, fmt.Errorf("open data dir: %w", err)
	}
	cmd.ExtraFiles = []*os.File{open}
	cmd.Args = append(cmd.Args, "-D", throughDescriptor+"/"+folder)
	return func() { open.Close() }, nil
}

// settings are the server's, durability left at Postgres's own defaults: every
// commit is on disk.
func (s *Server) settings(socket string) []string {
	all := map[string]string{
		"listen_addresses":        "", // the socket only
		"unix_socket_directories": socket,
		"unix_socket_permissions": "0700",
		"port":                    socketPort,
		"max_connections":         "200",
		"timezone":                "UTC",
		"log_timezone":            "UTC",
		"log_checkpoints":         "off", // routine; it would be most of the log
		"jit":                     "off", // costs more than these short statements
	}
	maps.Copy(all, s.cfg.Settings)
	var args []string
	for _, name := range slices.Sorted(maps.Keys(all)) {
		args = append(args, "-c", name+"="+all[name])
	}
	return args
}

func (p place) openLog() (*os.File, error) {
	if info, err := os.Stat(p.logFile()); err == nil && info.Size() > logMax {
		if err := os.Rename(p.logFile(), p.logFile()+".1"); err != nil {
			return nil, fmt.Errorf("put log aside: %w", err)
		}
	}
	file, err := os.OpenFile(p.logFile(), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("open postgres log: %w", err)
	}
	return file, nil
}

// hasOrphans reports whether the server's log speaks of them; they may have the last word.
func (p place) hasOrphans() bool {
	text, err := os.ReadFile(p.logFile())
	return err == nil && strings.Contains(string(text), orphansLeft)
}

// lastWords is why the server did not start, as its log tells it.
func (p place) lastWords() string {
	text, err := os.ReadFile(p.logFile())
	if err != nil {
		return err.Error()
	}
	return lastLine(string(text)) + " (more in " + p.logFile() + ")"
}

// lastLine is the last line that says what is wrong, else the last one.
func lastLine(text string) string {
	lines := strings.Split(strings.TrimSpace(text), "\n")
	for _, line := range slices.Backward(lines) {
		for _, mark := range []string{"FATAL:", "PANIC:", "error:"} {
			if at := strings.Index(line, mark); at >= 0 {
				return strings.TrimSpace(line[at+len(mark):])
			}
		}
	}
	return strings.TrimSpace(lines[len(lines)-1])
}
