package lab

import (
	"encoding/xml"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestPercentiles(t *testing.T) {
	hundred := make(Sample, 100)
	for i := range hundred {
		hundred[99-i] = time.Duration(i+1) * time.Millisecond // not in order
	}
	for _, test := range []struct {
		name     string
		of       Sample
		p50, p99 float64
	}{
		{"none", nil, 0, 0},
		{"one", Sample{7 * time.Millisecond}, 7, 7},
		{"two", Sample{4 * time.Millisecond, 2 * time.Millisecond}, 2, 4},
		{"hundred", hundred, 50, 99},
	} {
		if test.of.P50() != test.p50 || test.of.P99() != test.p99 {
			t.Errorf("%s: p50 %v, p99 %v", test.name, test.of.P50(), test.of.P99())
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, test := range []struct {
		must, aim, measured float64
		want                string
	}{
		{2, 1, 1, "aim met"}, {2, 1, 1.1, "must met"}, {2, 1, 2.1, "missed"},
		{4, 8, 8, "aim met"}, {4, 8, 5, "must met"}, {4, 8, 3, "missed"},
		{0, 0, 0, "aim met"}, {0, 0, 1, "missed"},
	} {
		if got := (&Goal{Must: test.must, Aim: test.aim, Measured: test.measured}).Verdict(); got != test.want {
			t.Errorf("%+v: %s", test, got)
		}
	}
}

func TestTable(t *testing.T) {
	table := NewTable("name", "ms")
	if got := table.String(); got != "Not measured in this run.\n" {
		t.Errorf("without rows: %q", got)
	}
	table.Add("é", "1.25")
	want := "| name |   ms |\n|------|-----:|\n| é    | 1.25 |\n"
	if diff := cmp.Diff(want, table.String()); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}

func TestFill(t *testing.T) {
	document := filepath.Join(t.TempDir(), "page.md")
	if err := os.WriteFile(document, []byte("# Head\n<!-- a -->\nold\n<!-- /a -->\nTail\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := Fill(document, "a", "new\n\n"); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(document)
	if want := "# Head\n<!-- a -->\nnew\n<!-- /a -->\nTail\n"; string(got) != want || err != nil {
		t.Errorf("%s %v", got, err)
	}
	if text, err := Filled(document, "a"); text != "new\n" || err != nil {
		t.Errorf("%q %v", text, err)
	}
	if err := Fill(document, "b", ""); err == nil {
		t.Error("a document without the marks was filled")
	}
}

// Pictures are XML without impossible measures, whatever is drawn.
func TestPictures(t *testing.T) {
	for name, svg := range map[string]string{
		"curves": DrawCurves("a <b>", Chart{Title: "x & y", LogX: true, LogY: true,
			Curves: []Curve{{"one", [][2]float64{{1000, 1}, {1e6, 20}}}, {"two", [][2]float64{{1000, 3}}}}},
			Chart{Title: "empty"}),
		"bars":    DrawCurves("bars", Chart{Title: "p", Bars: []Bar{{"a", "ours", 1}, {"b", "", 100}}}),
		"nothing": DrawCurves("none"),
	} {
		if strings.Contains(svg, "NaN") || strings.Contains(svg, "Inf") || strings.Contains(svg, `width="-`) {
			t.Errorf("%s: impossible measures in\n%s", name, svg)
		}
		for d := xml.NewDecoder(strings.NewReader(svg)); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v in\n%s", name, err, svg)
			}
		}
	}
}

func TestProc(t *testing.T) {
	p, ok := parseStat(7, []byte("7 (a) S b) S 3 7 7 0 -1 4 1 0 0 0 12 5 0 0 20 0 1 0 99 4096 250 18446744073709551615 1"))
	if !ok || p.PID != 7 || p.Parent != 3 || p.State != 'S' || p.Ticks != 17 {
		t.Errorf("%+v, %v", p, ok)
	}
	if _, ok := parseStat(7, []byte("7 (a")); ok {
		t.Error("half a line was read")
	}
	rollup := "55-7f ---p 00 [rollup]\nRss: 4000 kB\nPrivate_Clean: 125 kB\nPrivate_Dirty: 500 kB\nPrivate_Hugetlb: 8 kB\n"
	if got := status([]byte(rollup), "Private_Clean", "Private_Dirty"); got != 625 {
		t.Errorf("%v KB of its own", got)
	}
	all := Procs{10: {PID: 10, Parent: 1}, 11: {PID: 11, Parent: 10}, 12: {PID: 12, Parent: 11}, 99: {PID: 99, Parent: 1}}
	if below := all.Below(10); len(below) != 2 || below[0].PID != 11 || below[1].PID != 12 {
		t.Errorf("below 10 are %v", below)
	}
	if self := Processes()[os.Getpid()]; self.Word(0) != os.Args[0] || self.Parent != os.Getppid() {
		t.Errorf("this process is %+v", self)
	}
}

// A service that does not answer is an error, and has ended.
func TestAwait(t *testing.T) {
	s, err := Start("127.0.0.1:1", nil, "/bin/sh", "-c", "echo no room; exit 3")
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Await(t.Context()); err == nil || !strings.Contains(err.Error(), "no room") {
		t.Errorf("%v", err)
	}
	if s.Alive() {
		t.Error("it has not ended")
	}
}

func TestStopKills(t *testing.T) {
	s, err := Start("127.0.0.1:1", nil, "/bin/sh", "-c", "trap '' TERM; sleep 1000 & wait")
	if err != nil {
		t.Fatal(err)
	}
	child := 0
	if !Until(t.Context(), StartTime, func() bool {
		for _, p := range Processes().Below(s.Cmd.Process.Pid) {
			child = p.PID
		}
		return child > 0
	}) {
		t.Fatal("it starts nothing")
	}
	s.Kill()
	if !Until(t.Context(), StartTime, func() bool { _, there := Processes()[child]; return !there }) {
		t.Error("what it started goes on")
	}
}
