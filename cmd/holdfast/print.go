package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes value as JSON on one line.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// say writes to out and ignores errors: there is no other place to report them.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// progress writes to stderr if it is a terminal: programs that read stderr do not need it.
func (a *cli) progress(format string, args ...any) {
	if a.interactive {
		say(a.errOut, format+"\n", args...)
	}
}

// A table prints aligned columns with a heading.
type table struct{ w *tabwriter.Writer }

func newTable(out io.Writer, heading ...string) table {
	t := table{tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)}
	t.row(heading...)
	return t
}

func (t table) row(cells ...string) {
	for i, cell := range cells {
		cells[i] = plain(cell)
	}
	say(t.w, "%s\n", strings.Join(cells, "\t")) // flush reports the error
}

func (t table) flush() error { return t.w.Flush() }

// plain replaces control characters in external text, such as a broker's code, so that it
// cannot move the terminal's cursor or break a line.
func plain(s string) string {
	return strings.Map(func(c rune) rune {
		if c < ' ' || c == 0x7f || (c >= 0x80 && c < 0xa0) {
			return ' '
		}
		return c
	}, s)
}

func orDash(s string) string {
	if s == "" {
		return "-"
	}
	return s
}

func moment(t *time.Time) string {
	if t == nil {
		return "-"
	}
	return t.Local().Format("2006-01-02 15:04:05")
}
