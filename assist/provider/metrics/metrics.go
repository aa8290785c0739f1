// Package metrics exports the [provider.Counters] of one or more processes to Prometheus.
package metrics

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/airlock-run/airlock/assist/provider"
)

// Source returns the counts, by provider and model.
type Source func(ctx context.Context) ([]provider.Counts, error)

// Collector reads the source at each scrape.
type Collector struct {
	source Source
	most   int
}

var _ prometheus.Collector = (*Collector)(nil)

// maxRows bounds the labels: callers choose the names of models.
const maxRows = 100

// scrapeTime bounds how long a scrape waits for the source.
const scrapeTime = 5 * time.Second

// New returns a collector for registration. It sums the rows beyond the first hundred under
// the model "other".
func New(source Source) *Collector { return &Collector{source, maxRows} }

// Counting returns the Source of the counters of this process.
func Counting(c *provider.Counters) Source {
	return func(context.Context) ([]provider.Counts, error) { return c.Snapshot(), nil }
}

// metric is a metric of a row.
type metric struct {
	desc *prometheus.Desc
	of   func(provider.Counts) float64
}

func desc(name, help string, more ...string) *prometheus.Desc {
	return prometheus.NewDesc("airlock_provider_"+name, help, append([]string{"provider", "model"}, more...), nil)
}

var filesDesc = desc(
	"files_total", "Files that code made and that were fetched, by the best reason to believe in them.", "evidence")

func count(n int64) float64 { return float64(n) }

var metrics = []metric{
	{desc("turns_total", "Turns asked of a model."), func(c provider.Counts) float64 { return count(c.Turns) }},
	{desc("turn_errors_total", "Turns that ended with an error."),
		func(c provider.Counts) float64 { return count(c.TurnErrors) }},
	{desc("turn_seconds_total", "Time that turns took."), func(c provider.Counts) float64 { return c.TurnTime.Seconds() }},
	{desc("uploads_total", "Files sent."), func(c provider.Counts) float64 { return count(c.Uploads) }},
	{desc("upload_seconds_total", "Time that uploads took."),
		func(c provider.Counts) float64 { return c.UploadTime.Seconds() }},
	{desc("downloads_total", "Files fetched."), func(c provider.Counts) float64 { return count(c.Downloads) }},
	{desc("download_seconds_total", "Time that downloads took, of which several go on at once."),
		func(c provider.Counts) float64 { return c.DownloadTime.Seconds() }},
	{desc("download_bytes_total", "Bytes fetched."), func(c provider.Counts) float64 { return count(c.Bytes) }},
	{desc("downloads_retried_total", "Attempts to fetch a file after the first."),
		func(c provider.Counts) float64 { return count(c.DownloadsRetried) }},
	{desc("downloads_failed_total", "Files that were found and could not be fetched."),
		func(c provider.Counts) float64 { return count(c.Failures) }},
	{desc("files_missing_total", "Files that an answer promised and that were found nowhere."),
		func(c provider.Counts) float64 { return count(c.Missing) }},
	{desc("retries_total", "Calls repeated, downloads among them."),
		func(c provider.Counts) float64 { return count(c.Retries) }},
	{desc("expiries_recovered_total", "Expired sessions that were replaced."),
		func(c provider.Counts) float64 { return count(c.Recoveries) }},
}

// Describe implements prometheus.Collector.
func (c *Collector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range metrics {
		out <- m.desc
	}
	out <- filesDesc
}

// Collect implements prometheus.Collector.
func (c *Collector) Collect(out chan<- prometheus.Metric) {
	ctx, cancel := context.WithTimeout(context.Background(), scrapeTime)
	defer cancel()
	rows, err := c.source(ctx)
	if err != nil {
		out <- prometheus.NewInvalidMetric(filesDesc, err)
		return
	}
	for _, row := range bounded(rows, c.most) {
		for _, m := range metrics {
			out <- prometheus.MustNewConstMetric(m.desc, prometheus.CounterValue, m.of(row), row.Provider, row.Model)
		}
		for evidence, n := range row.Files {
			out <- prometheus.MustNewConstMetric(filesDesc, prometheus.CounterValue, count(n), row.Provider, row.Model,
				string(evidence))
		}
	}
}

// bounded sums the rows beyond the most for each provider.
func bounded(rows []provider.Counts, most int) []provider.Counts {
	if len(rows) <= most {
		return rows
	}
	kept := append([]provider.Counts(nil), rows[:most]...)
	others := map[string]int{}
	for _, row := range rows[most:] {
		i, ok := others[row.Provider]
		if !ok {
			i = len(kept)
			others[row.Provider] = i
			kept = append(kept, provider.Counts{Provider: row.Provider, Model: "other"})
		}
		kept[i].Add(row)
	}
	return kept
}
