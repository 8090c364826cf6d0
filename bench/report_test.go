package main

import (
	"bytes"
	"strings"
	"testing"
	"time"
)

func TestMedian(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		of   []float64
		want float64
	}{
		"None":     {nil, 0},
		"Odd":      {[]float64{9, 1, 5}, 5},
		"Even":     {[]float64{4, 1, 2, 9}, 3},
		"OneOdder": {[]float64{1, 1000, 2}, 2},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := median(c.of); got != c.want {
				t.Errorf("median of %v is %g, want %g", c.of, got, c.want)
			}
		})
	}
}

func TestPercentiles(t *testing.T) {
	t.Parallel()
	latencies := make([]time.Duration, 0, 100)
	for i := 100; i > 0; i-- {
		latencies = append(latencies, time.Duration(i)*time.Millisecond)
	}
	got := spread(latencies)
	if got["p50_ms"] != 51 || got["p99_ms"] != 100 {
		t.Errorf("spread is %v", got)
	}
	if none := spread(nil); none["p99_ms"] != 0 {
		t.Errorf("spread of nothing is %v", none)
	}
}

// A ratio pairs what was measured in the same round: a machine that grew slow between
// two rounds must not show in it.
func TestRatioIsOfTheSameRound(t *testing.T) {
	t.Parallel()
	c := summed("case", []string{"per_second"}, []string{"ours", "theirs"}, [][]Values{
		{{"per_second": 100}, {"per_second": 10}, {"per_second": 50}},
		{{"per_second": 200}, {"per_second": 20}, {"per_second": 400}},
	})
	if got := c.Subjects[1].Ratio["per_second"]; got != 0.5 {
		t.Errorf("ratio %g, want 0.5", got)
	}
	if c.Subjects[0].Ratio != nil || c.Subjects[0].Median["per_second"] != 50 {
		t.Errorf("first subject %+v", c.Subjects[0])
	}
}

func TestPrint(t *testing.T) {
	t.Parallel()
	c := summed("8 clients", throughput, []string{"holdfast", "baseline"}, [][]Values{
		{{"per_second": 812.4, "p50_ms": 9.66}}, {{"per_second": 1624.8}},
	})
	var out bytes.Buffer
	if err := (Report{Figures: []Figure{{Name: "purchases", Title: "Purchases", Cases: []Case{c}}}}).Print(&out); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"Purchases (purchases)", "812", "9.66", "1625", "(0.50)"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, out.String())
		}
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"Full":          {func(*Options) {}, ""},
		"KnownFigure":   {func(o *Options) { o.Figures = []string{"crash"} }, ""},
		"UnknownFigure": {func(o *Options) { o.Figures = []string{"speed"} }, `"speed"`},
		"NoRounds":      {func(o *Options) { o.Rounds = 0 }, "above 0"},
		"NoClients":     {func(o *Options) { o.Clients = []int{1, 0} }, "above 0"},
		"NoTime":        {func(o *Options) { o.Duration = 0 }, "above 0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			o := Full()
			c.change(&o)
			err := o.Check()
			if (err == nil) != (c.want == "") || (err != nil && !strings.Contains(err.Error(), c.want)) {
				t.Errorf("error %v, want %q", err, c.want)
			}
		})
	}
}
