package main

import (
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"
)

// Options say what is measured, and how thoroughly.
type Options struct {
	// Program is the holdfast binary that is measured; Self is this one, which runs the
	// baselines as processes of their own.
	Program, Self string
	// Environ is what children inherit beside what the bench sets.
	Environ []string
	// Figures names what to measure; empty is all.
	Figures []string
	// Rounds is how often each subject of a figure is measured.
	Rounds int
	// Duration is how long one measurement under load takes.
	Duration time.Duration
	// Clients are the levels of the main figure; Busy is the level of the others.
	Clients []int
	Busy    int
	// Accounts is over how many accounts, each with a key of its own, purchases spread.
	Accounts int
	// History is how many purchases a history has.
	History int
	// Due is how many UNKNOWN purchases fall due at once.
	Due int
	// Streams is how many subscribers are open at once.
	Streams int
	// Interrupted is how many purchases are in progress when the process is killed.
	Interrupted int
	// BrokerTimeout is the product's there; the grace is a second more. It is short, so
	// that a round does not take the minute that the defaults would.
	BrokerTimeout time.Duration
	// DueLead is how long filling the table and starting take at most, before all is due.
	DueLead time.Duration
	// Profile is a folder that gets the server's CPU and allocation profiles; empty: none.
	Profile string
	// Progress is told what goes on.
	Progress io.Writer
}

// Full is what the figures are defined with.
func Full() Options {
	return Options{
		Rounds: 3, Duration: 5 * time.Second, Clients: []int{1, 8, 32, 64}, Busy: 32, Accounts: 10_000,
		History: 5_000_000, Due: 20_000, Streams: 10_000, Interrupted: 1000,
		BrokerTimeout: 10 * time.Second, DueLead: 15 * time.Second, Progress: io.Discard,
	}
}

// Quick shows in seconds that everything is measured at all; its numbers say nothing.
func Quick() Options {
	return Options{
		Rounds: 1, Duration: 200 * time.Millisecond, Clients: []int{1, 8}, Busy: 8, Accounts: 100,
		History: 2000, Due: 200, Streams: 50, Interrupted: 20,
		BrokerTimeout: 2 * time.Second, DueLead: 4 * time.Second, Progress: io.Discard,
	}
}

// figure is one line of the bench's table.
type figure struct {
	name    string
	title   string
	measure func(*env) ([]Case, error)
}

// figures in the order in which they are measured. The history comes late because its
// rows fill the machine's memory.
func figures() []figure {
	return []figure{
		{"purchases", "Purchases over HTTP, everything on", (*env).purchases},
		{"account", "All purchases on one account", (*env).account},
		{"events", "Streams open and NOTIFY on", (*env).events},
		{"latency", "From an outcome's commit to a subscriber's byte", (*env).latency},
		{"cost", "What a purchase costs", (*env).cost},
		{"passes", "UNKNOWN purchases that fall due at once", (*env).passes},
		{"streams", "Many subscribers", (*env).streams},
		{"crash", "Purchases interrupted by kill -9", (*env).crash},
		{"history", "On a long history", (*env).history},
	}
}

// figureNames lists the figures.
func figureNames() []string {
	var names []string
	for _, f := range figures() {
		names = append(names, f.name)
	}
	return names
}

func (o Options) chosen() []figure {
	all := figures()
	if len(o.Figures) == 0 {
		return all
	}
	return slices.DeleteFunc(all, func(f figure) bool { return !slices.Contains(o.Figures, f.name) })
}

// Check says what is wrong with the options.
func (o Options) Check() error {
	for _, name := range o.Figures {
		if !slices.Contains(figureNames(), name) {
			return fmt.Errorf("no figure is called %q; there are %s", name, strings.Join(figureNames(), ", "))
		}
	}
	counts := []int{o.Rounds, o.Busy, o.Accounts, o.History, o.Due, o.Streams, o.Interrupted}
	if slices.Min(append(counts, o.Clients...)) < 1 || min(o.Duration, o.BrokerTimeout, o.DueLead) <= 0 {
		return errors.New("every count and duration must be above 0")
	}
	return nil
}
