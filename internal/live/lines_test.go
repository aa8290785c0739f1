package live

import (
	"slices"
	"strconv"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// pieces are the events of text.
func pieces(l *log) (all []string) {
	for _, e := range l.events.All() {
		if e.Type == Stdout || e.Type == Stderr {
			all = append(all, e.Text)
		}
	}
	return all
}

// A line comes in one piece, or when its end has not come for a while, or when its
// program wants it seen.
func TestLines(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(newLog(engine.OutputLimit{Bytes: 1 << 20}))
		expect := func(wanted ...string) {
			t.Helper()
			if got := pieces(l); !slices.Equal(got, wanted) {
				t.Errorf("%q, not %q", got, wanted)
			}
			l.mu.Lock()
			l.events = engine.EventLog[Event]{}
			l.mu.Unlock()
		}
		for _, part := range []string{"one", " ", "two"} {
			l.write(Stdout, part, false)
		}
		expect()
		l.write(Stdout, "\n", false)
		expect("one two\n")
		l.write(Stdout, "a\nb", false) // just after another
		expect()
		time.Sleep(textWait)
		synctest.Wait()
		expect("a\n")
		time.Sleep(lineWait)
		synctest.Wait()
		expect("b")
		l.write(Stdout, "50 %", true)
		expect("50 %")
		l.write(Stdout, "51", false)
		l.write(Stdout, "", true)
		expect("51")
		l.write(Stdout, "out", false)
		l.write(Stderr, "err", false)
		expect("out")
		l.write(Stderr, strings.Repeat("x", textGather), false)
		expect("err" + strings.Repeat("x", textGather))
		l.write(Stdout, "end", false)
		if all := l.outputs(); len(all) != 1 || all[0].Text != "end" {
			t.Errorf("half a line as it stands: %v", all)
		}
		expect()
		l.end(Cell{})
		expect("end")
	})
}

// What print prints is one message.
func TestPrintIsOneMessage(t *testing.T) {
	p := open(t, Config{})
	s := p.session("python")
	for code, wanted := range map[string][]string{
		"print('one', 'two', 3)": {"one two 3\n"},
		"import time\nclass Slow:\n def __str__(self): time.sleep(0.3); return 'slow'\nprint('a', Slow())":    {"a slow\n"},
		"print('a', 'b', sep='', end='!', flush=True); print('c')":                                            {"ab!", "c\n"},
		"class Bad:\n def __str__(self): 1/0\ntry: print('x', Bad())\nexcept ZeroDivisionError: print()":      {"x \n"},
		"import sys; sys.stdout.write('p'); sys.stdout.flush(); print('q', file=sys.stderr)":                  {"p", "q\n"},
		"import os, sys\nif not (pid := os.fork()): print('of', 'a child'); os._exit(0)\nos.waitpid(pid, 0);": {"of a child\n"},
		"import io; f = io.StringIO(); print('kept', 1, file=f, end='.'); print(f.getvalue())":                {"kept 1.\n"},
		"try: print(1, sep=2)\nexcept TypeError as e: print(e)":                                               {"sep must be None or a string, not int\n"},
	} {
		c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: code, Silent: true})
		if err != nil {
			t.Fatal(err)
		}
		p.want(p.end(s, c.ID), StatusOK)
		events, err := p.Watch(t.Context(), p.caller, s, c.ID, 0)
		if err != nil {
			t.Fatal(err)
		}
		var all []string
		for e := range events {
			if e.Type == Stdout || e.Type == Stderr {
				all = append(all, e.Text)
			}
		}
		if !slices.Equal(all, wanted) {
			t.Errorf("%s: %q, not %q", code, all, wanted)
		}
	}
}

// Of a cell with many events, text comes in the order of its streams.
func TestGathered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := new(newLog(engine.OutputLimit{Bytes: 1 << 20}))
		for range eagerEvents {
			l.add(Event{Output: Output{Type: ClearEvent}})
		}
		l.write(Stdout, "out", true)
		l.write(Stderr, "err", true)
		if all := l.outputs(); len(all) != 2 || all[0].Text != "out" || all[1].Text != "err" || len(pieces(l)) != 0 {
			t.Errorf("%v, %q", all, pieces(l))
		}
		time.Sleep(gatherWait)
		synctest.Wait()
		if got := pieces(l); !slices.Equal(got, []string{"out", "err"}) {
			t.Errorf("%q", got)
		}
	})
}

// No program makes the service remember an event for each of its bytes, and none of its text
// is lost for that.
func TestManyEvents(t *testing.T) {
	const many = 100_000
	for name, put := range map[string]func(l *log){
		"streams in turn": func(l *log) { l.write(Stdout, "a", false); l.write(Stderr, "b", false) },
		"flushed":         func(l *log) { l.write(Stdout, "a", true); l.write(Stderr, "b", true) },
		"cleared": func(l *log) {
			l.write(Stdout, "a", true)
			l.write(Stderr, "b", true)
			l.add(Event{Output: Output{Type: ClearEvent}})
		},
		"errors": func(l *log) { l.add(Event{Output: Output{Type: Error, Value: strings.Repeat("x", 1000)}}) },
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := new(newLog(engine.OutputLimit{Bytes: 1 << 20}))
				for range many {
					put(l)
				}
				shown := map[OutputType]int{}
				for _, o := range l.outputs() {
					shown[o.Type] += len(o.Text)
				}
				l.end(Cell{})
				if n := len(l.events.All()); n > 2*eagerEvents+100 {
					t.Errorf("%d events", n)
				}
				written := map[OutputType]int{}
				for e := range l.events.Watch(t.Context(), 0) {
					written[e.Type] += len(e.Text)
				}
				if name != "cleared" && name != "errors" &&
					(written[Stdout] != many || written[Stderr] != many || shown[Stdout] != many || shown[Stderr] != many) {
					t.Errorf("%v and %v of %d bytes each", written, shown, many)
				}
				if name == "errors" && written[Stderr] != len(leftOut) {
					t.Errorf("%d bytes say that errors were left out", written[Stderr])
				}
				if name == "cleared" && shown[Stdout]+shown[Stderr] != 0 {
					t.Errorf("%v is shown after it was cleared", shown)
				}
			})
		})
	}
}

// Of text over the limit the beginning and the end are kept, and a line between them counts the
// rest. What was cleared does not come back with the end.
func TestTextOverLimit(t *testing.T) {
	limit := engine.OutputLimit{Bytes: 1000, Marker: "\n[... %d bytes left out ...]\n"}
	for name, tt := range map[string]struct {
		put       func(l *log)
		want      string
		truncated bool
	}{
		"just as much": {func(l *log) { l.write(Stdout, strings.Repeat("x", 1000), false) }, strings.Repeat("x", 1000), false},
		"more": {func(l *log) {
			l.write(Stdout, "first\n", true)
			for range 2000 {
				l.write(Stdout, "a line\n", false)
			}
			l.write(Stdout, "last\n", true)
		}, "", true},
		"cleared": {func(l *log) {
			l.write(Stdout, strings.Repeat("x", 5000), true)
			l.add(Event{Output: Output{Type: ClearEvent}})
			l.write(Stdout, "last\n", true)
		}, "last\n", false},
	} {
		t.Run(name, func(t *testing.T) {
			l := new(newLog(limit))
			tt.put(l)
			truncated := l.end(Cell{})
			all := l.outputs()
			if len(all) != 1 || truncated != tt.truncated || len(all[0].Text) > limit.Bytes {
				t.Fatalf("truncated %v, %v", truncated, all)
			}
			got := all[0].Text
			last := l.events.All()[len(l.events.All())-1].Cell
			if last.Truncated != truncated || last.Outputs[0].Text != got {
				t.Errorf("the last event says otherwise: %+v", last)
			}
			if tt.want != "" {
				if got != tt.want {
					t.Errorf("%q", got)
				}
				return
			}
			head, rest, _ := strings.Cut(got, "\n[... ")
			count, tail, _ := strings.Cut(rest, " bytes left out ...]\n")
			left, err := strconv.Atoi(count)
			if whole := len("first\nlast\n") + 2000*len("a line\n"); err != nil || left+len(head)+len(tail) != whole {
				t.Errorf("%d and %d bytes and %q, of %d: %v", len(head), len(tail), count, whole, err)
			}
			if !strings.HasPrefix(head, "first\n") || !strings.HasSuffix(tail, "a line\nlast\n") {
				t.Errorf("%q", got)
			}
		})
	}
}
