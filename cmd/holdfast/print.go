package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
	"time"
)

// printJSON writes value for a program, on one line.
func printJSON(out io.Writer, value any) error {
	encoder := json.NewEncoder(out)
	encoder.SetEscapeHTML(false)
	return encoder.Encode(value)
}

// say writes what nobody is left to be told about when it cannot be written.
func say(out io.Writer, format string, args ...any) { _, _ = fmt.Fprintf(out, format, args...) }

// progress tells a person who waits what goes on; a program that reads stderr is spared it.
func (a *cli) progress(format string, args ...any) {
	if a.interactive {
		say(a.errOut, format+"\n", args...)
	}
}

// A table is for a person: aligned, a heading, one line a thing.
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
	say(t.w, "%s\n", strings.Join(cells, "\t")) // flush tells what went wrong
}

func (t table) flush() error { return t.w.Flush() }

// plain keeps what came from outside, such as a broker's code, from moving the
// terminal's cursor or breaking a line.
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
