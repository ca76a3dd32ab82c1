// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"slices"
	"time"
)

// Report is the outcome of one benchmark.
type Report struct {
	// Benchmark is its name with what makes it another one: "latency 10/s, stub".
	Benchmark string    `json:"benchmark"`
	Command   string    `json:"command"`
	At        time.Time `json:"at"`
	Machine   Machine   `json:"machine"`
	Data      *Data     `json:"data,omitempty"`
	Runs      int       `json:"runs"`
	Figures   []Figure  `json:"figures"`
	Notes     []string  `json:"notes,omitempty"`
}

// Figure is one measured number: the median of the runs, and each of them.
type Figure struct {
	Group  string    `json:"group"`
	Name   string    `json:"name"`
	Value  float64   `json:"value"`
	Unit   string    `json:"unit"`
	Values []float64 `json:"values"`
	Goal   *Goal     `json:"goal,omitempty"`
	Met    *bool     `json:"met,omitempty"`
}

// Goal is what a figure should be: at least or at most the limit, or below it.
type Goal struct {
	Relation string  `json:"relation"` // "≥", "≤" or "<"
	Limit    float64 `json:"limit"`
}

func atLeast(limit float64) *Goal { return &Goal{"≥", limit} }
func atMost(limit float64) *Goal  { return &Goal{"≤", limit} }
func below(limit float64) *Goal   { return &Goal{"<", limit} }

func (g Goal) met(value float64) bool {
	switch g.Relation {
	case "≥":
		return value >= g.Limit
	case "≤":
		return value <= g.Limit
	}
	return value < g.Limit
}

// figure finds one; false if there is none of that name.
func (r *Report) figure(group, name string) (Figure, bool) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Group == group && f.Name == name })
	if i < 0 {
		return Figure{}, false
	}
	return r.Figures[i], true
}

// add notes the value of one run. Groups, and the figures in
// them, stand in the order of their first value.
func (r *Report) add(group, name, unit string, value float64, goal *Goal) {
	i := slices.IndexFunc(r.Figures, func(f Figure) bool { return f.Group == group && f.Name == name })
	if i < 0 {
		i = len(r.Figures)
		for i > 0 && r.Figures[i-1].Group != group && slices.ContainsFunc(r.Figures[:i], func(f Figure) bool { return f.Group == group }) {
			i-- // behind the last one of its group
		}
		r.Figures = slices.Insert(r.Figures, i, Figure{Group: group, Name: name, Unit: unit, Goal: goal})
	}
	f := &r.Figures[i]
	f.Values = append(f.Values, rounded(value))
	f.Value = rounded(median(f.Values))
	if f.Goal != nil {
		met := f.Goal.met(f.Value)
		f.Met = &met
	}
}

// rounded keeps four digits, more than a benchmark can know.
func rounded(v float64) float64 {
	if v == 0 || math.IsInf(v, 0) || math.IsNaN(v) {
		return 0
	}
	if math.Abs(v) >= 1000 {
		return math.Round(v)
	}
	scale := math.Pow(10, 3-math.Floor(math.Log10(math.Abs(v))))
	return math.Round(v*scale) / scale
}
