package pytool_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/pytool"
)

func TestSafeName(t *testing.T) {
	for given, want := range map[string]string{
		"a.csv":                           "a.csv",
		"":                                "file",
		"...":                             "file",
		".. x ..":                         " x ",
		"/etc/passwd":                     "_etc_passwd",
		"../../x":                         "_.._x",
		`C:\\dir\x?.txt`:                  "C_dir_x_.txt",
		"a\x00\nb.csv":                    "a_b.csv",
		"a\u202Eb":                        "a\u202Eb",
		"می\u200cخواهم.csv":               "می\u200cخواهم.csv",
		"👨\u200d👩\u200d👧.png":             "👨\u200d👩\u200d👧.png",
		"\u200eIMG\u2028\u0085.jpg":       "\u200eIMG\u2028\u0085.jpg",
		"e\u0301\x1b\x7f.txt":             "e\u0301_.txt",
		".env":                            "env",
		"日本.csv":                          "日本.csv",
		"bad\xff.csv":                     "bad_.csv",
		strings.Repeat("x", 300) + ".csv": strings.Repeat("x", 196) + ".csv",
		strings.Repeat("日", 300) + ".csv": strings.Repeat("日", 78) + ".csv",
	} {
		if got := pytool.SafeName(given); got != want {
			t.Errorf("%q: %q, want %q", given, got, want)
		}
	}
}

func paths(req pytool.Request) []string {
	var list []string
	for _, f := range req.Files {
		list = append(list, f.Path)
	}
	return list
}

func TestStaging(t *testing.T) {
	chat := func(names ...string) (files []pytool.ChatFile) {
		for i, name := range names {
			files = append(files, pytool.ChatFile{ID: fmt.Sprint(i), Name: name})
		}
		return files
	}
	contents := map[string]string{"0": "00000", "1": "11111", "2": "22222", "3": "33333", "4": "44444"}
	cases := []struct {
		name   string
		code   string
		files  []pytool.ChatFile
		cfg    pytool.Config
		broken string
		staged []string
		notice string
	}{
		{name: "none"},
		{name: "all, in the order of the chat", files: chat("a", "b", "c"), staged: []string{"a", "b", "c"}},
		{name: "the newest win", files: chat("a", "b", "c"), cfg: pytool.Config{MaxStagedFiles: 2},
			staged: []string{"b", "c"},
			notice: "1 of 3 session files were not staged due to per-execution limits (2 files / 104857600 bytes); files " +
				"referenced in the code were prioritized."},
		{name: "but those that the code names come first", code: "open('a')", files: chat("a", "b", "c"),
			cfg: pytool.Config{MaxStagedFiles: 2}, staged: []string{"a", "c"},
			notice: "1 of 3 session files were not staged due to per-execution limits (2 files / 104857600 bytes); files " +
				"referenced in the code were prioritized."},
		{name: "by their raw name too", code: "open('x/y.csv')", files: chat("x/y.csv", "q1", "q2"),
			cfg: pytool.Config{MaxStagedFiles: 1}, staged: []string{"x_y.csv"},
			notice: "2 of 3 session files were not staged due to per-execution limits (1 files / 104857600 bytes); files " +
				"referenced in the code were prioritized."},
		{name: "bytes", files: chat("a", "b", "c"), cfg: pytool.Config{MaxStagedBytes: 10}, staged: []string{"b", "c"},
			notice: "1 of 3 session files were not staged due to per-execution limits (25 files / 10 bytes); files referenced " +
				"in the code were prioritized."},
		{name: "the first always fits", files: chat("a"), cfg: pytool.Config{MaxStagedBytes: 1}, staged: []string{"a"}},
		{name: "names of their own", files: chat("a.csv", "a.csv", "a_1.csv", "__main__.py", ""),
			staged: []string{"a.csv", "a_1.csv", "a_1_2.csv", "__main___3.py", "file"}},
		{name: "some fail", files: append(chat("a", "b"), pytool.ChatFile{ID: "unknown", Name: "c"}), broken: "a",
			staged: []string{"b"}, notice: "Failed to stage 2 file(s): a, c."},
		{name: "both notices", files: append(chat("x", "a", "b"), pytool.ChatFile{ID: "unknown", Name: "c"}),
			cfg: pytool.Config{MaxStagedFiles: 2}, staged: []string{"b"},
			notice: "2 of 4 session files were not staged due to per-execution limits (2 files / 104857600 bytes); files " +
				"referenced in the code were prioritized. Failed to stage 1 file(s): c."},
	}
	for _, test := range cases {
		t.Run(test.name, func(t *testing.T) {
			r := newRunner(nil)
			r.refuse[test.broken] = errors.New("refused")
			_, result := call(t, newTool(t, r, newStore(contents), test.cfg), test.code, test.files...)
			if diff := cmp.Diff(test.staged, paths(r.requests[0])); diff != "" {
				t.Error(diff)
			}
			notice := ""
			if result.StagingNotice != nil {
				notice = *result.StagingNotice
			}
			if notice != test.notice {
				t.Errorf("notice %q", notice)
			}
		})
	}
}

// What was uploaded is not uploaded again, unless the service has forgotten
// it: then it is, and the turn is not lost.
func TestStagingCache(t *testing.T) {
	r, s := newRunner(nil), newStore(map[string]string{"a": "1", "b": "2"})
	tool := newTool(t, r, s, pytool.Config{})
	files := []pytool.ChatFile{{ID: "a", Name: "a.csv"}, {ID: "b", Name: "b.csv"}}
	for range 3 {
		call(t, tool, "x", files...)
	}
	if len(r.uploads) != 2 {
		t.Errorf("uploaded %v", r.uploads)
	}
	s.mu.Lock()
	s.files["b"] = []byte("changed")
	s.mu.Unlock()
	call(t, tool, "x", files...)
	if diff := cmp.Diff([]string{"b.csv"}, r.uploads[2:]); diff != "" {
		t.Errorf("after a change: %s", diff)
	}
	r.mu.Lock()
	clear(r.files)
	r.mu.Unlock()
	_, result := call(t, tool, "x", files...)
	if *result.ExitCode != 0 || len(r.uploads) != 5 {
		t.Errorf("after the service forgot: %s, %v", result.JSON(), r.uploads)
	}
	if len(r.deleted) > 0 {
		t.Errorf("staged files are deleted: %v", r.deleted)
	}
}

func TestUploadsAtATime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 3
		contents, files := map[string]string{}, []pytool.ChatFile{}
		for i := range 20 {
			id := fmt.Sprint(i)
			contents[id] = id
			files = append(files, pytool.ChatFile{ID: id, Name: id + ".csv"})
		}
		r := &gated{runner: newRunner(nil), gate: make(chan struct{})}
		tool := newTool(t, r, newStore(contents), pytool.Config{StagingConcurrency: limit})
		done := make(chan struct{})
		go func() {
			defer close(done)
			callWith(t.Context(), tool, pytool.Call{Arguments: []byte(`{"code":"x"}`), Files: files})
		}()
		synctest.Wait() // all that can begin has begun
		if now := r.waiting.Load(); now != limit {
			t.Errorf("%d uploads at a time", now)
		}
		close(r.gate)
		<-done
		if len(r.uploads) != 20 {
			t.Errorf("uploaded %v", r.uploads)
		}
	})
}

// gated holds uploads up at a gate.
type gated struct {
	*runner
	gate    chan struct{}
	waiting atomic.Int64
}

func (g *gated) Upload(ctx context.Context, name string, size int64, content io.Reader) (string, error) {
	g.waiting.Add(1)
	<-g.gate
	return g.runner.Upload(ctx, name, size, content)
}
