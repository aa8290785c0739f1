package engine_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

// prints is a program that prints and leaves files, given as path, content, path, content.
func prints(t *testing.T, stdout, stderr string, files ...string) func(
	context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) {
	return func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		for text := stdout; text != ""; {
			n := min(len(text), 5000)
			host.Output(engine.Stdout, []byte(text[:n]))
			text = text[n:]
		}
		host.Output(engine.Stderr, []byte(stderr))
		return leaves(t, files...), nil
	}
}

// Output whose middle is left out is a file of the run, and the line in its place names the file.
func TestWholeOutput(t *testing.T) {
	long := strings.Repeat("0123456789\n", 3000)
	bad := strings.Repeat("\xff", 5000)
	for _, tt := range []struct {
		name           string
		stdout, stderr string
		files          []string
		limit          engine.FileLimit
		output         engine.OutputLimit
		discard        bool
		want           map[string]string
		line           string
		dropped        []engine.DroppedFile
	}{
		{name: "short", stdout: "short", want: map[string]string{}},
		{name: "long", stdout: long, want: map[string]string{"stdout.txt": long}, line: "all of it is in stdout.txt ..."},
		{name: "stderr", stderr: long, want: map[string]string{"stderr.txt": long}},
		{name: "both", stdout: long, stderr: bad, want: map[string]string{"stdout.txt": long, "stderr.txt": bad}},
		{name: "bytes that are no text", stdout: bad, want: map[string]string{"stdout.txt": bad},
			line: "all of it is in stdout.txt ..."},
		{name: "a file of that name", stdout: long, files: []string{"stdout.txt", "mine"},
			want: map[string]string{"stdout.txt": "mine", "stdout_2.txt": long}, line: "in stdout_2.txt ..."},
		{name: "a folder of that name", stdout: long, files: []string{"stdout.txt/a", "mine"},
			want: map[string]string{"stdout.txt/a": "mine", "stdout_2.txt": long}},
		{name: "more than a file may have", stdout: long, limit: engine.FileLimit{Count: 9, Bytes: 20_000, Total: 90_000},
			want: map[string]string{"stdout.txt": long[:20_000]}, line: "its first 20000 bytes are in stdout.txt ..."},
		{name: "no room beside the program's", stdout: long, files: []string{"a", "1"},
			limit: engine.FileLimit{Count: 1, Bytes: 40_000, Total: 40_000}, want: map[string]string{"a": "1"},
			line:    " bytes of output left out ...",
			dropped: []engine.DroppedFile{{Path: "stdout.txt", Reason: "too many files"}}},
		{name: "no files wanted", stdout: long, discard: true, want: map[string]string{}, line: "left out ..."},
		{name: "a protocol's own line", stdout: long, want: map[string]string{}, line: "<cut>",
			output: engine.OutputLimit{Bytes: 4000, HeadOnly: true, Marker: "<cut>"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := newRig(t, engine.Config{}, prints(t, tt.stdout, tt.stderr, tt.files...))
			req := python("")
			req.Profile.Limits.Output, req.Profile.Limits.Files = tt.output, tt.limit
			if tt.output.Bytes == 0 {
				req.Profile.Limits.Output.Bytes = 6000
			}
			req.Profile.Files.Discard = tt.discard
			run, err := r.Run(t.Context(), alice, req)
			if err != nil {
				t.Fatal(err)
			}
			got := map[string]string{}
			for _, f := range run.Files {
				got[f.Path] = r.read(t, alice, f.ID)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Error(diff)
			}
			if !strings.Contains(run.Stdout, tt.line) || len(run.Stdout) > 6000 {
				t.Errorf("%d bytes of stdout without %q", len(run.Stdout), tt.line)
			}
			if want := len(tt.stdout)+len(tt.stderr) > 100; run.Truncated != want {
				t.Errorf("truncated %v, want %v", run.Truncated, want)
			}
			if diff := cmp.Diff(tt.dropped, run.Dropped); diff != "" {
				t.Error(diff)
			}
			if blobs, pinned := r.blobs.Len(); pinned != 0 || tt.dropped == nil && blobs != len(tt.want) {
				t.Errorf("%d blobs for %d files, %d pinned", blobs, len(tt.want), pinned)
			}
		})
	}
}

// A session keeps the whole output of each of its runs.
func TestWholeOutputAgain(t *testing.T) {
	long := strings.Repeat("0123456789\n", 3000)
	r := newRig(t, engine.Config{}, prints(t, long, ""))
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{})
	if err != nil {
		t.Fatal(err)
	}
	for n := range 11 {
		req := python("")
		req.Session = session.ID
		req.Profile.Limits.Output.Bytes = 6000
		run, err := r.Run(t.Context(), alice, req)
		if err != nil {
			t.Fatal(err)
		}
		want := fmt.Sprintf("stdout_%d.txt", n+1)
		if n == 0 {
			want = "stdout.txt"
		}
		switch {
		case n < 9 && (len(run.Files) != 1 || run.Files[0].Path != want):
			t.Errorf("run %d left %v, want %s", n, run.Files, want)
		case n >= 9 && (len(run.Files) != 0 || len(run.Dropped) != 1):
			t.Errorf("run %d left %v", n, run.Files)
		}
	}
}

// On a full disk the run is as it is without, and says what was not kept.
func TestWholeOutputDiskFull(t *testing.T) {
	r := newRig(t, engine.Config{}, prints(t, strings.Repeat("0123456789\n", 3000), ""))
	r.blobs.Fail(func(string) error { return engine.ErrFull })
	req := python("")
	req.Profile.Limits.Output.Bytes = 6000
	run, err := r.Run(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	want := []engine.DroppedFile{{Path: "stdout.txt", Reason: "disk full"}}
	if diff := cmp.Diff(want, run.Dropped); diff != "" || run.Status != engine.StatusOK || !run.Truncated {
		t.Errorf("%s, truncated %v: %s", run.Status, run.Truncated, diff)
	}
	if !strings.Contains(run.Stdout, " bytes of output left out ...]") || !strings.Contains(run.Message, "disk full") {
		t.Errorf("%q, %q", run.Message, run.Stdout)
	}
}

// The memory that a run takes does not grow with its output.
func TestWholeOutputMemory(t *testing.T) {
	const size = 200 << 20
	var most uint64
	r := newRig(t, engine.Config{}, func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		piece := []byte(strings.Repeat("x", 1<<20))
		var now runtime.MemStats
		for n := range size / len(piece) {
			host.Output(engine.Stdout, piece)
			if n%20 == 19 {
				runtime.GC()
				runtime.ReadMemStats(&now)
				most = max(most, now.HeapAlloc)
			}
		}
		return leaves(t), nil
	})
	var before runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&before)
	req := python("")
	req.Profile.Limits.Files = engine.FileLimit{Count: 1, Bytes: 1 << 20, Total: 1 << 20}
	run, err := r.Run(t.Context(), alice, req)
	if err != nil {
		t.Fatal(err)
	}
	if grown := most - min(most, before.HeapAlloc); grown > 12<<20 {
		t.Errorf("%d MiB more in use", grown>>20)
	}
	if len(run.Files) != 1 || run.Files[0].Size != 1<<20 {
		t.Errorf("left %v", run.Files)
	}
}

// A run that fails in the sandbox leaves nothing of its output behind.
func TestWholeOutputInterrupted(t *testing.T) {
	r := newRig(t, engine.Config{}, func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte(strings.Repeat("x", 10_000)))
		return nil, &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.New("gone")}
	})
	req := python("")
	req.Profile.Limits.Output.Bytes = 6000
	if _, err := r.Run(t.Context(), alice, req); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("got %v", err)
	}
	if blobs, pinned := r.blobs.Len(); blobs != 0 || pinned != 0 {
		t.Errorf("%d blobs, %d pinned", blobs, pinned)
	}
}
