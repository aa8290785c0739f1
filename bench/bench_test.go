package main

import (
	"bufio"
	"encoding/xml"
	"errors"
	"io"
	"math"
	"net"
	"os"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentile(t *testing.T) {
	hundred := make(sample, 100)
	for i := range hundred {
		hundred[99-i] = time.Duration(i+1) * time.Millisecond // not in order
	}
	tests := []struct {
		name string
		of   sample
		want Summary
	}{
		{"one", sample{7 * time.Millisecond}, Summary{1, 7, 7, 7}},
		{"two", sample{4 * time.Millisecond, 2 * time.Millisecond}, Summary{2, 2, 4, 4}},
		{"hundred", hundred, Summary{100, 50, 95, 99}},
	}
	for _, test := range tests {
		if diff := cmp.Diff(test.want, test.of.summary()); diff != "" {
			t.Errorf("%s (-want +got)\n%s", test.name, diff)
		}
	}
	if none := (sample{}).summary(); !math.IsNaN(none.P50) {
		t.Errorf("the median of nothing is %v", none.P50)
	}
}

func TestVerdict(t *testing.T) {
	tests := []struct {
		goal Goal
		want string
	}{
		{Goal{Must: 2, Aim: 1, Measured: new(1.0)}, verdictAim},
		{Goal{Must: 2, Aim: 1, Measured: new(1.1)}, verdictMust},
		{Goal{Must: 2, Aim: 1, Measured: new(2.1)}, verdictMissed},
		{Goal{Must: 4, Aim: 8, More: true, Measured: new(8.0)}, verdictAim},
		{Goal{Must: 4, Aim: 8, More: true, Measured: new(5.0)}, verdictMust},
		{Goal{Must: 4, Aim: 8, More: true, Measured: new(3.0)}, verdictMissed},
		{Goal{Must: 4, Aim: 8}, verdictUnknown},
		{Goal{Must: 2, Aim: 1, Measured: new(math.NaN())}, verdictMissed},
	}
	for _, test := range tests {
		if test.goal.judge(); test.goal.Verdict != test.want {
			t.Errorf("%+v: want %s", test.goal, test.want)
		}
	}
}

// sampleResults have a bit of everything.
func sampleResults() *Results {
	r := newResults(Machine{CPU: "Good <CPU>", Cores: 2, Kernel: "6.1", Python: "Python 3.11.2"}, "airlock 1", false)
	r.Latency = []Latency{
		{"print", namePython, Summary{10, 10, 11, 12}}, {"print", nameWarm, Summary{10, 1, 2, 3}},
		{"plain", namePython, Summary{10, 700, 800, 900}}, {"plain", nameWarm, Summary{10, 50, 60, 70}},
		{"plain", nameResident, Summary{10, 40, 41, 42}},
	}
	r.Load = []Load{
		{"print", nameWarm, 1, 300, 0, Summary{1, 1, 1, 1}}, {"print", nameWarm, 8, 400, 0, Summary{1, 1, 1, 1}},
		{"print", nameBwrap, 8, 80, 1, Summary{1, 1, 1, 1}},
	}
	r.Memory = []Memory{{partParent, 1, 1, 2}, {partService, 1, 10, 12}, {partExecutor, 1, 5, 7},
		{partWaiting + "full", 3, 1.5, 20}}
	r.Stages = &Stages{Whole: Summary{1, 1, 1, 1}, HTTP: Summary{1, 0.2, 1, 1},
		Parts: []Stage{{"queue", 0.1}, {"program", 0.4}}}
	r.judge()
	return r
}

func TestGoals(t *testing.T) {
	got := map[string]string{}
	for _, g := range sampleResults().Goals {
		if g.Measured != nil {
			got[g.Name] = g.format(*g.Measured) + ", " + g.Verdict
		}
	}
	want := map[string]string{
		"print(1) over HTTP, warm, against cold python3":             "0.1x, must met",
		"plain plot over HTTP, warm, against cold python3":           "0.0714x, must met",
		"plain plot over HTTP against the same work warm in process": "1.25x, must met",
		"private memory of a waiting sandbox, full tier":             "1.5 MB, aim met",
		"processor time of one print(1), all cores":                  "5 ms, missed",
		"service and executor at rest, without zygotes":              "16 MB, aim met",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestGoJudgeIsNeverReplaced(t *testing.T) {
	r := sampleResults()
	if got := r.times("print"); got != nil {
		t.Errorf("without go-judge the ratio to it is %v", *got)
	}
	r.Load = append(r.Load, Load{Workload: "print", Contestant: nameJudge, Clients: 2, PerSecond: 50})
	if got := r.times("print"); got == nil || *got != 8 {
		t.Errorf("400 against 50 a second: %v", got)
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	want := sampleResults()
	if err := want.save(dir); err != nil {
		t.Fatal(err)
	}
	got, err := load(dir + "/latest.json")
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestTable(t *testing.T) {
	table := table{head: []string{"name", "ms"}}
	table.add("é", "1.25")
	want := "| name |   ms |\n|------|-----:|\n| é    | 1.25 |\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestStagesAddUp(t *testing.T) {
	text := sampleResults().stagesTable()
	for _, want := range []string{"| queue ", "0.100 |", "10 % |",
		"outside of that: HTTP, the kernel, the client |  0.500 |         50 % |"} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
}

func TestServerTiming(t *testing.T) {
	s := stageTimes{times: map[string][]float64{}}
	s.add(`queue;dur=0.5, program;desc="a b";dur=2`)
	s.add("queue;dur=1.5,program;dur=3, cached")
	s.add("queue;dur=0.7")
	want := []Stage{{"queue", 0.7}, {"program", 2}}
	if diff := cmp.Diff(want, s.medians()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFill(t *testing.T) {
	document := "a\n<!-- bench:x -->\nold\n<!-- /bench:x -->\nb\n"
	got, err := fill(document, map[string]string{"x": "new 1\n"})
	if want := "a\n<!-- bench:x -->\nnew 1\n<!-- /bench:x -->\nb\n"; err != nil || got != want {
		t.Errorf("%q, %v", got, err)
	}
	again, err := fill(got, map[string]string{"x": "new 1\n"})
	if err != nil || again != got {
		t.Errorf("filled again it is %q, %v", again, err)
	}
	if _, err := fill(document, map[string]string{"x": "", "y": ""}); err == nil {
		t.Error("a block that the document has no marks for was left out in silence")
	}
}

// The document has marks for every block; only figures are made here.
func TestDocumentHasEveryBlock(t *testing.T) {
	name := t.TempDir() + "/performance.md"
	if err := copyFile("../docs/performance.md", name); err != nil {
		t.Fatal(err)
	}
	if err := sampleResults().writeDocument(name); err != nil {
		t.Error(err)
	}
}

// A run of one section leaves the figures of all others.
func TestWriteSections(t *testing.T) {
	name := t.TempDir() + "/performance.md"
	before, err := os.ReadFile("../docs/performance.md")
	if err == nil {
		err = os.WriteFile(name, before, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	if err := sampleResults().writeSections(name, []string{"stream"}); err != nil {
		t.Fatal(err)
	}
	after, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	const begin, end = "<!-- bench:stream -->\n", "<!-- /bench:stream -->"
	was, rest, _ := strings.Cut(string(before), begin)
	_, next, _ := strings.Cut(rest, end)
	block, ok := strings.CutPrefix(string(after), was+begin)
	block, also := strings.CutSuffix(block, end+next)
	if !ok || !also || !strings.Contains(block, "make bench ARGS='-only stream'") {
		t.Errorf("%q", block)
	}
}

func TestChart(t *testing.T) {
	svg := sampleResults().chart()
	for decoder := xml.NewDecoder(strings.NewReader(svg)); ; {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatalf("%v in\n%s", err, svg)
		}
	}
	if got := strings.Count(svg, "<rect "); got != 5 {
		t.Errorf("%d bars for 5 medians", got)
	}
	for _, want := range []string{"Good &lt;CPU&gt;", "prefers-color-scheme:dark", ">50.0</text>"} {
		if !strings.Contains(svg, want) {
			t.Errorf("no %q in\n%s", want, svg)
		}
	}
	if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, `width="-`) {
		t.Errorf("impossible measures in\n%s", svg)
	}
}

// answered is a connection on which an answer has come in.
func answered(t *testing.T, answer string) *connection {
	t.Helper()
	ours, theirs := net.Pipe()
	t.Cleanup(func() { ours.Close(); theirs.Close() })
	go func() { _, _ = io.Copy(io.Discard, theirs) }()
	return &connection{conn: ours, reader: bufio.NewReader(strings.NewReader(answer))}
}

func TestConnection(t *testing.T) {
	tests := []struct {
		name, answer string
		body, err    string
	}{
		{"length", "HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhello", "hello", ""},
		{"chunks", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nhel\r\n2\r\nlo\r\n0\r\n\r\n", "hello", ""},
		{"no body", "HTTP/1.1 204 No Content\r\n\r\n", "", ""},
		{"refused", "HTTP/1.1 429 Too Many\r\nContent-Length: 4\r\n\r\nbusy", "busy", "status 429: busy"},
		{"cut off", "HTTP/1.1 200 OK\r\nContent-Length: 9\r\n\r\nhello", "", "unexpected EOF"},
		{"nothing", "", "", "unexpected EOF"},
		{"another protocol", "SSH-2.0-OpenSSH\r\n", "", "no answer in HTTP/1.1"},
		{"bad chunk", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", "", "bad chunk"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			c := answered(t, test.answer)
			err := c.do([]byte("GET / HTTP/1.1\r\n\r\n"))
			switch {
			case test.err == "" && err != nil, test.err != "" && (err == nil || !strings.Contains(err.Error(), test.err)):
				t.Errorf("error %v, want %q", err, test.err)
			case (test.err == "" || test.body != "") && string(c.body) != test.body:
				t.Errorf("body %q", c.body)
			}
		})
	}
}

func TestFollow(t *testing.T) {
	event := func(data string) string {
		text := "id: 1\nevent: output\ndata: {\"stream\":\"stdout\",\"data\":\"" + data + "\"}\n\n"
		return string(append([]byte{}, hexadecimal(len(text))+"\r\n"+text+"\r\n"...))
	}
	head := "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
	c := answered(t, head+event("5000")+event(`\n`)+event(`7000\n`)+"0\r\n\r\n")
	delays, err := c.follow(nil)
	if err != nil || len(delays) != 2 || delays[0]-delays[1] > time.Second || delays[0] <= 0 {
		t.Errorf("%v, %v", delays, err)
	}
	if _, err := answered(t, head+"0\r\n\r\n").follow(nil); err == nil {
		t.Error("a stream without output went through")
	}
}

func hexadecimal(n int) string {
	const digits = "0123456789abcdef"
	if n < 16 {
		return digits[n : n+1]
	}
	return hexadecimal(n/16) + digits[n%16:n%16+1]
}

func TestFamily(t *testing.T) {
	all := map[int]process{}
	for _, p := range []process{
		{pid: 1, command: "init"},
		{pid: 10, parent: 1, command: "airlock serve"},
		{pid: 11, parent: 10, command: "airlock serve --launcher-socket 3"},
		{pid: 12, parent: 10, command: "airlock executor {}"},
		{pid: 13, parent: 12, command: "airlock executor {}"},
		{pid: 14, parent: 13, command: "/usr/bin/python3 zygote.py", resident: 900},
		{pid: 15, parent: 14, command: "/usr/bin/python3 zygote.py"},
		{pid: 16, parent: 15, command: "/usr/bin/python3 zygote.py"},
		{pid: 17, parent: 12, command: "airlock executor {}"},
		{pid: 18, parent: 17, command: "/usr/bin/python3 zygote.py", resident: 100},
		{pid: 99, parent: 1, command: "/usr/bin/python3 of somebody else"},
	} {
		all[p.pid] = p
	}
	f := familyOf(10, all)
	pids := func(list []process) (pids []int) {
		for _, p := range list {
			pids = append(pids, p.pid)
		}
		return pids
	}
	got := map[string][]int{"parent": pids(f.parent), "service": pids(f.service), "executor": pids(f.executor)}
	want := map[string][]int{"parent": {10}, "service": {11}, "executor": {12, 13, 17}}
	for _, z := range f.zygotes {
		got["zygote "+z.tier] = []int{z.pid}
		for _, s := range z.sandboxes {
			got["sandbox "+z.tier] = append(got["sandbox "+z.tier], pids(s)...)
		}
	}
	want["zygote 1"], want["zygote 2"], want["sandbox 2"] = []int{18}, []int{14}, []int{15, 16}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestParseProc(t *testing.T) {
	p, ok := parseStat(7, []byte("7 (a) S b) S 3 7 7 0 -1 4 1 0 0 0 12 5 0 0 20 0 1 0 99 4096 250 18446744073709551615 1"))
	if want := (process{pid: 7, parent: 3, state: 'S', ticks: 17, resident: 250}); !ok || p != want {
		t.Errorf("%+v, %v", p, ok)
	}
	if _, ok := parseStat(7, []byte("7 (a")); ok {
		t.Error("half a line was read")
	}
	own, share := parseRollup([]byte("55-7f ---p 00 [rollup]\nRss: 4000 kB\nPss: 2000 kB\nPss_Dirty: 9 kB\n" +
		"Private_Clean: 125 kB\nPrivate_Dirty: 500 kB\nPrivate_Hugetlb: 8 kB\n"))
	if own != 0.64 || share != 2.048 {
		t.Errorf("%v MB of its own, %v MB share", own, share)
	}
}

func TestJudgeAnswer(t *testing.T) {
	w := &workload{output: "plot.png", stdout: "ok"}
	kept, err := readJudgeAnswer([]byte(
		`[{"status":"Accepted","exitStatus":0,"files":{"stdout":"ok\n"},"fileIds":{"plot.png":"ABC"}}]`), w)
	if err != nil || kept != "ABC" {
		t.Errorf("%q, %v", kept, err)
	}
	for _, body := range []string{
		`[]`, `{}`, `[{"status":"Nonzero Exit Status","files":{"stdout":"ok"},"fileIds":{"plot.png":"A"}}]`,
		`[{"status":"Accepted","files":{"stdout":"no"},"fileIds":{"plot.png":"A"}}]`,
		`[{"status":"Accepted","files":{"stdout":"ok"}}]`,
	} {
		if _, err := readJudgeAnswer([]byte(body), w); err == nil {
			t.Errorf("%s went through", body)
		}
	}
}

func TestAirlockCheck(t *testing.T) {
	check := newAirlockCheck(&workload{output: "plot.png", stdout: "1\n"})
	good := `{"status":"ok","stdout":"1\n","files":[{"path":"plot.png"}]}`
	if err := check([]byte(good)); err != nil {
		t.Error(err)
	}
	for _, word := range []string{`"ok"`, `1\n`, "plot.png"} {
		if err := check([]byte(strings.Replace(good, word, "-", 1))); err == nil {
			t.Errorf("an answer without %s went through", word)
		}
	}
}

// What a process has used shows in its times, once the kernel has looked.
func TestTimes(t *testing.T) {
	own := family{service: []process{{pid: os.Getpid()}}}
	before, began := timesOf(own), time.Now()
	var inside, outside float64
	for outside == 0 && time.Since(began) < 20*time.Second {
		inside, outside = timesOf(own).since(before)
	}
	// The kernel looks a few times in a second, and then counts what was before too.
	most := 0.1 + time.Since(began).Seconds()*float64(runtime.NumCPU())
	if inside != 0 || outside <= 0 || outside > most {
		t.Errorf("%v s inside, %v s outside of %v", inside, outside, most)
	}
}
