package cli

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/procfs"

	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/index"
)

// storageMetrics are the metrics of the database and of the bucket.
type storageMetrics struct {
	database *prometheus.HistogramVec
	failures *prometheus.CounterVec
	bucket   *prometheus.HistogramVec
}

func newStorageMetrics() *storageMetrics {
	buckets := prometheus.ExponentialBuckets(0.0005, 4, 9) // 0.5 ms to 33 s
	m := &storageMetrics{
		database: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "airlock_database_duration_seconds", Buckets: buckets,
			Help: "Time of transactions and reads of the index, with their wait for a connection.",
		}, []string{"operation"}),
		failures: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "airlock_database_errors_total", Help: "Transactions and reads of the index that the database failed.",
		}, []string{"operation", "kind"}),
		bucket: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "airlock_bucket_request_duration_seconds", Buckets: buckets,
			Help: "Time until the bucket answered a request, by method and class of status; error: it did not answer.",
		}, []string{"method", "code_class"}),
	}
	for _, operation := range []string{index.Read, index.Write} { // a rate over a missing series is empty, not zero
		for _, kind := range databaseFailures {
			m.failures.WithLabelValues(operation, string(kind))
		}
	}
	return m
}

// databaseFailures are the kinds of errors that are the database's fault.
var databaseFailures = []engine.Kind{engine.ErrUnavailable, engine.ErrFull, engine.ErrInternal}

// observe counts a transaction or a read.
func (m *storageMetrics) observe(operation string, took time.Duration, err error) {
	m.database.WithLabelValues(operation).Observe(took.Seconds())
	if err == nil {
		return
	}
	for _, kind := range databaseFailures {
		if engine.KindOf(err) == kind {
			m.failures.WithLabelValues(operation, string(kind)).Inc()
		}
	}
}

// transport counts the requests to a bucket.
func (m *storageMetrics) transport(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		began := time.Now()
		answer, err := next.RoundTrip(r)
		class := "error"
		if err == nil {
			class = strconv.Itoa(answer.StatusCode/100) + "xx"
		}
		m.bucket.WithLabelValues(r.Method, class).Observe(time.Since(began).Seconds())
		return answer, err
	})
}

type roundTripper func(*http.Request) (*http.Response, error)

// RoundTrip implements http.RoundTripper.
func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// register adds the metrics of a service's storage.
func (s *storage) register(to *prometheus.Registry) {
	to.MustRegister(s.metrics.database, s.metrics.failures)
	if pool := s.index.Pool(); pool != nil {
		to.MustRegister(collectors.NewDBStatsCollector(pool, "index"))
	}
	if store, is := s.blobs.(*bucket.Store); is {
		to.MustRegister(s.metrics.bucket, cacheMetrics(store.CacheUse))
	}
}

// cacheMetrics are those of the cache of a bucket.
type cacheMetrics func() (hits, misses uint64)

var descCache = prometheus.NewDesc("airlock_bucket_cache_requests_total",
	"Files that were opened, by whether the cache of the bucket had them (hit or miss).", []string{"result"}, nil)

// Describe implements prometheus.Collector.
func (cacheMetrics) Describe(out chan<- *prometheus.Desc) { out <- descCache }

// Collect implements prometheus.Collector.
func (m cacheMetrics) Collect(out chan<- prometheus.Metric) {
	hits, misses := m()
	out <- prometheus.MustNewConstMetric(descCache, prometheus.CounterValue, float64(hits), "hit")
	out <- prometheus.MustNewConstMetric(descCache, prometheus.CounterValue, float64(misses), "miss")
}

// machineMemory returns the memory of this machine, and what of it new programs could have; zeros if it is not known.
func machineMemory() (size, available int64) {
	proc, err := procfs.NewDefaultFS()
	if err != nil {
		return 0, 0
	}
	info, err := proc.Meminfo()
	if err != nil || info.MemTotalBytes == nil || info.MemAvailableBytes == nil {
		return 0, 0
	}
	return int64(*info.MemTotalBytes), int64(*info.MemAvailableBytes)
}

// machineRoom returns what is free on the disk of the data directory, and of the memory; 0: it is not known.
func (a *app) machineRoom() (diskFree, memoryFree int64) {
	if room, err := disk.Look(a.Config.Data, a.Config.MinFree); err == nil {
		diskFree = room.Free
	}
	_, memoryFree = machineMemory()
	return diskFree, memoryFree
}

// countMachine adds the metrics of this machine and of this build.
func countMachine(to *prometheus.Registry, v versionReport) {
	gauge := func(name, help string, of func() float64) {
		to.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "airlock_" + name, Help: help}, of))
	}
	gauge("memory_size_bytes", "Memory of the machine.", func() float64 {
		size, _ := machineMemory()
		return float64(size)
	})
	gauge("memory_available_bytes", "Memory of the machine that new programs could have.", func() float64 {
		_, available := machineMemory()
		return float64(available)
	})
	build := prometheus.NewGaugeVec(prometheus.GaugeOpts{Name: "airlock_build_info", Help: "1, of the version that runs."},
		[]string{"version", "revision", "goversion"})
	build.WithLabelValues(v.Version, v.Revision, v.Go).Set(1)
	to.MustRegister(build)
}
