// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"fmt"
	"net/http"

	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"
)

// metrics is what a process tells on /metrics, by name.
type metrics map[string]*dto.MetricFamily

// scrape reads the metrics of a health address.
func scrape(ctx context.Context, client *http.Client, address string) (metrics, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, "http://"+address+"/metrics", nil)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	resp, err := client.Do(req)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	defer func() { _ = resp.Body.Close() }()
	parser := expfmt.NewTextParser(model.UTF8Validation)
	families, err := parser.TextToMetricFamilies(resp.Body)
	if err != nil {
		return nil, fmt.Errorf("reading metrics: %w", err)
	}
	return families, nil
}

// sum adds up the samples of a counter, gauge or histogram (its count) that have
// the labels, given as name, value, name, value.
func (m metrics) sum(name string, labels ...string) float64 {
	total := 0.0
	for _, sample := range m[name].GetMetric() {
		if hasLabels(sample, labels) {
			total += sample.GetCounter().GetValue() + sample.GetGauge().GetValue() + float64(sample.GetHistogram().GetSampleCount())
		}
	}
	return total
}

func hasLabels(sample *dto.Metric, labels []string) bool {
	for i := 0; i+1 < len(labels); i += 2 {
		found := false
		for _, l := range sample.GetLabel() {
			found = found || l.GetName() == labels[i] && l.GetValue() == labels[i+1]
		}
		if !found {
			return false
		}
	}
	return true
}

// byLabel sums a metric for each value of one label, of those samples that have
// the other labels.
func (m metrics) byLabel(name, label string, labels ...string) map[string]float64 {
	sums := map[string]float64{}
	for _, sample := range m[name].GetMetric() {
		for _, l := range sample.GetLabel() {
			if l.GetName() == label && hasLabels(sample, labels) {
				sums[l.GetValue()] += sample.GetCounter().GetValue() + sample.GetGauge().GetValue()
			}
		}
	}
	return sums
}
