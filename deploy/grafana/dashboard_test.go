// Package grafana has the dashboard of Airlock for Grafana, airlock.json, which is made of the table in its test:
//
//	go test ./deploy/grafana -update
package grafana

import (
	"bytes"
	"encoding/json"
	"errors"
	"flag"
	"os"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog"
	"github.com/grafana/grafana-foundation-sdk/go/common"
	"github.com/grafana/grafana-foundation-sdk/go/dashboard"
	"github.com/grafana/grafana-foundation-sdk/go/prometheus"
	"github.com/grafana/grafana-foundation-sdk/go/timeseries"
)

var update = flag.Bool("update", false, "write airlock.json")

// A row has panels side by side.
type row struct {
	title  string
	panels []panel
}

// A panel shows queries, each a line of PromQL and the legend of its series.
type panel struct {
	title, unit string
	queries     [][2]string
}

func quantile(q, metric, by string) string {
	return "histogram_quantile(" + q + ", sum by (le" + by + `) (rate(` + metric + `_bucket{job=~"$job"}[$__rate_interval])))`
}

func rate(metric, by string, labels ...string) string {
	more := ""
	for _, l := range labels {
		more += "," + l
	}
	return "sum by (" + by + ") (rate(" + metric + `{job=~"$job"` + more + "}[$__rate_interval]))"
}

func gauge(metric, by string, labels ...string) string {
	more := ""
	for _, l := range labels {
		more += "," + l
	}
	return "max by (" + by + ") (" + metric + `{job=~"$job"` + more + "})"
}

// rows are the dashboard, from what users notice to what may be its cause.
var rows = []row{
	{"Runs", []panel{
		{"Runs by status", "ops", [][2]string{{rate("airlock_runs_total", "status"), "{{status}}"}}},
		{"Refused runs by reason", "ops", [][2]string{
			{rate("airlock_runs_rejected_total", "reason") + " > 0", "{{reason}}"}}},
		{"Wait for a slot", "s", [][2]string{{quantile("0.5", "airlock_run_queue_wait_seconds", ""), "p50"},
			{quantile("0.95", "airlock_run_queue_wait_seconds", ""), "p95"}}},
	}},
	{"Programs", []panel{
		{"By protocol", "ops", [][2]string{{rate("airlock_programs_total", "protocol"), "{{protocol}}"}}},
		{"By language and start", "ops", [][2]string{{rate("airlock_programs_total", "language, start"),
			"{{language}} {{start}}"}}},
		{"Duration", "s", [][2]string{{quantile("0.5", "airlock_run_duration_seconds", ""), "p50"},
			{quantile("0.95", "airlock_run_duration_seconds", ""), "p95"}}},
	}},
	{"Live sessions", []panel{
		{"Interpreters", "short", [][2]string{{gauge("airlock_live_interpreters", "instance"), "{{instance}} alive"},
			{gauge("airlock_live_busy", "instance"), "{{instance}} busy"}}},
		{"Computing and idle", "short", [][2]string{
			{"sum(rate(airlock_live_computing_seconds_total{job=~\"$job\"}[$__rate_interval]))", "computing"},
			{"sum(rate(airlock_live_alive_seconds_total{job=~\"$job\"}[$__rate_interval])) - sum(rate(" +
				"airlock_live_computing_seconds_total{job=~\"$job\"}[$__rate_interval]))", "idle"}}},
		{"Lost, evicted, taken over", "ops", [][2]string{
			{"sum(rate(airlock_live_lost_total{job=~\"$job\"}[$__rate_interval]))", "lost"},
			{"sum(rate(airlock_live_evicted_total{job=~\"$job\"}[$__rate_interval]))", "evicted"},
			{rate("airlock_session_takeovers_total", "kind"), "taken over: {{kind}}"}}},
	}},
	{"HTTP", []panel{
		{"Requests by protocol", "reqps", [][2]string{{rate("airlock_http_requests_total", "protocol"), "{{protocol}}"}}},
		{"Errors", "reqps", [][2]string{
			{rate("airlock_http_requests_total", "protocol, code", `code=~"5.."`), "{{protocol}} {{code}}"},
			{rate("airlock_http_refused_total", "reason"), "refused: {{reason}}"}}},
		{"Latency without streams, p95", "s", [][2]string{
			{quantile("0.95", "airlock_http_request_duration_seconds", ", protocol"), "{{protocol}}"}}},
	}},
	{"Database and bucket", []panel{
		{"Database", "s", [][2]string{
			{quantile("0.5", "airlock_database_duration_seconds", ", operation"), "{{operation}} p50"},
			{quantile("0.99", "airlock_database_duration_seconds", ", operation"), "{{operation}} p99"}}},
		{"Connections", "short", [][2]string{
			{"sum by (instance) (go_sql_in_use_connections{job=~\"$job\"})", "{{instance}} in use"},
			{"sum by (instance) (go_sql_idle_connections{job=~\"$job\"})", "{{instance}} idle"},
			{rate("go_sql_wait_duration_seconds_total", "instance"), "{{instance}} waiting"}}},
		{"Errors", "ops", [][2]string{{rate("airlock_database_errors_total", "operation, kind"), "{{operation}} {{kind}}"},
			{rate("airlock_bucket_request_duration_seconds_count", "code_class", `code_class=~"5xx|error"`),
				"bucket {{code_class}}"}}},
		{"Bucket, p95", "s", [][2]string{
			{quantile("0.95", "airlock_bucket_request_duration_seconds", ", method"), "{{method}}"}}},
		{"Cache of the bucket", "ops", [][2]string{{rate("airlock_bucket_cache_requests_total", "result"), "{{result}}"}}},
	}},
	{"Machines", []panel{
		{"Free disk", "bytes", [][2]string{{gauge("airlock_node_disk_free_bytes", "node"), "{{node}}"},
			{gauge("airlock_disk_free_bytes", "instance"), "{{instance}}"}}},
		{"Available memory", "bytes", [][2]string{{gauge("airlock_node_memory_available_bytes", "node"), "{{node}}"},
			{gauge("airlock_memory_available_bytes", "instance"), "{{instance}}"}}},
		{"Nodes", "short", [][2]string{{gauge("airlock_nodes", "role, state"), "{{role}} {{state}}"}}},
		{"Programs of nodes", "short", [][2]string{{gauge("airlock_node_runs_running", "node"), "{{node}} running"},
			{gauge("airlock_node_slots", "node"), "{{node}} slots"}}},
		{"Builds", "short", [][2]string{{"count by (version) (airlock_build_info{job=~\"$job\"})", "{{version}}"}}},
	}},
}

// build returns the dashboard, in the form that every Grafana imports: that of v2 needs a new one.
//
//nolint:staticcheck // see above
func build() (dashboard.Dashboard, error) {
	source := common.DataSourceRef{Type: cog.ToPtr("prometheus"), Uid: cog.ToPtr("${datasource}")}
	all := dashboard.NewDashboardBuilder("Airlock").Uid("airlock").Tags([]string{"airlock"}).
		Description("Runs, live sessions, HTTP, database, bucket and machines. docs/operations.md says what to look for.").
		Time("now-3h", "now").Refresh("30s").
		WithVariable(dashboard.NewDatasourceVariableBuilder("datasource").Label("Prometheus").Type("prometheus")).
		WithVariable(dashboard.NewQueryVariableBuilder("job").Label("Job").Datasource(source).
			Query(dashboard.StringOrMap{String: cog.ToPtr("label_values(airlock_build_info, job)")}).
			Refresh(dashboard.VariableRefreshOnDashboardLoad).Multi(true).IncludeAll(true).AllValue(".*"))
	for _, r := range rows {
		all.WithRow(dashboard.NewRowBuilder(r.title))
		for _, p := range r.panels {
			one := timeseries.NewPanelBuilder().Title(p.title).Unit(p.unit).Min(0).Datasource(source).Height(7).
				Span(uint32(24 / min(len(r.panels), 3))).FillOpacity(10)
			for i, q := range p.queries {
				one.WithTarget(prometheus.NewDataqueryBuilder().Datasource(source).RefId(string(rune('A' + i))).
					Expr(q[0]).LegendFormat(q[1]))
			}
			all.WithPanel(one)
		}
	}
	return all.Build()
}

// check has Grafana's types read a dashboard.
func check(text []byte) error {
	var read dashboard.Dashboard //nolint:staticcheck // see build
	err := read.UnmarshalJSONStrict(text)
	if list, is := errors.AsType[cog.BuildErrors](err); is && len(list) == 0 { // it returns an empty list as an error
		err = nil
	}
	return errors.Join(err, read.Validate())
}

// TestDashboard compares airlock.json with the table, and has Grafana's own types read it, which refuse what they do
// not know.
func TestDashboard(t *testing.T) {
	made, err := build()
	if err != nil {
		t.Fatal(err)
	}
	want, err := json.MarshalIndent(made, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	want = append(want, '\n')
	const name = "airlock.json"
	if *update {
		if err := os.WriteFile(name, want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	got, err := os.ReadFile(name)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("airlock.json is not that of the table (%v): go test ./deploy/grafana -update", err)
	}
	cog.NewRuntime().RegisterPanelcfgVariant(timeseries.VariantConfig())
	cog.NewRuntime().RegisterDataqueryVariant(prometheus.VariantConfig())
	if err := check(got); err != nil {
		t.Errorf("Grafana's schema: %v", err)
	}
	for _, wrong := range []string{`"refreshs":`, `"expression":`, `"fieldConfigs":`} {
		right := map[string]string{`"refreshs":`: `"refresh":`, `"expression":`: `"expr":`,
			`"fieldConfigs":`: `"fieldConfig":`}[wrong]
		changed := bytes.Replace(got, []byte(right), []byte(wrong), 1)
		if check(changed) == nil {
			t.Errorf("Grafana's schema takes %s in place of %s", wrong, right)
		}
	}
}
