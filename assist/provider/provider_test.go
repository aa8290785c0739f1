package provider_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.uber.org/goleak"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

// Package genai starts a goroutine of OpenCensus's when it is imported.
func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m, goleak.IgnoreTopFunction("go.opencensus.io/stats/view.(*worker).start"))
}

func TestRetry(t *testing.T) {
	fail := func(k provider.Kind, after time.Duration) error { return &provider.Error{Kind: k, RetryAfter: after} }
	for _, c := range []struct {
		name   string
		errs   []error
		tries  int
		waits  []time.Duration
		kind   provider.Kind
		random float64
	}{
		{name: "at once", tries: 1},
		{name: "twice", errs: []error{fail(provider.Transient, 0), fail(provider.RateLimited, 0)}, tries: 3,
			waits: []time.Duration{time.Second, 2 * time.Second}, random: 1},
		{name: "jitter", errs: []error{fail(provider.Transient, 0)}, tries: 2,
			waits: []time.Duration{500 * time.Millisecond}},
		{name: "as asked", errs: []error{fail(provider.RateLimited, 9*time.Second)}, tries: 2,
			waits: []time.Duration{9 * time.Second}},
		{name: "asked for too long", errs: []error{fail(provider.RateLimited, time.Hour)}, tries: 1,
			kind: provider.RateLimited},
		{name: "over the budget", errs: []error{fail(provider.RateLimited, 29*time.Second),
			fail(provider.RateLimited, 29*time.Second), fail(provider.RateLimited, 29*time.Second)}, tries: 3,
			waits: []time.Duration{29 * time.Second, 29 * time.Second}, kind: provider.RateLimited},
		{name: "in vain", errs: []error{fail(provider.Transient, 0), fail(provider.Transient, 0), fail(provider.Transient, 0),
			nil}, tries: 3, waits: []time.Duration{time.Second, 2 * time.Second}, random: 1, kind: provider.Transient},
		{name: "no use", errs: []error{fail(provider.Auth, 0)}, tries: 1, kind: provider.Auth},
		{name: "tried before", errs: []error{&provider.Error{Kind: provider.Transient, Attempts: 3}}, tries: 1,
			kind: provider.Transient},
	} {
		t.Run(c.name, func(t *testing.T) {
			clock, tries := providertest.NewClock(), 0
			err := provider.Retry{Clock: clock, Random: func() float64 { return c.random }}.Do(
				t.Context(), func(context.Context) error {
					tries++
					if tries <= len(c.errs) {
						return c.errs[tries-1]
					}
					return nil
				})
			if provider.KindOf(err) != c.kind || tries != c.tries {
				t.Errorf("%v after %d tries", err, tries)
			}
			if diff := cmp.Diff(c.waits, clock.Waits()); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestErrorsSayWhatToDo(t *testing.T) {
	if n := len(provider.Kinds()); n != 12 {
		t.Errorf("%d kinds", n)
	}
	for _, k := range provider.Kinds() {
		if k.Hint() == "" {
			t.Errorf("%s: what can the person do?", k)
		}
		err := error(&provider.Error{Kind: k, Err: context.Canceled})
		if !errors.Is(err, k) || !errors.Is(err, context.Canceled) || errors.Is(err, provider.Kind("other")) {
			t.Errorf("%s is not found in %v", k, err)
		}
	}
}

// TestInstruct has the exact text for each kind of model, tool and switch.
func TestInstruct(t *testing.T) {
	const openAI = "Use the python tool. Your input files are in /mnt/data under names that end in their own: list the " +
		"folder first. Save every result file in /mnt/data and link each one in your answer as " +
		"[name](sandbox:/mnt/data/name)."
	for _, c := range []struct {
		provider, model string
		tool            provider.Tool
		mode            provider.HintMode
		want            string
	}{
		{provider.OpenAI, "gpt-5.1", provider.ToolAuto, provider.HintsAuto, openAI},
		{provider.OpenAI, "gpt-4o", provider.ToolPython, provider.HintsAuto, openAI},
		{provider.OpenAI, "gpt-4.1-mini", provider.ToolPython, provider.HintsAuto,
			openAI + " This is required: an answer without the link of a file that you saved is incomplete."},
		{provider.OpenAI, "gpt-4.1", provider.ToolShell, provider.HintsAuto, "Use the shell. Your input files are in " +
			"/mnt/data under names that end in their own: list the folder first. Save every result file in /mnt/data and name " +
			"each one in your answer."},
		{provider.OpenAI, "gpt-5.1", provider.ToolNone, provider.HintsAuto, ""},
		{provider.OpenAI, "gpt-5.1", provider.ToolAuto, provider.HintsOff, ""},
		{provider.Anthropic, "claude-x", provider.ToolAuto, provider.HintsAuto, "Your input files are in $INPUT_DIR. Copy " +
			"every result file to the top level of $OUTPUT_DIR in the same command that makes it, then list that folder: " +
			"files anywhere else are lost."},
		{provider.Anthropic, "claude-x", provider.ToolNone, provider.HintsAuto, ""},
		{provider.Local, "any", provider.ToolPython, provider.HintsAuto, "Use run_python. Your input files are in the " +
			"working directory. Save every result file there and name each one in your answer."},
		{"unknown", "any", provider.ToolAuto, provider.HintsAuto, ""},
	} {
		if got := provider.Instruct(c.provider, c.model, c.tool, c.mode); got != c.want {
			t.Errorf("%s %s %s %s:\n%s", c.provider, c.model, c.tool, c.mode, cmp.Diff(c.want, got))
		}
	}
	for _, p := range []string{provider.Gemini, provider.XAI} { // what they are told is what Unframe reads
		if got := provider.Instruct(p, "m", provider.ToolAuto, provider.HintsAuto); !strings.Contains(
			got, "===AIRLOCK FILE ") || !strings.Contains(got, "===AIRLOCK END===") {
			t.Errorf("%s: %s", p, got)
		}
	}
}

func TestCleanName(t *testing.T) {
	for in, want := range map[string]string{
		"a.csv": "a.csv", "../../x": "x", `..\..\y.txt`: "y.txt", "/mnt/data/z": "z", "..": "", ".": "", "": "",
		".bashrc": "bashrc", "a\x00b\n.txt": "ab.txt",
		"CON": "_CON", "nul.txt": "_nul.txt", "a:b?.txt": "a_b_.txt", "tail. . ": "tail", "\u202egnp.exe": "gnp.exe",
		"Bericht März.pdf": "Bericht März.pdf",
	} {
		if got := provider.CleanName(in); got != want {
			t.Errorf("%q became %q, want %q", in, got, want)
		}
	}
}

func FuzzCleanName(f *testing.F) {
	f.Add("../../x")
	f.Add(strings.Repeat("ü", 300) + ".tar.gz")
	f.Fuzz(func(t *testing.T, name string) {
		got := provider.CleanName(name)
		if strings.ContainsAny(got, "/\\\x00\n") || got == "." || got == ".." || strings.HasPrefix(got, ".") ||
			len(got) > 255 {
			t.Errorf("%q became %q", name, got)
		}
	})
}

func TestFrames(t *testing.T) {
	big := bytes.Repeat([]byte{0, 1, 2, 0xff}, 1000)
	output := "before\n" + provider.Frame(`a "b".csv`, []byte("x,y\n")) + "between ===AIRLOCK FILE \"no\" 1 x===\n" +
		provider.Frame("big.bin", big) + "after\n"
	files, rest := provider.Unframe(output, provider.MaxFrame)
	if len(files) != 2 || files[0].Name != `a "b".csv` || string(files[0].Data) != "x,y\n" ||
		!bytes.Equal(files[1].Data, big) {
		t.Fatalf("found %+v", files)
	}
	if want := "before\n[file a \"b\".csv]\nbetween ===AIRLOCK FILE \"no\" 1 x===\n[file big.bin]\nafter\n"; rest != want {
		t.Error(cmp.Diff(want, rest))
	}
	frame := provider.Frame("c", big)
	for name, c := range map[string]struct {
		text string
		most int
		kind provider.Kind
	}{
		"cut off":   {frame[:len(frame)/2], provider.MaxFrame, provider.OutputsMissing},
		"damaged":   {strings.Replace(frame, "AAEC", "AAED", 1), provider.MaxFrame, provider.OutputsMissing},
		"too large": {frame, 100, provider.TooLarge},
	} {
		files, _ := provider.Unframe(c.text, c.most)
		if len(files) != 1 || provider.KindOf(files[0].Err) != c.kind || files[0].Data != nil {
			t.Errorf("%s: %+v", name, files)
		}
	}
}

func FuzzUnframe(f *testing.F) {
	f.Add("x\n" + provider.Frame("a", []byte("b")) + "y")
	f.Add("===AIRLOCK FILE \"a\" 1 00===\n")
	f.Fuzz(func(t *testing.T, output string) {
		files, rest := provider.Unframe(output, 1<<10)
		if len(files) == 0 && rest != output {
			t.Errorf("nothing was found, and %q became %q", output, rest)
		}
		for _, f := range files {
			if len(f.Data) > 1<<10 {
				t.Error("over the limit")
			}
		}
	})
}

func TestLimits(t *testing.T) {
	l := provider.Limits{Upload: 10, Total: 15, Count: 3, NameLength: 5, NameBars: ":", MIMETypes: []string{"text/"}}
	got := l.Check("p", []provider.Wanted{{"a", "text/csv", 5}, {"b", "text/csv", 11}, {"abcdef", "", 1}, {"a:b", "", 1},
		{"c", "image/png", 1}})
	for i, want := range map[int]string{1: "the limit is 10", 2: "the limit is 5", 3: "the characters", 4: "takes text/",
		-1: "the limit of a turn is"} {
		if got[i] == nil || !strings.Contains(got[i].Error(), want) {
			t.Errorf("%d: %v, want %q", i, got[i], want)
		}
	}
	if got[0] != nil {
		t.Error(got[0])
	}
}

func TestUploadsOnce(t *testing.T) {
	f := &fakeFiles{}
	p := fakeProvider{files: f}
	clock, store := providertest.NewClock(), &provider.Memory{}
	stage := func(conversation string, kept bool) {
		t.Helper()
		u := provider.Uploader{Provider: p, Cache: &provider.UploadCache{
			Store: store, Conversation: conversation, Kept: kept, Clock: clock}}
		staged, refused := u.Stage(t.Context(), []provider.Source{
			fakeSource("a", "one"), fakeSource("broken", ""), fakeSource("b", "two")})
		if len(staged) != 2 || len(refused) != 1 || refused[0].Source.Name != "broken" {
			t.Fatalf("staged %v, refused %v", staged, refused)
		}
	}
	want := func(n int, why string) {
		t.Helper()
		if f.uploads != n {
			t.Errorf("%s: %d uploads, want %d", why, f.uploads, n)
		}
	}
	stage("c1", false)
	want(2, "new files")
	stage("c1", false)
	want(2, "the same conversation")
	stage("c2", false)
	want(4, "another conversation")
	f.expires = clock.Now().Add(time.Hour)
	stage("c3", true)
	want(6, "a conversation that keeps its files")
	stage("c4", false)
	want(6, "kept files with an expiry")
	clock.Advance(58 * time.Minute)
	stage("c4", false)
	want(8, "files that expire soon")
	f.gone = true
	stage("c1", false)
	want(10, "files that are gone")
}

func fakeSource(name, content string) provider.Source {
	return provider.Source{Path: name, Name: name, Size: int64(len(content)), Open: func() (io.ReadSeekCloser, error) {
		if content == "" {
			return nil, errors.New("no permission")
		}
		return seekCloser{strings.NewReader(content)}, nil
	}}
}

type seekCloser struct{ io.ReadSeeker }

func (seekCloser) Close() error { return nil }

// fakeProvider has a store that counts.
type fakeProvider struct {
	provider.Provider
	files *fakeFiles
}

func (fakeProvider) Name() string                    { return "fake" }
func (fakeProvider) Account() string                 { return "a" }
func (fakeProvider) Caps() provider.Capabilities     { return provider.Capabilities{} }
func (p fakeProvider) Files() provider.FileStore     { return p.files }
func (fakeProvider) Sessions() provider.SessionStore { return provider.NoSessions{} }

type fakeFiles struct {
	provider.FileStore
	uploads int
	expires time.Time
	gone    bool
}

func (f *fakeFiles) Upload(_ context.Context, u provider.Upload) (provider.FileInfo, error) {
	if _, err := io.Copy(io.Discard, u.Body); err != nil {
		return provider.FileInfo{}, err
	}
	f.uploads++
	return provider.FileInfo{Ref: provider.FileRef{ID: u.SHA256[:8] + time.Duration(f.uploads).String()},
		Expires: f.expires}, nil
}

func (f *fakeFiles) Stat(context.Context, provider.FileRef) (provider.FileInfo, error) {
	if f.gone {
		return provider.FileInfo{}, &provider.Error{Kind: provider.FileNotFound}
	}
	return provider.FileInfo{}, nil
}
