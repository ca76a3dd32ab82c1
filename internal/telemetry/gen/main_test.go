// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"
	"sigs.k8s.io/yaml"

	"synchronizer"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestPagesAreFresh: metrics that are registered, reasons and alerts are those of the
// pages.
func TestPagesAreFresh(t *testing.T) {
	all, err := pages()
	require.NoError(t, err)
	require.Len(t, all, 3)
	for name, want := range all {
		text, err := os.ReadFile(filepath.Join("..", "..", "..", filepath.FromSlash(name)))
		require.NoError(t, err)
		require.Equal(t, want, string(text), "%s is stale: run make generate", name)
	}
}

var (
	series  = regexp.MustCompile(`(synchronizer_[a-z_]+)(?:\{([^}]*)\})?`)
	matcher = regexp.MustCompile(`([a-z_]+)\s*(=~|!=|!~|=)\s*"([^"]*)"`)
	grouped = regexp.MustCompile(`\bby \(([^)]*)\)`)
)

// TestAlertsAreAboutMetrics that exist, with labels that they have, and values that
// there can be.
func TestAlertsAreAboutMetrics(t *testing.T) {
	registered, err := inventory()
	require.NoError(t, err)
	metrics := map[string]metric{}
	for _, m := range registered {
		metrics[m.Name] = m
		if m.Type == "histogram" {
			for _, suffix := range []string{"_bucket", "_sum", "_count"} {
				m.Labels = append(slices.Clone(m.Labels), "le")
				metrics[m.Name+suffix] = m
			}
		}
	}
	reasons := map[string]bool{}
	for _, r := range synchronizer.DropReasons {
		reasons[string(r.Reason)] = true
	}
	about := map[string]bool{}
	for _, a := range alerts {
		used := series.FindAllStringSubmatch(a.Expr, -1)
		require.NotEmpty(t, used, a.Name)
		var labels []string
		for _, s := range used {
			m, known := metrics[s[1]]
			require.True(t, known, "%s: nobody registers %s", a.Name, s[1])
			labels = append(labels, m.Labels...)
			for _, match := range matcher.FindAllStringSubmatch(s[2], -1) {
				require.Contains(t, m.Labels, match[1], "%s: %s has no such label", a.Name, s[1])
				if s[1] != "synchronizer_drops_total" {
					continue
				}
				for reason := range strings.SplitSeq(match[3], "|") {
					require.True(t, reasons[reason], "%s: there is no reason %q", a.Name, reason)
					require.False(t, about[reason], "%s: %s has two alerts", a.Name, reason)
					about[reason] = true
				}
			}
		}
		for _, by := range grouped.FindAllStringSubmatch(a.Expr, -1) {
			for label := range strings.SplitSeq(by[1], ", ") {
				require.Contains(t, append(labels, "instance"), label, a.Name)
			}
		}
		for _, pair := range []string{"()", "{}", "[]", `""`} {
			require.Equal(t, 0, (strings.Count(a.Expr, pair[:1])-strings.Count(a.Expr, pair[1:]))%2, a.Name)
		}
		require.NotRegexp(t, `(rate|increase)\(.*\) == 0`, a.Expr, "%s: what has counted nothing yet has no series; write unless", a.Name)
		require.Contains(t, []string{"critical", "warning", "info"}, a.Severity, a.Name)
		require.NotEmpty(t, a.Summary, a.Name)
		require.Greater(t, len(a.Do), 60, "%s: what is to be done", a.Name)
	}
	for _, reason := range harmless {
		require.True(t, reasons[reason], reason)
		require.False(t, about[reason], reason)
		about[reason] = true
	}
	require.Equal(t, reasons, about, "each reason for a drop has an alert, or is harmless")
}

// TestRulesAreRead by Prometheus: the file has its form.
func TestRulesAreRead(t *testing.T) {
	var file struct {
		Groups []struct {
			Name  string `json:"name"`
			Rules []struct {
				Alert       string            `json:"alert"`
				Expr        string            `json:"expr"`
				For         string            `json:"for"`
				Labels      map[string]string `json:"labels"`
				Annotations map[string]string `json:"annotations"`
			} `json:"rules"`
		} `json:"groups"`
	}
	require.NoError(t, yaml.UnmarshalStrict([]byte(rules()), &file))
	require.Len(t, file.Groups, 1)
	require.Len(t, file.Groups[0].Rules, len(alerts))
	for i, r := range file.Groups[0].Rules {
		require.Equal(t, alerts[i].Name, r.Alert)
		require.Equal(t, alerts[i].Expr, r.Expr)
		require.Equal(t, alerts[i].Severity, r.Labels["severity"])
		require.Contains(t, r.Annotations["summary"], alerts[i].Summary)
	}
}
