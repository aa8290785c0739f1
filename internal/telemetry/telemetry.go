// Package telemetry sends traces and metrics to an OpenTelemetry collector, by OTLP over HTTP. Without an endpoint
// there is no Telemetry, and what its methods are asked to wrap stays as it is.
//
// The variables of OpenTelemetry's SDK count: OTEL_EXPORTER_OTLP_HEADERS, OTEL_SERVICE_NAME, OTEL_TRACES_SAMPLER,
// OTEL_RESOURCE_ATTRIBUTES and the others.
package telemetry

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/exaring/otelpgx"
	"github.com/jackc/pgx/v5"
	"github.com/prometheus/client_golang/prometheus"
	bridge "go.opentelemetry.io/contrib/bridges/prometheus"
	"go.opentelemetry.io/contrib/instrumentation/net/http/otelhttp"
	"go.opentelemetry.io/otel"
	"go.opentelemetry.io/otel/attribute"
	"go.opentelemetry.io/otel/exporters/otlp/otlpmetric/otlpmetrichttp"
	"go.opentelemetry.io/otel/exporters/otlp/otlptrace/otlptracehttp"
	"go.opentelemetry.io/otel/metric/noop"
	"go.opentelemetry.io/otel/propagation"
	sdkmetric "go.opentelemetry.io/otel/sdk/metric"
	"go.opentelemetry.io/otel/sdk/resource"
	sdktrace "go.opentelemetry.io/otel/sdk/trace"
	"go.opentelemetry.io/otel/trace"

	"github.com/airlock-run/airlock/internal/engine"
)

// Options configure a Telemetry. Log is required.
type Options struct {
	Endpoint string // http://collector:4318, below which are v1/traces and v1/metrics; empty: nothing is sent
	Version  string // of this program
	Node     string // name of this process in a cluster; empty: it has none
	Log      *slog.Logger
}

// Telemetry sends traces and metrics. The nil Telemetry sends nothing.
type Telemetry struct {
	traces  *sdktrace.TracerProvider
	metrics *sdkmetric.MeterProvider
	about   *resource.Resource
	options Options
	runs    trace.Tracer
	ended   chan endedRun
	stop    chan struct{} // closed by Close
	stopped chan struct{} // closed when no more runs are received
}

// endedRun is a run that has ended, and when.
type endedRun struct {
	ctx context.Context
	run engine.Run
	at  time.Time
}

// name is what the service is called, and where its own spans come from.
const name = "airlock"

// Start returns a Telemetry, nil without an endpoint. A collector that does not answer holds nothing up: what it
// misses is logged.
func Start(ctx context.Context, o Options) (*Telemetry, error) {
	if o.Endpoint == "" {
		return nil, nil
	}
	own := []attribute.KeyValue{attribute.String("service.name", name), attribute.String("service.version", o.Version)}
	if o.Node != "" {
		own = append(own, attribute.String("service.instance.id", o.Node))
	}
	about, err := resource.New(ctx, resource.WithAttributes(own...), resource.WithTelemetrySDK(), resource.WithFromEnv())
	if err != nil {
		return nil, err
	}
	exporter, err := otlptracehttp.New(ctx, otlptracehttp.WithEndpointURL(below(o.Endpoint, "v1/traces")))
	if err != nil {
		return nil, err
	}
	otel.SetErrorHandler(otel.ErrorHandlerFunc(func(err error) {
		o.Log.Warn("telemetry was not sent", "endpoint", o.Endpoint, "error", err)
	}))
	t := &Telemetry{about: about, options: o,
		traces: sdktrace.NewTracerProvider(sdktrace.WithBatcher(exporter), sdktrace.WithResource(about)),
		ended:  make(chan endedRun, 256), stop: make(chan struct{}), stopped: make(chan struct{})}
	t.runs = t.traces.Tracer(name)
	go t.follow()
	return t, nil
}

// below returns the address of a signal.
func below(endpoint, signal string) string { return strings.TrimSuffix(endpoint, "/") + "/" + signal }

// Close sends what waits, and ends.
func (t *Telemetry) Close(ctx context.Context) error {
	if t == nil {
		return nil
	}
	close(t.stop)
	<-t.stopped
	err := t.traces.Shutdown(ctx)
	if t.metrics != nil {
		err = errors.Join(err, t.metrics.Shutdown(ctx))
	}
	return err
}

// Gather sends the metrics of a registry from now on, every minute or as OTEL_METRIC_EXPORT_INTERVAL says. They are
// those of /metrics.
func (t *Telemetry) Gather(ctx context.Context, from prometheus.Gatherer) error {
	if t == nil {
		return nil
	}
	exporter, err := otlpmetrichttp.New(ctx, otlpmetrichttp.WithEndpointURL(below(t.options.Endpoint, "v1/metrics")))
	if err != nil {
		return err
	}
	t.metrics = sdkmetric.NewMeterProvider(sdkmetric.WithResource(t.about), sdkmetric.WithReader(
		sdkmetric.NewPeriodicReader(exporter, sdkmetric.WithProducer(bridge.NewMetricProducer(bridge.WithGatherer(from))))))
	return nil
}

// http returns the options of spans for requests, whose context is in their headers (W3C Trace Context).
func (t *Telemetry) http() []otelhttp.Option {
	return []otelhttp.Option{otelhttp.WithTracerProvider(t.traces), otelhttp.WithMeterProvider(noop.NewMeterProvider()),
		otelhttp.WithPropagators(propagation.TraceContext{}),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return cmp.Or(r.Pattern, r.Method) })}
}

// Handler makes a span of each request, within that of its sender. It gives the span no address, see unnamed, and
// leaves status and route to next, which knows them: otelhttp's handler finds them out anew, and took 2 % of the time
// of print(1).
func (t *Telemetry) Handler(next http.Handler) http.Handler {
	if t == nil {
		return next
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		ctx := propagation.TraceContext{}.Extract(r.Context(), propagation.HeaderCarrier(r.Header))
		ctx, span := t.runs.Start(ctx, r.Method, trace.WithSpanKind(trace.SpanKindServer))
		defer span.End()
		next.ServeHTTP(w, r.WithContext(ctx))
	})
}

// unnamed takes out of spans what stands in addresses: names of files, and tickets and links that admit whoever has
// them.
type unnamed struct{ http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (u unnamed) RoundTrip(r *http.Request) (*http.Response, error) {
	trace.SpanFromContext(r.Context()).SetAttributes(attribute.String("url.full", r.URL.Scheme+"://"+r.URL.Host))
	return u.RoundTripper.RoundTrip(r)
}

// Transport makes a span of each request that is sent for another one, and tells its receiver.
func (t *Telemetry) Transport(next http.RoundTripper) http.RoundTripper {
	if t == nil {
		return next
	}
	within := otelhttp.NewTransport(unnamed{next}, append(t.http(),
		otelhttp.WithSpanNameFormatter(func(_ string, r *http.Request) string { return r.Method + " " + r.URL.Host }))...)
	return transport{next, within}
}

// transport makes spans within those of requests alone: what a process does by itself is no trace.
type transport struct{ plain, within http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	if !trace.SpanContextFromContext(r.Context()).IsValid() {
		return t.plain.RoundTrip(r)
	}
	return t.within.RoundTrip(r)
}

// Queries makes a span of each query of a database within a request; nil: it makes none.
func (t *Telemetry) Queries() pgx.QueryTracer {
	if t == nil {
		return nil
	}
	return queries{otelpgx.NewTracer(otelpgx.WithTracerProvider(t.traces))}
}

// queries makes spans within those of requests alone.
type queries struct{ within *otelpgx.Tracer }

// TraceQueryStart implements pgx.QueryTracer.
func (q queries) TraceQueryStart(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryStartData) context.Context {
	if !trace.SpanContextFromContext(ctx).IsValid() {
		return ctx
	}
	return q.within.TraceQueryStart(context.WithValue(ctx, traced{}, true), c, data)
}

// TraceQueryEnd implements pgx.QueryTracer.
func (q queries) TraceQueryEnd(ctx context.Context, c *pgx.Conn, data pgx.TraceQueryEndData) {
	if ctx.Value(traced{}) != nil {
		q.within.TraceQueryEnd(ctx, c, data)
	}
}

// traced marks the context of a query that has a span.
type traced struct{}

// Run makes a span of a run that has ended, and of its parts, within the request that began it: soon, when the
// request is answered.
func (t *Telemetry) Run(ctx context.Context, run *engine.Run) {
	if t == nil {
		return
	}
	e := endedRun{ctx, *run, time.Now()}
	select {
	case t.ended <- e:
	default:
		t.record(&e)
	}
}

// answerTime is more than the answer to a request takes, once its run has ended.
const answerTime = 5 * time.Millisecond

// follow records runs until Close.
func (t *Telemetry) follow() {
	defer close(t.stopped)
	for {
		select {
		case e := <-t.ended:
			select {
			case <-time.After(answerTime):
			case <-t.stop:
			}
			t.record(&e)
			t.recordWaiting()
		case <-t.stop:
			t.recordWaiting()
			return
		}
	}
}

func (t *Telemetry) recordWaiting() {
	for {
		select {
		case e := <-t.ended:
			t.record(&e)
		default:
			return
		}
	}
}

// record makes the spans of a run.
func (t *Telemetry) record(e *endedRun) {
	run, at := &e.run, e.at
	for _, part := range run.Timings {
		at = at.Add(-part.Took)
	}
	ctx, span := t.runs.Start(e.ctx, "run "+run.Language, trace.WithTimestamp(at), trace.WithAttributes(
		attribute.String("airlock.run.id", run.ID.String()), attribute.String("airlock.run.status", string(run.Status)),
		attribute.String("airlock.language", run.Language), attribute.String("airlock.session.id", run.Session.String()),
		attribute.String("airlock.wall", string(run.Wall)), attribute.String("airlock.image", run.Image),
		attribute.String("airlock.start", string(run.Start))))
	for _, part := range run.Timings {
		_, child := t.runs.Start(ctx, part.Name, trace.WithTimestamp(at))
		at = at.Add(part.Took)
		child.End(trace.WithTimestamp(at))
	}
	span.End(trace.WithTimestamp(e.at))
}
