// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

// Formats are the forms in which Write writes a report.
var Formats = []string{"table", "json", "markdown"}

// Write writes the report as "table", "json" or "markdown".
func (r *Report) Write(w io.Writer, format string) error {
	switch format {
	case "json":
		enc := json.NewEncoder(w)
		enc.SetIndent("", "  ")
		return enc.Encode(r)
	case "markdown":
		_, err := io.WriteString(w, r.markdown())
		return err
	}
	return r.table(w)
}

func (r *Report) table(out io.Writer) error {
	w := tabwriter.NewWriter(out, 0, 4, 3, ' ', 0)
	_, _ = fmt.Fprintf(w, "%s (median of %s)\n%s\n", r.Benchmark, plural(r.Runs, "run"), r.Machine)
	if r.Data != nil {
		_, _ = fmt.Fprintf(w, "%s\n", r.Data)
	}
	for i, f := range r.Figures {
		if i == 0 || r.Figures[i-1].Group != f.Group {
			_, _ = fmt.Fprintf(w, "\n%s\n", strings.ToUpper(f.Group))
		}
		_, _ = fmt.Fprintf(w, "  %s\t%s\t%s\t%s\n", f.Name, f.value(), f.goal(), f.spread())
	}
	for _, note := range r.Notes {
		_, _ = fmt.Fprintf(w, "\n%s\n", note)
	}
	return w.Flush()
}

func (r *Report) markdown() string {
	var b strings.Builder
	fmt.Fprintf(&b, "## %s\n\n`%s`\n\n%s, %s. %s.\n", capital(r.Benchmark), r.Command, r.At.UTC().Format("2006-01-02 15:04 UTC"), plural(r.Runs, "run"), r.Machine)
	if r.Data != nil {
		fmt.Fprintf(&b, "%s.\n", capital(r.Data.String()))
	}
	for i, f := range r.Figures {
		if i == 0 || r.Figures[i-1].Group != f.Group {
			fmt.Fprintf(&b, "\n| %s | median | goal | runs |\n|---|--:|--:|--:|\n", f.Group)
		}
		fmt.Fprintf(&b, "| %s | %s | %s | %s |\n", f.Name, f.value(), f.goal(), f.spread())
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "\n%s\n", note)
	}
	return b.String()
}

// String is the machine in one line.
func (m Machine) String() string {
	parts := []string{}
	if m.CPU != "" {
		parts = append(parts, m.CPU)
	}
	parts = append(parts, plural(m.Cores, "core"))
	if m.MemoryBytes > 0 {
		parts = append(parts, fmt.Sprintf("%.0f GiB", float64(m.MemoryBytes)/(1<<30)))
	}
	if m.Kernel != "" {
		parts = append(parts, "kernel "+m.Kernel)
	}
	parts = append(parts, m.Go+" "+m.System)
	if m.Commit != "" {
		parts = append(parts, "commit "+m.Commit)
	}
	return strings.Join(append(parts, fmt.Sprintf("load %.2f before", m.Load)), ", ")
}

// String is the data in one line.
func (d Data) String() string {
	return fmt.Sprintf("%s of %.0f bytes on average; zstd-3 makes them %.1f times smaller; %s",
		plural(d.Objects, "Deployment"), d.MeanBytes, d.ZstdRatio, d.Source)
}

func (f Figure) value() string { return strings.TrimSpace(number(f.Value) + " " + f.Unit) }

func (f Figure) goal() string {
	if f.Goal == nil {
		return ""
	}
	word := "missed"
	if *f.Met {
		word = "met"
	}
	return fmt.Sprintf("%s %s: %s", f.Goal.Relation, number(f.Goal.Limit), word)
}

// spread shows the least and the greatest of several runs.
func (f Figure) spread() string {
	if len(f.Values) < 2 {
		return ""
	}
	return number(slices.Min(f.Values)) + " – " + number(slices.Max(f.Values))
}

// number writes a number for people: 12,345 or 12.3.
func number(v float64) string {
	text := strconv.FormatFloat(v, 'f', -1, 64)
	whole, fraction, _ := strings.Cut(text, ".")
	start := 0
	if strings.HasPrefix(whole, "-") {
		start = 1
	}
	for i := len(whole) - 3; i > start; i -= 3 {
		whole = whole[:i] + "," + whole[i:]
	}
	if fraction != "" {
		whole += "." + fraction
	}
	return whole
}

func plural(n int, noun string) string {
	if n != 1 {
		noun += "s"
	}
	return number(float64(n)) + " " + noun
}

func capital(s string) string { return strings.ToUpper(s[:1]) + s[1:] }
