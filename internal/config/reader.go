package config

import (
	"fmt"
	"net"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// An Error names every setting that makes startup fail, in one line. It is a usage error.
type Error struct{ problems []string }

func (e *Error) Error() string { return "settings: " + strings.Join(e.problems, "; ") }

// A reader parses settings and collects what is wrong with them, so that one start reports
// everything. An empty variable counts as unset, except a database URL: that is what
// compose files and unit files make of an absent value.
type reader struct {
	env Env
	// broker is the entry of HOLDFAST_BROKERS_FILE that is being read; nil if none is. Its
	// values precede the environment's, and errors name it.
	broker   *entry
	problems []string
}

func (r *reader) err() error {
	if len(r.problems) == 0 {
		return nil
	}
	return &Error{r.problems}
}

func (r *reader) errorf(format string, args ...any) {
	r.problems = append(r.problems, fmt.Sprintf(format, args...))
}

// label is how an error names a setting.
func (r *reader) label(name string) string {
	if r.broker == nil {
		return name
	}
	known, _ := settingNamed(name)
	return fmt.Sprintf("HOLDFAST_BROKERS_FILE: broker %q: %s", r.broker.name, known.brokerKey())
}

// str returns a setting's value, or its default. A name that is not in the table is a bug.
func (r *reader) str(name string) string {
	known, ok := settingNamed(name)
	if !ok {
		panic("setting " + name + " is not in the table")
	}
	if r.broker != nil {
		if value, ok := r.broker.value(r, known); ok {
			return value
		}
	}
	if value := strings.TrimSpace(r.env[name]); value != "" {
		if known.secret() && r.env[name+fileSuffix] != "" {
			r.errorf("%s and %s cannot be combined", name, name+fileSuffix)
		}
		return value
	}
	if path := r.env[name+fileSuffix]; known.secret() && path != "" {
		return r.secretIn(path, name+fileSuffix)
	}
	return known.fallback
}

// secretIn reads the file of a secret. label names the setting that gave its path.
func (r *reader) secretIn(path, label string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		r.errorf("%s: %s", label, err)
	} else if strings.TrimSpace(string(text)) == "" {
		r.errorf("%s: the file %s is empty", label, path)
	}
	return strings.TrimSpace(string(text))
}

// duration parses a Go duration of at least minimum.
func (r *reader) duration(name string, minimum time.Duration) time.Duration {
	text := r.str(name)
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		r.errorf("%s is %q, not a duration such as 30s or 5m", r.label(name), text)
	case value < minimum:
		r.errorf("%s is %s, must be at least %s", r.label(name), text, minimum)
	}
	return value
}

// integer parses a whole number between minimum and maximum.
func (r *reader) integer(name string, minimum, maximum int) int {
	text := r.str(name)
	value, err := strconv.Atoi(text)
	switch {
	case err != nil:
		r.errorf("%s is %q, not a whole number", r.label(name), text)
	case value < minimum || value > maximum:
		r.errorf("%s is %d, must be %d to %d", r.label(name), value, minimum, maximum)
	}
	return value
}

// number parses a decimal number for which ok holds; want describes those.
func (r *reader) number(name, want string, ok func(float64) bool) float64 {
	text := r.str(name)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !ok(value) {
		r.errorf("%s is %q, must be a number %s", r.label(name), text, want)
	}
	return value
}

func (r *reader) boolean(name string) bool {
	text := r.str(name)
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.errorf("%s is %q, must be true or false", r.label(name), text)
	}
	return value
}

func (r *reader) choice(name string, allowed ...string) string {
	text := r.str(name)
	if !slices.Contains(allowed, text) {
		r.errorf("%s is %q, must be one of %s", r.label(name), text, strings.Join(allowed, ", "))
	}
	return text
}

func (r *reader) list(name string) []string {
	var items []string
	for item := range strings.SplitSeq(r.str(name), ",") {
		if item = strings.TrimSpace(item); item != "" {
			items = append(items, item)
		}
	}
	return items
}

// token reads a secret that goes into a header: a space or a line break in it would fail
// every request. An error does not repeat it.
func (r *reader) token(name string) string {
	text := r.str(name)
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.errorf("%s must be visible ASCII characters", r.label(name))
	}
	return text
}

// minSecret is how long a secret must be that others could try to guess: 20 characters of
// a random one cannot be guessed, and nothing limits the attempts on a shorter one.
const minSecret = 20

// key reads a secret that someone else must know to be let in; empty if it is not set.
func (r *reader) key(name string) string {
	text := r.str(name)
	if text != "" && len(text) < minSecret {
		r.errorf("%s must have at least %d characters", r.label(name), minSecret)
	}
	return text
}

// address reads host:port; empty if it is not set and has no default.
func (r *reader) address(name string) string {
	text := r.str(name)
	if text == "" {
		return ""
	}
	_, port, err := net.SplitHostPort(text)
	if err == nil {
		_, err = strconv.ParseUint(port, 10, 16)
	}
	if err != nil {
		r.errorf("%s is %q, not an address such as 127.0.0.1:8080", r.label(name), text)
	}
	return text
}

// httpURL reads an absolute http or https URL; empty if it is not set. The URL may contain
// a secret, so an error does not repeat it.
func (r *reader) httpURL(name string) string {
	text := r.str(name)
	if text != "" && !isHTTPURL(text) {
		r.errorf("%s is not an http or https URL", r.label(name))
	}
	return text
}

func isHTTPURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Host != "" && (parsed.Scheme == "http" || parsed.Scheme == "https")
}

// databaseURL reads a Postgres URL; empty if it is not set. One that is set but empty is an
// error: whoever meant to name a database would get another one. It contains a password, so
// an error does not repeat it.
func (r *reader) databaseURL(name string) string {
	raw, set := r.env[name]
	text := strings.TrimSpace(raw)
	if path := r.env[name+fileSuffix]; path != "" {
		if text != "" {
			r.errorf("%s and %s cannot be combined", name, name+fileSuffix)
		}
		text, set = r.secretIn(path, name+fileSuffix), false
	}
	switch {
	case set && text == "":
		r.errorf("%s is set but empty: unset it, or name a database", name)
	case strings.HasPrefix(text, `"`) || strings.HasPrefix(text, "'"):
		r.errorf("%s is in quotes: remove them", name)
	case text != "":
		if _, err := pgxpool.ParseConfig(text); err != nil {
			r.errorf("%s is not a Postgres URL", name)
		}
	}
	return text
}
