package engine

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

// captured returns the text that a capture lets through live, and all of it.
func captured(limit OutputLimit, pieces ...string) (live, all string, truncated bool) {
	c := NewCapture(limit)
	var text []byte
	for _, p := range pieces {
		text = c.Write(text, []byte(p))
	}
	live = string(text)
	text, truncated = c.Finish(text)
	return live, string(text), truncated
}

func TestCapture(t *testing.T) {
	onyx := OutputLimit{Bytes: 100, HeadOnly: true, Marker: "\n...[truncated]"}
	both := OutputLimit{Bytes: 100, Marker: "<%d>"}
	bare := OutputLimit{Bytes: 10, HeadOnly: true}
	x := func(n int) string { return strings.Repeat("x", n) }
	for _, tt := range []struct {
		name      string
		limit     OutputLimit
		in        []string
		live      string
		want      string
		truncated bool
	}{
		{"short", onyx, []string{"ab", "c"}, "abc", "abc", false},
		{"nothing", onyx, nil, "", "", false},
		{"exactly the limit", onyx, []string{x(100)}, x(68), x(100), false},
		{"one more, head", onyx, []string{x(101)}, x(68), x(68) + "\n...[truncated]", true},
		{"exactly the limit, head and tail", both, []string{x(100)}, x(34), x(100), false},
		{"one more, head and tail", both, []string{x(34), "abc", x(60), "tail"}, x(34), x(34) + "<33>" + x(30) + "tail",
			true},
		{"no marker", bare, []string{x(8), "日本"}, x(8), x(8), true},
		{"no room for the marker", OutputLimit{Bytes: 20, HeadOnly: true, Marker: "[much too long for this]"},
			[]string{x(30)}, x(20), x(20), true},
		{"limit 0", OutputLimit{}, []string{"abc"}, "", "", true},
		{"character over two writes", bare, []string{"\xe6\x97", "\xa5!"}, "日!", "日!", false},
		{"character over four writes", bare, []string{"\xf0", "\x9f", "\x98", "\x80"}, "😀", "😀", false},
		{"each bad byte", bare, []string{"a\xffb"}, "a\ufffdb", "a\ufffdb", false},
		{"unfinished at the end", bare, []string{"a\xe6\x97"}, "a", "a\ufffd\ufffd", false},
		{"unfinished, then another", bare, []string{"\xe6\x97", "a"}, "\ufffd\ufffda", "\ufffd\ufffda", false},
		{"bad bytes outgrow the limit", bare, []string{"\xff\xff\xff\xff"}, "\ufffd\ufffd\ufffd", "\ufffd\ufffd\ufffd", true},
		{"tail cut in a character", OutputLimit{Bytes: 8}, []string{"abcd日本日本"}, "abcd", "abcd本", true},
		{"tail cut in a character of four bytes", OutputLimit{Bytes: 8}, []string{"abcd😀😀x"}, "abcd", "abcdx",
			true},
		{"tail of bad bytes", OutputLimit{Bytes: 8}, []string{"abcd", x(20), "\xff\xff"}, "abcd", "abcd\ufffd",
			true},
	} {
		t.Run(tt.name, func(t *testing.T) {
			live, all, truncated := captured(tt.limit, tt.in...)
			if live != tt.live || all != tt.want || truncated != tt.truncated {
				t.Errorf("live %q, all %q, truncated %v; want %q, %q, %v", live, all, truncated, tt.live, tt.want, tt.truncated)
			}
		})
	}
}

// However the bytes are cut into writes, the text is the same, valid, within
// the limit, and the marker's number is right.
func TestCaptureAnyCut(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	alphabet := []string{"a", "b\n", "é", "日", "😀", "\xff", "\xe6", "\xf0\x9f"}
	for range 3000 {
		var in []byte
		for range rng.IntN(120) {
			in = append(in, alphabet[rng.IntN(len(alphabet))]...)
		}
		limit := OutputLimit{Bytes: rng.IntN(200), HeadOnly: rng.IntN(2) == 1}
		if rng.IntN(2) == 0 {
			limit.Marker = "[%d]"
		}
		_, whole, cut := captured(limit, string(in))
		var pieces []string
		for rest := in; len(rest) > 0; {
			n := 1 + rng.IntN(min(len(rest), 9))
			pieces, rest = append(pieces, string(rest[:n])), rest[n:]
		}
		live, again, cutAgain := captured(limit, pieces...)
		if whole != again || cut != cutAgain {
			t.Fatalf("%+v: %q whole gives %q, in pieces %q", limit, in, whole, again)
		}
		if len(whole) > limit.Bytes || !utf8.ValidString(whole) || !strings.HasPrefix(whole, live) {
			t.Fatalf("%+v: %q gives %q (%d bytes), live %q", limit, in, whole, len(whole), live)
		}
		all := string([]rune(string(in)))
		if fits := len(all) <= limit.Bytes; fits == cut || fits && whole != all {
			t.Fatalf("%+v: %q gives %q, truncated %v", limit, in, whole, cut)
		}
		if cut && limit.Marker != "" && limit.Bytes >= 2*markerRoom {
			open, end := strings.LastIndex(whole, "["), strings.LastIndex(whole, "]")
			var dropped int
			fmt.Sscanf(whole[open:], "[%d]", &dropped)
			kept := len(strings.ReplaceAll(whole[:open]+whole[end+1:], "\ufffd", "?"))
			if kept+dropped != len(in) {
				t.Fatalf("%+v: of %d bytes, %d kept and %d dropped in %q", limit, len(in), kept, dropped, whole)
			}
		}
	}
}

func testRun() *Run { return &Run{ID: NewID(), Status: StatusRunning, StartedAt: time.Now()} }

// joined checks the numbers of the events and returns the text of each stream.
func joined(t *testing.T, events []Event) (stdout, stderr string) {
	t.Helper()
	for i, e := range events {
		if e.Seq != i+1 {
			t.Fatalf("event %d has number %d", i, e.Seq)
		}
		switch {
		case e.Type == EventOutput && e.Data == "" || !utf8.ValidString(e.Data):
			t.Fatalf("event %d has data %q", i, e.Data)
		case e.Stream == Stdout:
			stdout += e.Data
		case e.Stream == Stderr:
			stderr += e.Data
		}
	}
	return stdout, stderr
}

func TestRunLogInvariant(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunLog(OutputLimit{Bytes: 5000, Marker: "<%d>"})
		run := testRun()
		r.start(run)
		var early []Event
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for e := range r.events.Watch(t.Context(), 0) {
				early = append(early, e)
			}
		})
		var writers sync.WaitGroup
		for _, stream := range []Stream{Stdout, Stderr} {
			writers.Go(func() {
				for i := range 4000 {
					r.output(stream, fmt.Appendf(nil, "%d日", i)[:3])
					if i%100 == 0 {
						time.Sleep(30 * time.Millisecond)
					}
				}
			})
		}
		writers.Wait()
		chunks, stdout, stderr, truncated := r.closeOutput()
		r.output(Stdout, []byte("too late"))
		run.Stdout, run.Stderr = stdout, stderr
		r.finish(run)
		watcher.Wait()

		if !truncated || len(stdout) > 5000 || len(stderr) > 5000 || !strings.Contains(stdout, "<") {
			t.Errorf("truncated %v, %d and %d bytes", truncated, len(stdout), len(stderr))
		}
		if out, err := joined(t, early); out != stdout || err != stderr {
			t.Error("the events do not join to the output")
		}
		if last := early[len(early)-1]; last.Type != EventResult || last.Run.Stdout != stdout {
			t.Errorf("last event is %v", last.Type)
		}
		stored := replay(run, chunks)
		if diff := cmp.Diff(early[1:], stored[1:]); diff != "" {
			t.Errorf("live and replayed differ:\n%s", diff)
		}
		// Coming back in the middle, and after the end.
		var rest []Event
		middle := len(early) / 2
		for e := range r.events.Watch(t.Context(), middle) {
			rest = append(rest, e)
		}
		if diff := cmp.Diff(early[middle:], rest); diff != "" {
			t.Errorf("after %d of %d:\n%s", middle, len(early), diff)
		}
		for _, after := range []int{len(early), len(early) + 10} {
			for e := range r.events.Watch(t.Context(), after) {
				t.Errorf("after the end came %v", e)
			}
		}
	})
}

// Held-back text may come as one large piece: its events are small all the
// same, and cut between characters.
func TestRunLogLargePiece(t *testing.T) {
	r := newRunLog(OutputLimit{Bytes: 1 << 20})
	r.start(testRun())
	text := "x" + strings.Repeat("日本", 50_000)
	r.output(Stdout, []byte(text))
	_, stdout, _, _ := r.closeOutput()
	if out, _ := joined(t, r.events.All()); out != text || stdout != text {
		t.Error("the text differs")
	}
	for _, e := range r.events.All() {
		if len(e.Data) > largestEvent {
			t.Errorf("an event of %d bytes", len(e.Data))
		}
	}
}

func TestRunLogBatches(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunLog(OutputLimit{Bytes: 1 << 20, HeadOnly: true})
		r.start(testRun())
		for range 200_000 {
			r.output(Stdout, []byte("x"))
			r.output(Stderr, []byte("y"))
		}
		synctest.Wait()
		if n := len(r.events.All()); n > eagerEvents+2*200_000/batchBytes+2 {
			t.Errorf("%d events", n)
		}
		var got int
		ctx, cancel := context.WithTimeout(t.Context(), 2*batchTime)
		defer cancel()
		for e := range r.events.Watch(ctx, 0) {
			got += len(e.Data)
		}
		if got != 400_000 {
			t.Errorf("after %v a watcher has %d bytes", 2*batchTime, got)
		}
		r.closeOutput()
	})
}

// Text passes on at once, and what follows it closely soon after in few events, in the
// order in which it came.
func TestRunLogMoments(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunLog(OutputLimit{Bytes: 1 << 20, HeadOnly: true})
		texts := func() (list []string) {
			r.mu.Lock()
			defer r.mu.Unlock()
			for _, e := range r.events.All() {
				list = append(list, string(e.Stream)+" "+e.Data)
			}
			return list
		}
		r.output(Stdout, []byte("first"))
		if diff := cmp.Diff([]string{"stdout first"}, texts()); diff != "" {
			t.Errorf("at once: %s", diff)
		}
		for range 350 {
			r.output(Stderr, []byte("x"))
		}
		r.output(Stdout, []byte("a"))
		r.output(Stderr, []byte("b"))
		r.output(Stdout, []byte("c"))
		time.Sleep(momentTime)
		synctest.Wait()
		want := []string{"stdout first", "stderr " + strings.Repeat("x", 350), "stdout a", "stderr b", "stdout c"}
		if diff := cmp.Diff(want, texts()); diff != "" {
			t.Errorf("after a moment: %s", diff)
		}
		time.Sleep(momentTime)
		r.output(Stderr, []byte("later"))
		if diff := cmp.Diff(append(want, "stderr later"), texts()); diff != "" {
			t.Errorf("after a while: %s", diff)
		}
		r.output(Stderr, []byte("more"))
		r.flushNow()
		if diff := cmp.Diff(append(want, "stderr later", "stderr more"), texts()); diff != "" {
			t.Errorf("before a call: %s", diff)
		}
		r.output(Stderr, []byte("end"))
		r.closeOutput()
		r.flushNow()
	})
}

// A watcher that reads nothing blocks neither the program nor other watchers.
func TestSlowWatcher(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRunLog(OutputLimit{Bytes: 1000})
		r.start(testRun())
		ctx, cancel := context.WithCancel(t.Context())
		stuck := make(chan struct{})
		var watcher sync.WaitGroup
		watcher.Go(func() {
			for range r.events.Watch(ctx, 0) {
				<-stuck
			}
		})
		synctest.Wait()
		for range 10_000 {
			r.output(Stdout, []byte("0123456789"))
		}
		r.closeOutput()
		r.finish(testRun())
		cancel()
		close(stuck)
		watcher.Wait()
	})
}

func TestGigabyteOfOutput(t *testing.T) {
	for _, limit := range []OutputLimit{
		{Bytes: mebibyte, Marker: defaultMarker},
		{Bytes: mebibyte, HeadOnly: true, Marker: defaultMarker},
	} {
		r := newRunLog(limit)
		block := bytes.Repeat([]byte("0123456789abcdef"), 4096)
		var before, now runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		var most uint64
		for i := range 1 << 30 / len(block) {
			r.output(Stdout, block)
			if i%2048 == 0 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc-min(now.HeapAlloc, before.HeapAlloc))
			}
		}
		if most > 8*mebibyte {
			t.Errorf("tail %v: the heap grew by %d bytes", !limit.HeadOnly, most)
		}
		_, stdout, _, truncated := r.closeOutput()
		if !truncated || len(stdout) > mebibyte || len(stdout) < mebibyte/2 {
			t.Errorf("tail %v: %d bytes, truncated %v", !limit.HeadOnly, len(stdout), truncated)
		}
	}
}
