// Package metric has the families of metrics that the collectors share.
package metric

import (
	"strings"

	"github.com/prometheus/client_golang/prometheus"
)

// Metric is a metric that is read from a T.
type Metric[T any] struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(*T) float64
}

// Describe returns the description of a metric, whose name begins with "dpb_", with the label "bandit" and these.
func Describe(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("dpb_"+name, help, append([]string{"bandit"}, labels...), nil)
}

// Count returns a counter, whose name ends with "_total".
func Count[T any](name, help string, value func(*T) uint64) Metric[T] {
	read := func(of *T) float64 { return float64(value(of)) }
	return Metric[T]{Describe(name+"_total", help), prometheus.CounterValue, read}
}

// Gauge returns a gauge.
func Gauge[T any](name, help string, value func(*T) float64, labels ...string) Metric[T] {
	return Metric[T]{Describe(name, help, labels...), prometheus.GaugeValue, value}
}

// One returns 1 for true.
func One(yes bool) float64 {
	if yes {
		return 1
	}
	return 0
}

// Names returns a copy whose keys are valid labels.
func Names[T any](named map[string]T) map[string]T {
	valid := map[string]T{}
	for name, value := range named {
		valid[strings.ToValidUTF8(name, "\uFFFD")] = value
	}
	return valid
}

// Descriptions sends the descriptions of these metrics.
func Descriptions[T any](to chan<- *prometheus.Desc, metrics []Metric[T]) {
	for _, metric := range metrics {
		to <- metric.desc
	}
}

// Collect reads these metrics.
func Collect[T any](to chan<- prometheus.Metric, metrics []Metric[T], of *T, labels ...string) {
	for _, metric := range metrics {
		to <- prometheus.MustNewConstMetric(metric.desc, metric.kind, metric.value(of), labels...)
	}
}
