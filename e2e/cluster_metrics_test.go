package e2e

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil/promlint"
	dto "github.com/prometheus/client_model/go"
	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/airlock-run/airlock/internal/language"
)

// scraped are the metrics of a service, by name.
type scraped map[string]*dto.MetricFamily

func (s *service) scrape() (metrics scraped, text string) {
	s.t.Helper()
	text = string(s.do("GET", "/metrics", "").body)
	parser := expfmt.NewTextParser(model.LegacyValidation)
	metrics, err := parser.TextToMetricFamilies(strings.NewReader(text))
	if err != nil {
		s.t.Fatal(err)
	}
	return metrics, text
}

// settled is scrape once the answers that have been sent are counted, this route's included: they are counted after.
func (s *service) settled() scraped {
	s.t.Helper()
	var metrics scraped
	last, same := 0, 0
	eventually(s.t, waitTime, "eight scrapes have the same series", func() bool {
		metrics, _ = s.scrape()
		series := 0
		for _, family := range metrics {
			series += len(family.GetMetric())
		}
		if same++; series != last {
			last, same = series, 0
		}
		return same >= 8
	})
	return metrics
}

// sum adds up the values of a metric whose labels have some values, "name", "value" and so on.
func (m scraped) sum(name string, labels ...string) (total float64) {
	for _, one := range m[name].GetMetric() {
		fits := true
		for i := 0; i < len(labels); i += 2 {
			fits = fits && slices.ContainsFunc(one.GetLabel(), func(l *dto.LabelPair) bool {
				return l.GetName() == labels[i] && l.GetValue() == labels[i+1]
			})
		}
		if fits {
			total += one.GetCounter().GetValue() + one.GetGauge().GetValue() + float64(one.GetHistogram().GetSampleCount())
		}
	}
	return total
}

// labelled returns the values of each label of Airlock's own metrics.
func (m scraped) labelled() map[string][]string {
	values := map[string][]string{}
	for name, family := range m {
		if !strings.HasPrefix(name, "airlock_") {
			continue
		}
		for _, one := range family.GetMetric() {
			for _, l := range one.GetLabel() {
				if !slices.Contains(values[l.GetName()], l.GetValue()) {
					values[l.GetName()] = append(values[l.GetName()], l.GetValue())
				}
			}
		}
	}
	return values
}

// strange sends requests with words that no one has thought of, each in another place.
func (s *service) strange() {
	s.t.Helper()
	for range 20 {
		word := strings.ToLower(rand.Text())
		s.do(strings.ToUpper(word[:8]), "/api/v1/runs", "")
		s.do("GET", "/"+word, "")
		s.do("GET", "/api/v1/"+word, "")
		s.do("GET", "/api/v1/runs/"+word, "")
		s.do("GET", "/onyx/"+word+"/"+word, "")
		s.do("DELETE", "/api/v1/sessions/"+word, "", "X-Request-Id", word)
		for _, field := range []string{"language", "python_packages", "image", "session", "wall"} {
			s.do("POST", runs, fmt.Sprintf(`{"language":"bash","code":"true",%q:%q}`, field, word))
		}
		s.do("POST", "/api/v1/sessions", `{"kind":"live","language":"`+word+`"}`)
		s.do("POST", runs, `{"language":"bash","code":"true","files":[{"id":"`+word[:21]+`"}]}`)
	}
}

// TestClusterMetrics walks the metrics of an api after it has done all kinds of things: what they are called, what
// their labels are, and that strange requests add none.
func TestClusterMetrics(t *testing.T) {
	t.Parallel()
	r := &roles{deployment: newDeployment(t)}
	first, api := r.addAPI(), r.addAPI()
	r.addWorker("AIRLOCK_NODE_NAME=the-worker")
	r.work()
	in := api.upload("in.txt", rand.Text())
	for _, body := range []string{
		`{"language":"bash","code":"cat in.txt > out.txt","files":[{"id":"` + in.ID + `"}]}`,
		`{"language":"python","code":"print(sum(range(10**6)))"}`, `{"language":"python","code":"1/0"}`,
	} {
		if got := api.do("POST", runs, body); got.status != http.StatusOK {
			t.Fatalf("%d %s", got.status, got.body)
		}
	}
	api.do("POST", "/onyx/v1/execute", `{"code":"print(1)","timeout_ms":5000}`)
	events := api.stream("POST", runs, `{"language":"bash","code":"echo 1"}`)
	for _, more := events.next(); more; _, more = events.next() {
	}
	id := r.live(first)
	first.stop()
	got := api.again(id, "import time; time.sleep(0.3); print(open('kept.txt').read())")
	if !strings.Contains(got, "kept") {
		t.Errorf("the session that was taken over: %s", got)
	}
	api.strange()
	before := api.settled()
	api.strange()
	metrics, text := api.scrape()

	problems, err := promlint.New(strings.NewReader(text)).Lint()
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		if !strings.HasPrefix(p.Metric, "go_") && !strings.HasPrefix(p.Metric, "process_") { // of libraries
			t.Errorf("%s: %s", p.Metric, p.Text)
		}
	}
	for name, family := range metrics {
		if n, of := len(family.GetMetric()), len(before[name].GetMetric()); n > of && strings.HasPrefix(name, "airlock_") {
			t.Errorf("strange requests have added series to %s: %d, then %d", name, of, n)
		}
	}
	checkLabels(t, metrics)
	for _, want := range [][]string{
		{"airlock_build_info"}, {"airlock_programs_total", "protocol", "native", "language", "python"},
		{"airlock_programs_total", "protocol", "onyx"}, {"airlock_runs_total", "status", "error"},
		{"airlock_runs_rejected_total", "reason", "invalid"},
		{"airlock_http_requests_total", "protocol", "native", "code", "200"},
		{"airlock_http_request_duration_seconds", "protocol", "native", "code_class", "4xx", "method", "POST"},
		{"airlock_http_streams_total", "protocol", "native"}, {"airlock_http_refused_total", "reason", "not_found"},
		{"airlock_database_duration_seconds", "operation", "read"},
		{"airlock_database_duration_seconds", "operation", "write"},
		{"airlock_bucket_request_duration_seconds", "method", "PUT", "code_class", "2xx"},
		{"go_sql_open_connections"}, {"airlock_session_takeovers_total", "kind", "live"},
		{"airlock_live_computing_seconds_total"}, {"airlock_live_alive_seconds_total"},
		{"airlock_memory_size_bytes"}, {"airlock_memory_available_bytes"}, {"airlock_disk_size_bytes"},
		{"airlock_node_disk_free_bytes", "node", "the-worker"},
		{"airlock_node_memory_available_bytes", "node", "the-worker"},
		{"airlock_programs_cpu_seconds_total"},
	} {
		if metrics.sum(want[0], want[1:]...) <= 0 {
			t.Errorf("%v has no value", want)
		}
	}
	alive := metrics.sum("airlock_live_alive_seconds_total")
	computing := metrics.sum("airlock_live_computing_seconds_total")
	if computing < 0.3 || alive <= computing {
		t.Errorf("an interpreter computed for %v s of %v", computing, alive)
	}
	checkQueries(t, metrics)
}

// checkLabels checks that each label has one of a few values.
func checkLabels(t *testing.T, metrics scraped) {
	t.Helper()
	languages := []string{"other"}
	for _, l := range language.All() {
		languages = append(languages, l.Name)
	}
	allowed := map[string][]string{
		"protocol": {"native", "onyx", "librechat", "dify", "terminal", "openai", "jupyter", "e2b", "mcp", "ui", "worker",
			"node", "live", "preview", "root", "other"},
		"language": languages, "set": {"none", "image", "other", "current", "onyx", "librechat", "own"},
		"start": {"warm", "cold", "unknown"}, "code_class": {"none", "error", "1xx", "2xx", "3xx", "4xx", "5xx"},
		"method": {"GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "other"}, "operation": {"read", "write"},
		"result": {"hit", "miss"}, "kind": {"files", "held", "live", "unavailable", "full", "internal"},
		"role": {"all", "api", "worker"}, "state": {"alive", "draining", "silent", "dead"},
	}
	few := map[string]int{"route": 60, "code": 20, "reason": 40, "node": 3, "pool": 20, "status": 7, "version": 1,
		"revision": 1, "goversion": 1}
	for label, values := range metrics.labelled() {
		known, named := allowed[label]
		most, counted := few[label]
		switch {
		case !named && !counted:
			t.Errorf("the label %s has the values %q: say here which ones it may have", label, values)
		case counted && len(values) > most:
			t.Errorf("the label %s has %d values: %q", label, len(values), values)
		}
		for _, value := range values {
			if named && !slices.Contains(known, value) {
				t.Errorf("the label %s has the value %q", label, value)
			}
		}
	}
}

var metricNames = regexp.MustCompile(`\b(airlock|go_sql|code_interpreter)_[a-z0-9_]+`)

// checkQueries checks that what the dashboard and the alerts ask for is there.
func checkQueries(t *testing.T, metrics scraped) {
	t.Helper()
	for _, file := range []string{"grafana/airlock.json", "prometheus/alerts.yaml"} {
		text, err := os.ReadFile(filepath.Join("../deploy", file))
		if err != nil {
			t.Fatal(err)
		}
		asked := metricNames.FindAllString(string(text), -1)
		for _, name := range asked {
			base := name
			for _, part := range []string{"_bucket", "_sum", "_count"} {
				if cut, is := strings.CutSuffix(name, part); is && metrics[cut] != nil {
					base = cut
				}
			}
			if metrics[base] == nil {
				t.Errorf("deploy/%s asks for %s, which is not there", file, name)
			}
		}
		if len(asked) < 10 {
			t.Errorf("deploy/%s asks for %d metrics", file, len(asked))
		}
	}
}
