package main

import (
	"fmt"
	"io"
	"math"
	"strconv"
	"text/tabwriter"
)

// Print writes the report for a person.
func (r Report) Print(w io.Writer) error {
	fmt.Fprintf(w, "%s/%s, %d CPUs, %s, %s; median of %d rounds, %gs each under load\n",
		r.Machine.OS, r.Machine.Arch, r.Machine.CPUs, r.Machine.Go, r.Machine.Postgres, r.Settings.Rounds, r.Settings.Seconds)
	fmt.Fprintln(w, "In brackets: holdfast's value divided by the baseline's.")
	for _, f := range r.Figures {
		fmt.Fprintf(w, "\n%s (%s)\n", f.Title, f.Name)
		for _, c := range f.Cases {
			if err := c.print(w); err != nil {
				return err
			}
		}
	}
	return nil
}

func (c Case) print(w io.Writer) error {
	table := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintf(table, "%s\t", c.Name)
	for _, column := range c.Columns {
		fmt.Fprintf(table, "%s\t\t", column)
	}
	fmt.Fprintln(table)
	for _, s := range c.Subjects {
		fmt.Fprintf(table, "%s\t", s.Name)
		for _, column := range c.Columns {
			fmt.Fprintf(table, "%s\t%s\t", cell(s.Median, column), bracket(s.Ratio, column))
		}
		fmt.Fprintln(table)
	}
	if err := table.Flush(); err != nil {
		return fmt.Errorf("print figure: %w", err)
	}
	if c.Note != "" {
		fmt.Fprintf(w, "    %s\n", c.Note)
	}
	return nil
}

func cell(values Values, column string) string {
	value, ok := values[column]
	if !ok {
		return "-"
	}
	return number(value)
}

func bracket(ratio Values, column string) string {
	value, ok := ratio[column]
	if !ok {
		return ""
	}
	return "(" + strconv.FormatFloat(value, 'f', 2, 64) + ")"
}

// number shows about three digits that mean something.
func number(value float64) string {
	decimals := 0
	if size := math.Abs(value); size < 10 {
		decimals = 2
	} else if size < 100 {
		decimals = 1
	}
	return strconv.FormatFloat(value, 'f', decimals, 64)
}
