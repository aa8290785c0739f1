package provider_test

import (
	"context"
	"errors"
	"io"
	"iter"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// shelves is a provider with sessions that hold whatever a test puts there.
type shelves struct {
	provider.Provider
	sessions map[string][]provider.FileInfo
	content  map[string]string // by id, else by path
	listing  error             // after the files
	mode     provider.OutputMode
}

func (s *shelves) Name() string { return "fake" }
func (s *shelves) Caps() provider.Capabilities {
	mode := s.mode
	if mode == "" {
		mode = provider.OutputListing
	}
	return provider.Capabilities{Outputs: mode, Sessions: true, SessionFiles: mode == provider.OutputListing}
}
func (s *shelves) Files() provider.FileStore       { return shelvedFiles{s: s} }
func (s *shelves) Sessions() provider.SessionStore { return shelvedSessions{s: s} }

type shelvedFiles struct {
	provider.FileStore
	s *shelves
}

func (f shelvedFiles) Open(
	_ context.Context, r provider.FileRef, offset int64,
) (io.ReadCloser, provider.FileInfo, error) {
	for _, key := range []string{r.ID, r.Path} {
		if data, ok := f.s.content[key]; ok && key != "" {
			return io.NopCloser(strings.NewReader(data[offset:])), provider.FileInfo{Ref: r, Size: -1}, nil
		}
	}
	return nil, provider.FileInfo{}, &provider.Error{Kind: provider.FileNotFound, Status: 404, Message: "File not found."}
}

type shelvedSessions struct {
	provider.NoSessions
	s *shelves
}

func (f shelvedSessions) Files(_ context.Context, id string) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		for _, info := range f.s.sessions[id] {
			if !yield(info, nil) {
				return
			}
		}
		if f.s.listing != nil {
			yield(provider.FileInfo{}, f.s.listing)
		}
	}
}

// inside is a file that code made in a session.
func inside(session, id, path string, size int64, created time.Time) provider.FileInfo {
	return provider.FileInfo{Ref: provider.FileRef{Scope: provider.ScopeSession, Session: session, ID: id, Path: path},
		Name: path[strings.LastIndex(path, "/")+1:], Size: size, Created: created, Origin: provider.OriginModel}
}

func collect(
	t *testing.T, s *shelves, before provider.Snapshot, r *provider.RunResult,
) (*provider.Collection, map[string]string) {
	t.Helper()
	q, err := provider.OpenQuarantine(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = q.Close() })
	c := provider.Collector{Quarantine: q, Retry: provider.Retry{Clock: providertest.NewClock()}}
	found, err := c.Collect(t.Context(), s, before, r)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range found.Files {
		file, err := q.Open(f.SHA256)
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(file)
		file.Close()
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name] = string(data)
	}
	return found, got
}

func ran(session, text string) *provider.RunResult {
	return &provider.RunResult{Text: text, Sessions: []provider.Session{{ID: session}}}
}

// Names as models and services write them. What comes out is a base name that
// every file system takes, and no two are the same.
func TestNamesOfOutputs(t *testing.T) {
	now := time.Unix(1000, 0)
	paths := map[string]string{
		"/mnt/data/../../etc/passwd": "passwd", "/mnt/data/new\nline.txt": "newline.txt",
		"/mnt/data/zero\x00.txt":  "zero.txt",
		"/mnt/data/\u202egnp.exe": "gnp.exe", "/mnt/data/sub/a.csv": "a.csv", "/mnt/data/A.csv": "A-2.csv",
		"/mnt/data/.env":         "env",
		"/mnt/data/output-7.csv": "output-7.csv", "/mnt/data/aux.txt": "_aux.txt",
		"/mnt/data/two\u2028lines.md":                    "twolines.md",
		"/mnt/data/" + strings.Repeat("x", 300) + ".csv": strings.Repeat("x", 196) + ".csv",
	}
	s := &shelves{sessions: map[string][]provider.FileInfo{}, content: map[string]string{}}
	var order []string
	for p := range paths {
		order = append(order, p)
	}
	slices.SortFunc(order, func(a, b string) int { return strings.Compare(b, a) }) // sub/a.csv before A.csv
	for _, p := range order {
		s.sessions["c"] = append(s.sessions["c"], inside("c", "", p, -1, now))
		s.content[p] = p
	}
	_, got := collect(t, s, nil, ran("c", ""))
	want := map[string]string{}
	for p, name := range paths {
		want[name] = p
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// Links say what was promised, however they are written. What is there is not
// missing, an input is no promise, and prose is none either.
func TestLinksOfAnswers(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &shelves{content: map[string]string{"1": "x", "2": "y", "4": "z"}, sessions: map[string][]provider.FileInfo{"c": {
		inside("c", "1", "/mnt/data/my file (1).csv", 1, now), inside("c", "2", "/mnt/data/a#b?.txt", 1, now),
		inside("c", "4", "/mnt/data/tom's R&D.csv", 1, now),
		{Ref: provider.FileRef{Scope: provider.ScopeSession, Session: "c", ID: "3",
			Path: "/mnt/data/file-MDLqXXXXXXXXXXXXXXXX-data.csv"}, Name: "data.csv", Origin: provider.OriginUser},
	}}}
	for text, want := range map[string][]string{
		"[it](sandbox:/mnt/data/my file (1).csv)":                                                 nil,
		"[it](<sandbox:/mnt/data/my file (1).csv>)":                                               nil,
		"[it](sandbox:/mnt/data/my%20file%20%281%29.csv)":                                         nil,
		"[it](sandbox:/mnt/data/my%20file%20(1).csv \"a file\")":                                  nil,
		"[it](sandbox:/mnt/data/a%23b%3F.txt)":                                                    nil,
		"[in](sandbox:/mnt/data/data.csv)":                                                        nil,
		"[in](sandbox:/mnt/data/file-MDLqXXXXXXXXXXXXXXXX-data.csv)":                              nil,
		"see sandbox:/mnt/data/tom's R&D.csv, from sandbox:/mnt/data/my file (1).csv":             nil,
		"see sandbox:/mnt/data/tom's ghost.csv":                                                   {"tom"},
		"see sandbox:/mnt/data/ghost.csv.":                                                        {"ghost.csv"},
		"`sandbox:/mnt/data/ghost.csv`":                                                           {"ghost.csv"},
		"[a](sandbox:/mnt/data/ghost.csv?download=1) [b](sandbox:/mnt/data/ghost.csv?download=1)": {"ghost.csv"},
		"[a](/mnt/data/ghost.csv)":                                                                {"ghost.csv"},
		"[a](file:///mnt/data/ghost.csv)":                                                         {"ghost.csv"},
		"[a](sandbox:/mnt/data/../../etc/passwd)":                                                 {"passwd"},
		"[a](https://example.org/mnt/data/x.csv) in /mnt/data/y.csv":                              nil,
		"[a](sandbox:)":                   nil,
		"**sandbox:/mnt/data/ghost.csv**": {"ghost.csv"},
	} {
		found, _ := collect(t, s, nil, ran("c", text))
		if diff := cmp.Diff(want, found.Missing); diff != "" {
			t.Errorf("%s:\n%s", text, diff)
		}
	}
}

// A file that is listed and cannot be fetched is named, and stops no other; one
// that the listing breaks off after is still fetched.
func TestListingsThatLie(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &shelves{content: map[string]string{"1": "one", "3": ""}, listing: provider.Repeats("fake", "list"),
		sessions: map[string][]provider.FileInfo{"c": {
			inside("c", "1", "/mnt/data/one.csv", 3, now), inside("c", "2", "/mnt/data/deleted.csv", 3, now),
			inside("c", "3", "/mnt/data/empty", 0, now),
		}}}
	found, got := collect(t, s, nil, ran("c", ""))
	if diff := cmp.Diff(map[string]string{"one.csv": "one", "empty": ""}, got); diff != "" {
		t.Error(diff)
	}
	if len(found.Failed) != 1 || !errors.Is(found.Failed[0].Err, provider.FileNotFound) || len(found.Blind) != 1 {
		t.Errorf("failed %v, blind %v", found.Failed, found.Blind)
	}
	s = &shelves{content: map[string]string{"1": "only half"},
		sessions: map[string][]provider.FileInfo{"c": {inside("c", "1", "/mnt/data/x", 20, now)}}}
	if found, _ := collect(t, s, nil, ran("c", "")); len(found.Files) != 0 || len(found.Failed) != 1 ||
		!strings.Contains(found.Failed[0].Err.Error(), "9 bytes came, 20 were announced") {
		t.Errorf("a file that is too short: %+v", found)
	}
}

// A citation of another session's file brings that file, and nothing else of it.
func TestCitedSessions(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &shelves{content: map[string]string{"1": "ours", "2": "cited", "3": "secret"},
		sessions: map[string][]provider.FileInfo{
			"ours":  {inside("ours", "1", "/mnt/data/ours.csv", 4, now)},
			"other": {inside("other", "2", "/mnt/data/cited.csv", 5, now), inside("other", "3", "/mnt/data/secret.csv", 6, now)},
		}}
	r := ran("ours", "")
	r.Artifacts = []provider.Artifact{{Ref: provider.FileRef{Scope: provider.ScopeSession, Session: "other", ID: "2"},
		Name: "cited.csv", Size: -1, FoundBy: []provider.Evidence{provider.ByAnnotation}}}
	_, got := collect(t, s, nil, r)
	if diff := cmp.Diff(map[string]string{"ours.csv": "ours", "cited.csv": "cited"}, got); diff != "" {
		t.Error(diff)
	}
}

// What was there before is no output, unless it was written again.
func TestSnapshots(t *testing.T) {
	now := time.Unix(1000, 0)
	old, again := inside("c", "1", "/mnt/data/old.csv", 3, now), inside("c", "2", "/mnt/data/again.csv", 3, now)
	before := provider.Snapshot{"c": {"1": old, "2": again}}
	again.Created = now.Add(time.Second)
	s := &shelves{content: map[string]string{"1": "old", "2": "new", "3": "new"},
		sessions: map[string][]provider.FileInfo{"c": {
			old, again, inside("c", "3", "/mnt/data/copy.csv", 3, now),
		}}}
	_, got := collect(t, s, before, ran("c", ""))
	if diff := cmp.Diff(map[string]string{"again.csv": "new", "copy.csv": "new"}, got); diff != "" {
		t.Error(diff)
	}
}

// Two files of one path: the one that was made last, also within one second.
func TestTheNewestOfOnePath(t *testing.T) {
	now := time.Unix(1000, 0)
	s := &shelves{content: map[string]string{"1": "first", "2": "last"}, sessions: map[string][]provider.FileInfo{"c": {
		inside("c", "1", "/mnt/data/x.csv", 5, now), inside("c", "2", "/mnt/data/x.csv", 4, now),
	}}}
	if _, got := collect(t, s, nil, ran("c", "")); got["x.csv"] != "last" || len(got) != 1 {
		t.Errorf("%v", got)
	}
}

// Where files come in the output, they come from wherever it was put: stderr of
// code that failed, or the answer.
func TestFramesAreFoundEverywhere(t *testing.T) {
	frame := provider.Frame
	s := &shelves{mode: provider.OutputStdout}
	r := &provider.RunResult{Text: "Here:\n" + frame("text.csv", []byte("t")) + frame("out.csv", []byte("o")) +
		strings.Replace(frame("err.csv", []byte("e")), "ZQ==", "ZZ==", 1) + "Done.",
		Steps: []provider.Step{{Stdout: frame("out.csv", []byte("o"))},
			{Stderr: "oops\n" + frame("err.csv", []byte("e")) + "Traceback"}}}
	found, got := collect(t, s, nil, r)
	if diff := cmp.Diff(map[string]string{"out.csv": "o", "err.csv": "e", "text.csv": "t"}, got); diff != "" {
		t.Error(diff)
	}
	if len(found.Failed) > 0 || r.Text != "Here:\n[file text.csv]\n[file out.csv]\n[file err.csv]\nDone." ||
		r.Steps[1].Stderr != "oops\n[file err.csv]\nTraceback" {
		t.Errorf("failed %v, text %q, stderr %q", found.Failed, r.Text, r.Steps[1].Stderr)
	}
}

// An error in the place of a file is none of its content; a file that speaks of an
// error is one.
func TestErrorsInPlaceOfFiles(t *testing.T) {
	for body, isError := range map[string]bool{
		`{"error":{"message":"File not found.","type":"invalid_request_error","param":null,"code":null}}`: true,
		`{"type":"error","error":{"type":"not_found_error","message":"gone"},"request_id":"req_1"}`:       true,
		`{"error":{"code":404,"message":"not found","status":"NOT_FOUND"}}`:                               true,
		`{"code":"not-found","error":"File not found"}`:                                                   true,
		`{"error": 0.05}`: false, `{"error":"division by zero","line":3}`: false,
		`{"rows":1,"error":{"message":"x","type":"y"}}`: false, `{}`: false, ``: false,
	} {
		s := &shelves{content: map[string]string{"1": body}, sessions: map[string][]provider.FileInfo{
			"c": {inside("c", "1", "/mnt/data/x.dat", -1, time.Time{})}}}
		found, got := collect(t, s, nil, ran("c", ""))
		if failed := len(found.Failed) == 1; failed != isError || !isError && got["x.dat"] != body {
			t.Errorf("%s: files %v, failed %v", body, got, found.Failed)
		}
	}
}
