// SPDX-License-Identifier: Apache-2.0

package main

import (
	_ "embed"
	"fmt"
	"strings"

	"synchronizer"
)

//go:embed telemetry.md.tmpl
var telemetryPage string

// telemetry is docs/telemetry.md: the text of the template with the tables in it.
func telemetry() (string, error) {
	metrics, err := inventory()
	if err != nil {
		return "", fmt.Errorf("listing metrics: %w", err)
	}
	var table, drops, what strings.Builder
	for _, m := range metrics {
		labels := make([]string, len(m.Labels))
		for i, l := range m.Labels {
			labels[i] = "`" + l + "`"
		}
		fmt.Fprintf(&table, "| %s | `%s` | %s | %s | %s |\n", m.Of, m.Name, m.Type, strings.Join(labels, ", "), strings.TrimSuffix(m.Help, "."))
	}
	for _, r := range synchronizer.DropReasons {
		fmt.Fprintf(&drops, "| `%s` | %s | %s |\n", r.Reason, r.Where, r.Means)
	}
	for _, a := range alerts {
		wait := "at once"
		if a.For != "" {
			wait = "after " + a.For
		}
		fmt.Fprintf(&what, "| **%s**<br>%s, %s | %s |\n", a.Name, a.Severity, wait, a.Do)
	}
	_, yaml, _ := strings.Cut(rules(), "groups:")
	page := telemetryPage
	for mark, text := range map[string]string{
		"{{metrics}}\n": table.String(), "{{drops}}\n": drops.String(), "{{alerts}}\n": what.String(), "{{rules}}\n": "groups:" + yaml,
	} {
		if strings.Count(page, mark) != 1 {
			return "", fmt.Errorf("the template must have %q once", mark)
		}
		page = strings.Replace(page, mark, text, 1)
	}
	return page, nil
}
