package httpd

import (
	"cmp"
	"context"
	"net/http"
	"regexp"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/airlock-run/airlock/internal/engine"
)

// Metrics is the one registry of the service. Labels are routes, methods and
// codes: never an address, a name or a key that a caller chose.
type Metrics struct {
	Registry *prometheus.Registry // for a dialect that adds metrics of its own

	requests *prometheus.CounterVec
	streams  *prometheus.CounterVec
	seconds  *prometheus.HistogramVec
	refused  *prometheus.CounterVec
}

// liveHeap is the memory in use after the last garbage collection. It shows leaks, because
// unlike the size of the heap it does not depend on the time of collections.
var liveHeap = collectors.GoRuntimeMetricsRule{Matcher: regexp.MustCompile(`^/gc/heap/live:bytes$`)}

// NewMetrics returns a registry with the metrics of the engine, of HTTP, of Go
// and of this process.
func NewMetrics(e Engine) *Metrics {
	m := &Metrics{
		Registry: prometheus.NewRegistry(),
		requests: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "airlock_http_requests_total", Help: "Requests answered, by protocol, route and status code.",
		}, []string{"protocol", "route", "method", "code"}),
		streams: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "airlock_http_streams_total", Help: "Answers that were streams: events, terminals, kernels, downloads of " +
				"unknown length. They are no part of the durations.",
		}, []string{"protocol"}),
		seconds: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "airlock_http_request_duration_seconds",
			Help: "Time from a request's header to the end of its answer, without streams; with what it waited for, such as " +
				"a program.",
			Buckets: prometheus.ExponentialBuckets(0.001, 4, 10), // 1 ms to 4 min
		}, []string{"protocol", "method", "code_class"}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "airlock_http_refused_total", Help: "Requests that did not get to a handler, by reason.",
		}, []string{"reason"}),
	}
	m.Registry.MustRegister(m.requests, m.streams, m.seconds, m.refused, engineCollector{e},
		collectors.NewGoCollector(collectors.WithGoCollectorRuntimeMetrics(liveHeap)),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
	return m
}

// Handler answers a scrape. Dialects with a metrics address of their own serve it too. The
// metrics are about all owners, so that a key must be an admin's.
func (m *Metrics) Handler() http.Handler {
	scrape := promhttp.HandlerFor(m.Registry, promhttp.HandlerOpts{MaxRequestsInFlight: 4})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if c := Caller(r); !c.Admin && (c.Owner != engine.Local || c.Key != "") {
			refuse(w, r, http.StatusForbidden, "forbidden", "the metrics are about all owners: this needs an admin key")
			return
		}
		scrape.ServeHTTP(w, r)
	})
}

// count counts each request under the route that answered it.
func (m *Metrics) count(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := time.Now()
		v := &response{ResponseWriter: w, control: http.NewResponseController(w)}
		defer func() {
			protocol := v.protocol()
			// Without a status the handler panicked or the client disconnected.
			m.requests.WithLabelValues(protocol, v.name(), method(r.Method), code(v.status)).Inc()
			if v.refused != "" && v.route == "" {
				m.refused.WithLabelValues(v.refused).Inc()
			}
			if v.stream || v.status == http.StatusSwitchingProtocols {
				m.streams.WithLabelValues(protocol).Inc()
				return
			}
			m.seconds.WithLabelValues(protocol, method(r.Method), class(v.status)).Observe(time.Since(start).Seconds())
		}()
		next.ServeHTTP(v, r)
	})
}

func method(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodPatch, http.MethodDelete,
		http.MethodOptions:
		return m
	}
	return "other"
}

func code(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status)
}

// class returns the class of a status: "2xx".
func class(status int) string {
	if status == 0 {
		return "none"
	}
	return strconv.Itoa(status/100) + "xx"
}

// engineCollector reads the counters of the engine at each scrape.
type engineCollector struct{ engine Engine }

var (
	descRuns = desc("runs_total", "Runs that ended, by final status, without interpreters that end with their sessions.",
		"status")
	descRunning  = desc("runs_running", "Runs that go on, those that rest included.")
	descResting  = desc("runs_resting", "Runs that go on and wait for something, so that they need no slot.")
	descQueued   = desc("runs_queued", "Runs that wait for a slot.")
	descRejected = desc("runs_rejected_total", "Runs that were refused or given up before they began, by reason.",
		"reason")
	descPrograms = desc("programs_total", "Programs that ran and ended, interpreters included, by protocol, language and "+
		"packages; start is warm if an interpreter waited for it.", "protocol", "language", "set", "start")
	descCPU      = desc("programs_cpu_seconds_total", "Processor time of programs that ended.")
	descTakeover = desc("session_takeovers_total", "Sessions that this node took over from another one, by kind.", "kind")
	descTotal    = desc("disk_size_bytes", "Size of the disk of the data directory.")
	descFloor    = desc("disk_min_free_bytes", "Room below which uploads and runs are refused (min_free).")
	descWait     = desc("run_queue_wait_seconds", "How long runs waited for a slot.")
	descDuration = desc("run_duration_seconds", "How long programs ran that are no interpreters of live sessions.")
	descFree     = desc("disk_free_bytes", "Room on the disk of the data directory.")
	descLow      = desc("disk_low", "1 while uploads and runs are refused for want of room on the disk.")
	descCold     = desc("pool_cold", "1 while programs start cold because the interpreter of their pool does not start.",
		"pool")
)

func desc(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc("airlock_"+name, help, labels, nil)
}

// Describe implements prometheus.Collector.
func (c engineCollector) Describe(out chan<- *prometheus.Desc) {
	prometheus.DescribeByCollect(c, out)
}

var finalStatuses = []engine.Status{
	engine.StatusOK, engine.StatusError, engine.StatusTimeout, engine.StatusKilled,
	engine.StatusOOM, engine.StatusCancelled, engine.StatusInterrupted,
}

// refusedRuns are the reasons of refused runs: those of engine.Refusal, and the kinds of errors.
var refusedRuns = []engine.Refusal{
	engine.RefusedQueue, engine.RefusedOwner, engine.RefusedWait, engine.RefusedInFlight, engine.RefusedDisk,
	engine.RefusedQuota, engine.RefusedDrain, engine.RefusedDatabase,
	engine.Refusal(engine.ErrInvalid), engine.Refusal(engine.ErrUnauthorized), engine.Refusal(engine.ErrForbidden),
	engine.Refusal(engine.ErrNotFound), engine.Refusal(engine.ErrConflict), engine.Refusal(engine.ErrTooLarge),
	engine.Refusal(engine.ErrBusy), engine.Refusal(engine.ErrFull), engine.Refusal(engine.ErrSpent),
	engine.Refusal(engine.ErrNoLanguage),
	engine.Refusal(engine.ErrUnavailable), engine.Refusal(engine.ErrCanceled), engine.Refusal(engine.ErrNetwork),
	engine.Refusal(engine.ErrInternal),
}

// Collect implements prometheus.Collector.
func (c engineCollector) Collect(out chan<- prometheus.Metric) {
	stats := c.engine.Stats()
	gauge, counter := prometheus.GaugeValue, prometheus.CounterValue
	for _, status := range finalStatuses {
		out <- prometheus.MustNewConstMetric(descRuns, counter, float64(stats.Runs[status]), string(status))
	}
	out <- prometheus.MustNewConstMetric(descRunning, gauge, float64(stats.Running))
	out <- prometheus.MustNewConstMetric(descResting, gauge, float64(stats.Resting))
	out <- prometheus.MustNewConstMetric(descQueued, gauge, float64(stats.Queued))
	out <- prometheus.MustNewConstMetric(descCPU, counter, stats.CPU.Seconds())
	for _, reason := range refusedRuns { // a rate over a missing series is empty, not zero
		out <- prometheus.MustNewConstMetric(descRejected, counter, float64(stats.Refused[reason]), string(reason))
	}
	for p, n := range stats.Programs {
		out <- prometheus.MustNewConstMetric(descPrograms, counter, float64(n), string(p.Origin), p.Language, p.Set,
			cmp.Or(string(p.Start), "unknown"))
	}
	for _, kind := range []engine.SessionKind{engine.SessionFiles, engine.SessionHeld, engine.SessionLive} {
		out <- prometheus.MustNewConstMetric(descTakeover, counter, float64(stats.Takeovers[kind]), string(kind))
	}
	low := 0.0
	if stats.Disk.Low {
		low = 1
	}
	out <- prometheus.MustNewConstMetric(descFree, gauge, float64(stats.Disk.Free))
	out <- prometheus.MustNewConstMetric(descTotal, gauge, float64(stats.Disk.Total))
	out <- prometheus.MustNewConstMetric(descFloor, gauge, float64(stats.Disk.Floor))
	out <- prometheus.MustNewConstMetric(descLow, gauge, low)
	out <- histogram(descWait, stats.Wait)
	out <- histogram(descDuration, stats.Duration)
	ctx, cancel := context.WithTimeout(context.Background(), poolsTime)
	defer cancel()
	pools, err := c.engine.Pools(ctx)
	if err != nil { // airlock_pool_cold is absent then, as it is where every program starts cold
		return
	}
	for _, p := range pools {
		cold := 0.0
		if p.Cold != "" {
			cold = 1
		}
		out <- prometheus.MustNewConstMetric(descCold, gauge, cold, p.Name)
	}
}

// poolsTime bounds the question for the pools, some of which may be on other machines.
const poolsTime = 2 * time.Second

// histogram returns the engine's counts in cumulative buckets.
func histogram(d *prometheus.Desc, h engine.Histogram) prometheus.Metric {
	buckets := make(map[float64]uint64, len(h.Bounds))
	var sum uint64
	for i, bound := range h.Bounds {
		sum += uint64(h.Counts[i])
		buckets[bound.Seconds()] = sum
	}
	return prometheus.MustNewConstHistogram(d, uint64(h.Count), h.Sum.Seconds(), buckets)
}
