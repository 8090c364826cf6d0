package main

import (
	"maps"
	"slices"
	"time"
)

// Report is everything that one run measured.
type Report struct {
	StartedAt time.Time `json:"started_at"`
	Machine   Machine   `json:"machine"`
	Settings  Settings  `json:"settings"`
	Figures   []Figure  `json:"figures"`
}

// Machine is where it was measured.
type Machine struct {
	OS       string `json:"os"`
	Arch     string `json:"arch"`
	CPUs     int    `json:"cpus"`
	Go       string `json:"go"`
	Postgres string `json:"postgres"`
}

// Settings are how it was measured.
type Settings struct {
	Rounds   int     `json:"rounds"`
	Seconds  float64 `json:"seconds"`
	Accounts int     `json:"accounts"`
}

// Figure is one line of the table: the product beside its baseline, in each case.
type Figure struct {
	Name  string `json:"name"`
	Title string `json:"title"`
	Cases []Case `json:"cases"`
}

// Case is one condition under which all subjects were measured in turn.
type Case struct {
	Name string `json:"name"`
	// Columns are the values that every subject may have, in the order of print.
	Columns  []string  `json:"columns"`
	Subjects []Subject `json:"subjects"`
	Note     string    `json:"note,omitempty"`
}

// Subject is the product or a baseline.
type Subject struct {
	Name   string   `json:"name"`
	Median Values   `json:"median"`
	Rounds []Values `json:"rounds"`
	// Ratio is the first subject's value divided by this one's: the median of what each
	// round gave. Empty for the first subject itself.
	Ratio Values `json:"ratio,omitempty"`
}

// Values are what a measurement gave, by name; the name ends in the unit.
type Values map[string]float64

// summed makes a case of what each subject gave in each round.
func summed(name string, columns []string, names []string, rounds [][]Values) Case {
	c := Case{Name: name, Columns: columns}
	for i, subject := range names {
		s := Subject{Name: subject, Median: medians(rounds[i]), Rounds: rounds[i]}
		if i > 0 {
			s.Ratio = medians(ratios(rounds[0], rounds[i]))
		}
		c.Subjects = append(c.Subjects, s)
	}
	return c
}

// samples counts what a latency was taken of; it is no result, and has no ratio.
const samples = "samples"

// ratios pairs what was measured in the same round, so that a slow minute of the machine
// falls on both sides.
func ratios(ours, theirs []Values) []Values {
	var all []Values
	for i := range min(len(ours), len(theirs)) {
		ratio := Values{}
		for name, value := range ours[i] {
			if other := theirs[i][name]; other != 0 && name != samples {
				ratio[name] = value / other
			}
		}
		all = append(all, ratio)
	}
	return all
}

func medians(rounds []Values) Values {
	byName := map[string][]float64{}
	for _, values := range rounds {
		for name, value := range values {
			byName[name] = append(byName[name], value)
		}
	}
	result := Values{}
	for name := range maps.Keys(byName) {
		result[name] = median(byName[name])
	}
	return result
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	if len(sorted) == 0 {
		return 0
	}
	middle := len(sorted) / 2
	if len(sorted)%2 == 1 {
		return sorted[middle]
	}
	return (sorted[middle-1] + sorted[middle]) / 2
}

// percentile returns the value that p of the sorted ones do not exceed (nearest rank).
func percentile(sorted []time.Duration, p float64) time.Duration {
	if len(sorted) == 0 {
		return 0
	}
	return sorted[min(int(p*float64(len(sorted))), len(sorted)-1)]
}

// spread gives latencies their two columns.
func spread(latencies []time.Duration) Values {
	slices.Sort(latencies)
	return Values{
		"p50_ms": milliseconds(percentile(latencies, 0.50)),
		"p99_ms": milliseconds(percentile(latencies, 0.99)),
	}
}

func milliseconds(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
