package config

import (
	"fmt"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"
)

// An Error names every setting that makes startup fail, in one line. It is a usage error.
type Error struct{ problems []string }

func (e *Error) Error() string { return "settings: " + strings.Join(e.problems, "; ") }

// A Lookup finds a variable of the environment.
type Lookup func(name string) (string, bool)

// A reader reads settings and gathers what is wrong with them, so that one start tells
// it all. An empty variable counts as not set: that is what compose files and unit
// files make of an absent value.
type reader struct {
	lookup   Lookup
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

// str returns a setting's value, or its fallback. Asking for one that the table does
// not have is a mistake of ours.
func (r *reader) str(name string) string {
	known, ok := settingNamed(name)
	if !ok {
		panic("setting " + name + " is not in the table")
	}
	if value, _ := r.lookup(name); strings.TrimSpace(value) != "" {
		return strings.TrimSpace(value)
	}
	return known.fallback
}

// duration reads a Go duration of at least least.
func (r *reader) duration(name string, least time.Duration) time.Duration {
	text := r.str(name)
	value, err := time.ParseDuration(text)
	switch {
	case err != nil:
		r.errorf("%s is %q, not a duration such as 30s or 5m", name, text)
	case value < least:
		r.errorf("%s is %s, must be at least %s", name, text, least)
	}
	return value
}

// integer reads a whole number between least and most.
func (r *reader) integer(name string, least, most int) int {
	text := r.str(name)
	value, err := strconv.Atoi(text)
	switch {
	case err != nil:
		r.errorf("%s is %q, not a whole number", name, text)
	case value < least || value > most:
		r.errorf("%s is %d, must be %d to %d", name, value, least, most)
	}
	return value
}

// number reads a decimal number for which ok holds; want says what that is.
func (r *reader) number(name, want string, ok func(float64) bool) float64 {
	text := r.str(name)
	value, err := strconv.ParseFloat(text, 64)
	if err != nil || !ok(value) {
		r.errorf("%s is %q, must be a number %s", name, text, want)
	}
	return value
}

func (r *reader) boolean(name string) bool {
	text := r.str(name)
	value, err := strconv.ParseBool(text)
	if err != nil {
		r.errorf("%s is %q, must be true or false", name, text)
	}
	return value
}

func (r *reader) choice(name string, allowed ...string) string {
	text := r.str(name)
	if !slices.Contains(allowed, text) {
		r.errorf("%s is %q, must be one of %s", name, text, strings.Join(allowed, ", "))
	}
	return text
}

// pattern reads a value of a form; empty if there is none.
func (r *reader) pattern(name string, form *regexp.Regexp, want string) string {
	text := r.str(name)
	if text != "" && !form.MatchString(text) {
		r.errorf("%s is %q, must be %s", name, text, want)
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

// token reads a secret that goes into a header: a space or a line's end in it would fail
// every request. A fault does not repeat it.
func (r *reader) token(name string) string {
	text := r.str(name)
	if strings.ContainsFunc(text, func(c rune) bool { return c <= ' ' || c > '~' }) {
		r.errorf("%s must be visible ASCII characters", name)
	}
	return text
}

// address reads host:port; empty where it may be and is.
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
		r.errorf("%s is %q, not an address such as 127.0.0.1:8080", name, text)
	}
	return text
}

// httpURL reads an absolute http or https URL; empty where it is not set. What it names
// may hold a secret, so a fault does not repeat it.
func (r *reader) httpURL(name string) string {
	text := r.str(name)
	if text != "" && !isHTTPURL(text) {
		r.errorf("%s is not an http or https URL", name)
	}
	return text
}

func isHTTPURL(text string) bool {
	parsed, err := url.Parse(text)
	return err == nil && parsed.Host != "" && (parsed.Scheme == "http" || parsed.Scheme == "https")
}

// database reads a Postgres URL; it holds a password, so a fault does not repeat it.
func (r *reader) database(name, text string) string {
	if text == "" {
		return ""
	}
	if _, err := pgxpool.ParseConfig(text); err != nil {
		r.errorf("%s is not a Postgres URL", name)
	}
	return text
}
