package engine_test

import (
	"context"
	"os"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
)

func TestOutputLimits(t *testing.T) {
	dir, err := os.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	var kept *engine.Run
	r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		o := leaves(t, "a", "12345", "b", "123456", "c", "123", "c", "again", "../d", "x", "e", "1234", "f", "1", "g", "1")
		for i := range o.Outputs {
			o.Outputs[i].Size = 1 // what the sandbox says is not believed
		}
		o.Outputs = append(o.Outputs, engine.Output{Path: "h", File: dir}, engine.Output{Path: "i"})
		return o, nil
	})
	req := python("")
	req.Profile.Limits.Files = engine.FileLimit{Count: 3, Bytes: 5, Total: 11}
	if kept, err = r.Run(t.Context(), alice, req); err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, f := range kept.Files {
		names = append(names, f.Path)
	}
	if want := []string{"a", "c", "f"}; !slices.Equal(names, want) {
		t.Errorf("kept %v, want %v", names, want)
	}
	want := []engine.DroppedFile{{Path: "b", Reason: "too large"}, {Path: "c", Reason: "name"},
		{Path: "../d", Reason: "name"}, {Path: "e", Reason: "too large"},
		{Path: "g", Reason: "too many files"}, {Path: "h", Reason: "not a regular file"},
		{Path: "i", Reason: "not a regular file"}}
	if diff := cmp.Diff(want, kept.Dropped); diff != "" {
		t.Error(diff)
	}
	const more = " A request may ask for 300 files, 256 MiB together (fields limits.output_files, " +
		"limits.output_total_bytes)."
	if !strings.HasPrefix(kept.Message, "7 files were not kept: b (too large), c (name), ") ||
		!strings.HasSuffix(kept.Message, more) {
		t.Errorf("message %q", kept.Message)
	}
}

// What a program called a file is said where the file has another name.
func TestRespelledOutputs(t *testing.T) {
	r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
		*engine.Outcome, error) {
		o := leaves(t, "caf%E9.txt", "1", "plain", "2")
		o.Outputs[0].Respelled = true
		return o, nil
	})
	run, err := r.Run(t.Context(), alice, python(""))
	if err != nil {
		t.Fatal(err)
	}
	if want := "Names that are not UTF-8 are written with %XX: caf%E9.txt."; run.Message != want || len(run.Files) != 2 {
		t.Errorf("%d files, message %q", len(run.Files), run.Message)
	}
}

func TestDiskFullOnOutputs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, engine.Config{}, func(ctx context.Context, spec *engine.Spec, host engine.Host) (
			*engine.Outcome, error) {
			host.Output(engine.Stdout, []byte("hello"))
			return leaves(t, "a.txt", "a", "b.txt", "b"), nil
		})
		full := func(what string) func(string) error {
			return func(op string) error {
				if op == what {
					return engine.ErrFull
				}
				return nil
			}
		}
		r.blobs.Fail(full("Put"))
		run, err := r.Run(t.Context(), alice, python(""))
		if err != nil {
			t.Fatal(err)
		}
		want := []engine.DroppedFile{{Path: "a.txt", Reason: "disk full"}, {Path: "b.txt", Reason: "disk full"}}
		if diff := cmp.Diff(want, run.Dropped); diff != "" || run.Status != engine.StatusError || run.Stdout != "hello" ||
			!strings.Contains(run.Message, "disk full") {
			t.Errorf("%+v\n%s", run, diff)
		}

		// The index has no room either: the result is published all the same,
		// says so, and is recorded when there is room again.
		r.blobs.Fail(nil)
		r.index.Fail(full("FinishRun"))
		run, err = r.Run(t.Context(), alice, python(""))
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, run.Dropped); diff != "" || run.Stdout != "hello" || len(run.Files) != 0 ||
			!strings.Contains(run.Message, "could not be recorded") {
			t.Errorf("%+v\n%s", run, diff)
		}
		checkRun(t, runFacts{Stdout: "hello"}, "before it is recorded")(r.GetRun(t.Context(), alice, run.ID))
		synctest.Wait() // the janitor has been woken
		r.index.Fail(nil)
		time.Sleep(31 * time.Second)
		synctest.Wait()
		recorded, err := r.index.Run(t.Context(), "alice", run.ID)
		if err != nil || recorded.Status != engine.StatusError || recorded.Stdout != "hello" ||
			strings.Contains(recorded.Message, "recorded") {
			t.Errorf("recorded %+v, %v", recorded, err)
		}
		if blobs, pinned := r.blobs.Len(); blobs != 0 || pinned != 0 {
			t.Errorf("%d blobs, %d pinned", blobs, pinned)
		}
		if run, err = r.Run(t.Context(), alice, python("")); err != nil || len(run.Files) != 2 || run.Message != "" {
			t.Errorf("with room again: %+v, %v", run, err)
		}
	})
}
