package onyx

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/airlock-run/airlock/internal/engine"
)

// meter has the metrics of this dialect, under the names that the original's dashboards use.
type meter struct {
	active    *prometheus.GaugeVec
	rejected  *prometheus.CounterVec
	completed *prometheus.CounterVec
	wait      *prometheus.HistogramVec
	duration  *prometheus.HistogramVec
}

const namespace = "code_interpreter"

func newMeter(o *Options, e *engine.Service) *meter {
	buckets := []float64{.05, .1, .25, .5, 1, 2.5, 5, 10, 30, 60, 120, 300}
	m := &meter{
		active: prometheus.NewGaugeVec(prometheus.GaugeOpts{
			Namespace: namespace, Name: "executions_active", Help: "Executions under way, waiting ones included.",
		}, []string{"operation"}),
		rejected: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "executions_rejected_total",
			Help: "Executions refused before they began, by HTTP status and reason.",
		}, []string{"operation", "status", "reason"}),
		completed: prometheus.NewCounterVec(prometheus.CounterOpts{
			Namespace: namespace, Name: "executions_completed_total",
			Help: "Executions that were accepted, by outcome: ok, timed_out, error.",
		}, []string{"operation", "outcome"}),
		wait: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "admission_wait_seconds", Help: "Time that executions waited for a slot.",
			Buckets: buckets,
		}, []string{"operation"}),
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: namespace, Name: "execution_duration_seconds", Help: "Time from the request to the end of the execution.",
			Buckets: buckets,
		}, []string{"operation"}),
	}
	limit := prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Namespace: namespace, Name: "executions_limit", Help: "Executions that run at the same time at most.",
	}, func() float64 { return float64(e.Stats().Slots) })
	if o.Registry == nil {
		own := prometheus.NewRegistry()
		o.Registry = own
		if o.Metrics == nil {
			o.Metrics = promhttp.HandlerFor(own, promhttp.HandlerOpts{})
		}
	}
	if o.Metrics == nil {
		o.Metrics = http.NotFoundHandler()
	}
	// A rate over a missing series is empty, not zero.
	for _, operation := range operations {
		m.active.WithLabelValues(operation)
		for kind, reason := range rejections {
			m.rejected.WithLabelValues(operation, strconv.Itoa(statuses[kind]), reason)
		}
		for _, outcome := range []string{"ok", "timed_out", "error"} {
			m.completed.WithLabelValues(operation, outcome)
		}
	}
	o.Registry.MustRegister(m.active, m.rejected, m.completed, m.wait, m.duration, limit)
	return m
}

// operations are the values of the label operation.
var operations = []string{"execute", "execute_stream", "session_create", "session_bash"}

// rejections are the reasons of executions that are refused before they begin.
var rejections = map[engine.Kind]string{
	engine.ErrBusy: "concurrency_limit", engine.ErrFull: "quota_exceeded",
	engine.ErrSpent: "quota_exceeded", engine.ErrUnavailable: "unschedulable",
}

// execution measures an execution.
type execution struct {
	meter     *meter
	operation string
	began     time.Time
}

func (m *meter) startOperation(operation string) execution {
	m.active.WithLabelValues(operation).Inc()
	return execution{m, operation, time.Now()}
}

// end counts the end of an execution. A program that fails counts as ok.
func (x execution) end(run *engine.Run, err error) {
	m := x.meter
	m.active.WithLabelValues(x.operation).Dec()
	outcome := "ok"
	switch kind := engine.KindOf(err); {
	case err != nil && (kind == engine.ErrNotFound || kind == engine.ErrInvalid || kind == engine.ErrTooLarge):
		return // the request was at fault, and nothing was executed
	case err != nil && rejections[kind] != "":
		m.rejected.WithLabelValues(x.operation, strconv.Itoa(statuses[kind]), rejections[kind]).Inc()
		return
	case err != nil:
		outcome = "error"
	case run != nil && run.Status == engine.StatusTimeout:
		outcome = "timed_out"
	case run == nil && x.operation == "execute_stream", run != nil && run.Status == engine.StatusInterrupted:
		outcome = "error"
	}
	if run != nil && !run.StartedAt.IsZero() {
		m.wait.WithLabelValues(x.operation).Observe(max(0, run.StartedAt.Sub(run.CreatedAt).Seconds()))
	}
	m.duration.WithLabelValues(x.operation).Observe(time.Since(x.began).Seconds())
	m.completed.WithLabelValues(x.operation, outcome).Inc()
}
