package e2e

import (
	"context"
	"encoding/json"
	"flag"
	"fmt"
	"html"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"
)

var (
	dashboardPicture = flag.String("dashboard-picture", "", "file to draw the dashboard's queries in, as SVG")
	prometheusBinary = flag.String("prometheus", "../.cache/prometheus/usr/bin/prometheus",
		"prometheus for -dashboard-picture; make metrics-check fetches one")
)

// loadTime is for how long TestClusterDashboard runs programs.
const loadTime = 90 * time.Second

// TestClusterDashboard puts load on two apis and two workers, one api of which ends on the way, has a Prometheus scrape
// them, and asks it what the dashboard asks.
func TestClusterDashboard(t *testing.T) {
	if *dashboardPicture == "" {
		t.Skip("it takes minutes and draws docs/operations.svg: go test -run TestClusterDashboard -dashboard-picture FILE")
	}
	r := &roles{deployment: newDeployment(t)}
	r.addAPI("AIRLOCK_NODE_NAME=api-1")
	r.addAPI("AIRLOCK_NODE_NAME=api-2")
	r.addWorker("AIRLOCK_NODE_NAME=worker-1", "AIRLOCK_CONCURRENCY=4")
	r.addWorker("AIRLOCK_NODE_NAME=worker-2", "AIRLOCK_CONCURRENCY=4")
	r.work()
	prometheus := startPrometheus(t, r.apis)
	began := time.Now()
	r.someLoad(began.Add(loadTime))
	took := time.Since(began)
	panels := readPanels(t)
	for i := range panels {
		panels[i].query(t, prometheus, began, began.Add(took))
	}
	if err := os.WriteFile(*dashboardPicture, []byte(drawPanels(panels, took)), 0o644); err != nil {
		t.Fatal(err)
	}
}

// startPrometheus starts a Prometheus that scrapes services each second, and returns its address.
func startPrometheus(t *testing.T, of []*service) string {
	t.Helper()
	dir := t.TempDir()
	var targets []string
	for _, s := range of {
		targets = append(targets, strconv.Quote(strings.TrimPrefix(s.url, "http://")))
	}
	config := filepath.Join(dir, "prometheus.yml")
	text := "global: {scrape_interval: 1s}\nscrape_configs:\n- job_name: airlock\n  static_configs:\n  - targets: [" +
		strings.Join(targets, ",") + "]\n"
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	address := l.Addr().String()
	l.Close()
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, *prometheusBinary, "--config.file="+config, "--storage.tsdb.path="+dir,
		"--web.listen-address="+address)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); _ = cmd.Wait() })
	eventually(t, waitTime, "Prometheus is ready", func() bool {
		resp, err := http.Get("http://" + address + "/-/ready")
		if err != nil {
			return false
		}
		resp.Body.Close()
		return resp.StatusCode == http.StatusOK
	})
	return "http://" + address
}

// someLoad has clients do all kinds of things until some time. One api ends after two thirds of it.
func (r *roles) someLoad(until time.Time) {
	r.Helper()
	half := time.Now().Add(time.Until(until) * 2 / 3)
	in := r.apis[0].upload("in.csv", "a,b\n1,2\n")
	send := func(i, client int, path, body string) {
		at := r.apis[(i+client)%2]
		if time.Now().After(half) {
			at = r.apis[1]
		}
		request, err := http.NewRequest(http.MethodPost, at.url+path, strings.NewReader(body))
		if err != nil {
			return
		}
		request.Header.Set("Content-Type", "application/json")
		if resp, err := http.DefaultClient.Do(request); err == nil { // an api that ends may not answer
			resp.Body.Close()
		}
	}
	work := []func(i, client int){
		func(i, c int) { send(i, c, runs, `{"language":"bash","code":"echo $RANDOM > out.txt"}`) },
		func(i, c int) { send(i, c, runs, `{"language":"python","code":"print(sum(range(10**6)))"}`) },
		func(i, c int) {
			send(i, c, "/onyx/v1/execute", `{"code":"import time; time.sleep(0.3)","timeout_ms":5000}`)
		},
		func(i, c int) {
			send(i, c, runs, `{"language":"python","code":"print(open('in.csv').read())","files":[{"id":"`+in.ID+`"}]}`)
		},
		func(i, c int) { send(i, c, runs, `{"language":"python","code":"1/0"}`) },
		func(i, c int) {
			send(i, c, runs, `{"language":"`+[]string{"bash", "cobol"}[i%2]+`","code":"sleep 0.1"}`)
		},
	}
	var wait sync.WaitGroup
	for client := range 2 * len(work) {
		wait.Go(func() {
			for i := 0; time.Now().Before(until); i++ {
				work[client%len(work)](i, client)
				<-time.After(100 * time.Millisecond)
			}
		})
	}
	for range 4 {
		id := r.live(r.apis[0])
		wait.Go(func() {
			for time.Now().Before(until) {
				send(0, 0, "/api/v1/sessions/"+id+"/cells", `{"code":"import time; time.sleep(0.5)"}`)
				<-time.After(700 * time.Millisecond)
			}
		})
	}
	<-time.After(time.Until(half))
	r.apis[0].stop()
	wait.Wait()
}

// shownPanel is a panel of the dashboard with the answers of Prometheus.
type shownPanel struct {
	Type, Title string
	Targets     []struct{ Expr, LegendFormat string }
	FieldConfig struct{ Defaults struct{ Unit string } }
	lines       []shownLine
}

type shownLine struct {
	name   string
	points [][2]float64 // seconds since the begin, value
}

func readPanels(t *testing.T) (panels []shownPanel) {
	t.Helper()
	text, err := os.ReadFile("../deploy/grafana/airlock.json")
	if err != nil {
		t.Fatal(err)
	}
	var read struct{ Panels []shownPanel }
	if err := json.Unmarshal(text, &read); err != nil {
		t.Fatal(err)
	}
	return slices.DeleteFunc(read.Panels, func(p shownPanel) bool { return p.Type == "row" })
}

// ask has Prometheus answer the queries of a panel.
func (p *shownPanel) query(t *testing.T, at string, from, to time.Time) {
	t.Helper()
	for _, target := range p.Targets {
		query := strings.NewReplacer("$__rate_interval", "10s", "$job", ".*").Replace(target.Expr)
		resp, err := http.Get(at + "/api/v1/query_range?" + url.Values{"query": {query}, "step": {"2"},
			"start": {fmt.Sprint(from.Unix())}, "end": {fmt.Sprint(to.Unix())}}.Encode())
		if err != nil {
			t.Fatal(err)
		}
		var answer struct {
			Error string
			Data  struct {
				Result []struct {
					Metric map[string]string
					Values [][2]any
				}
			}
		}
		err = json.NewDecoder(resp.Body).Decode(&answer)
		resp.Body.Close()
		if err != nil || answer.Error != "" {
			t.Fatalf("%s: %v %s", query, err, answer.Error)
		}
		for _, series := range answer.Data.Result {
			line := shownLine{name: target.LegendFormat}
			for label, value := range series.Metric {
				line.name = strings.ReplaceAll(line.name, "{{"+label+"}}", value)
			}
			for _, v := range series.Values {
				second, _ := v[0].(float64)
				text, _ := v[1].(string)
				if value, err := strconv.ParseFloat(text, 64); err == nil && value == value { // NaN: nothing to divide
					line.points = append(line.points, [2]float64{second - float64(from.Unix()), value})
				}
			}
			if len(line.points) > 0 {
				p.lines = append(p.lines, line)
			}
		}
	}
	t.Logf("%s: %d series", p.Title, len(p.lines))
}

var lineColours = []string{"#0f6e66", "#b35900", "#5b5bd6", "#c2255c", "#2b8a3e", "#7a5c00", "#1971c2", "#868e96"}

// drawPanels draws panels as one picture, three beside each other.
func drawPanels(panels []shownPanel, took time.Duration) string {
	const width, height, wide, high, most = 330, 175, 290, 100, 5
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" font-family="sans-serif" font-size="10">`+
		`<style>text{fill:#1f2328}.n{fill:#59636e}.f{stroke:#d0d7de;fill:none}polyline{fill:none;stroke-width:1.5}`+
		`@media(prefers-color-scheme:dark){text{fill:#e6edf3}.n{fill:#9198a1}.f{stroke:#3d444d}}</style>`,
		3*width, height*((len(panels)+2)/3))
	for i, p := range panels {
		x, y := float64(i%3*width+30), float64(i/3*height+24)
		slices.SortStableFunc(p.lines, func(a, b shownLine) int { return int(1e6 * (b.largest() - a.largest())) })
		top := 0.0
		for _, l := range p.lines {
			top = max(top, l.largest())
		}
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" font-size="12" font-weight="600">%s</text>`+
			`<text class="n" x="%.0f" y="%.0f" text-anchor="end">%s</text>`+
			`<rect class="f" x="%.0f" y="%.0f" width="%d" height="%d"/>`, x, y-8, html.EscapeString(p.Title), x+wide, y-8,
			html.EscapeString("to "+shownValue(top, p.FieldConfig.Defaults.Unit)), x, y, wide, high)
		for n, l := range p.lines {
			colour := lineColours[n%len(lineColours)]
			var at []string
			for _, point := range l.points {
				at = append(at, fmt.Sprintf("%.1f,%.1f", x+wide*point[0]/took.Seconds(), y+high-high*point[1]/max(top, 1e-9)))
			}
			fmt.Fprintf(&b, `<polyline stroke="%s" points="%s"/>`, colour, strings.Join(at, " "))
			name := l.name
			switch {
			case n == most && len(p.lines) > most+1:
				name = fmt.Sprintf("and %d more", len(p.lines)-most)
			case n > most:
				continue
			}
			left, line := x+float64(n%2*wide/2), y+high+13+float64(n/2*13)
			fmt.Fprintf(&b, `<rect x="%.0f" y="%.0f" width="8" height="3" fill="%s"/><text x="%.0f" y="%.0f">%s</text>`,
				left, line-5, colour, left+12, line, html.EscapeString(name))
		}
		if len(p.lines) == 0 {
			fmt.Fprintf(&b, `<text class="n" x="%.0f" y="%.0f">nothing happened</text>`, x+8, y+high/2)
		}
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func (l shownLine) largest() (most float64) {
	for _, p := range l.points {
		most = max(most, p[1])
	}
	return most
}

// shownValue returns a value with its unit, one of Grafana's.
func shownValue(v float64, unit string) string {
	switch unit {
	case "s":
		if v >= 1 {
			return fmt.Sprintf("%.1f s", v)
		}
		return fmt.Sprintf("%.3g ms", v*1000)
	case "bytes":
		return fmt.Sprintf("%.3g GiB", v/(1<<30))
	case "ops", "reqps":
		return fmt.Sprintf("%.3g a second", v)
	}
	return fmt.Sprintf("%.3g", v)
}
