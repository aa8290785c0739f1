package web

import (
	"archive/zip"
	"bytes"
	"context"
	"encoding/json"
	"io"
	"mime/multipart"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/page/pagetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

var local = engine.Caller{Owner: engine.Local}

func (v *visitor) put(name, mime, content string) engine.File {
	v.T.Helper()
	f, err := v.Engine.PutFile(v.T.Context(), local, engine.Upload{Name: name, MIME: mime}, strings.NewReader(content))
	if err != nil {
		v.T.Fatal(err)
	}
	return f
}

// TestContent serves files with hostile names, types and bytes.
func TestContent(t *testing.T) {
	v := visitSite(t, true, nil)
	const png = "\x89PNG\r\n\x1a\n"
	for _, file := range []struct{ name, mime, content, kind string }{
		{"a.png", "", png, "image/png"},
		{"a.svg", "", "<svg xmlns='http://www.w3.org/2000/svg' onload='x()'/>", "application/octet-stream"},
		{"a.svg", "image/svg+xml", "<svg/>", "application/octet-stream"},
		{"a.html", "", "<!doctype html><script>x()</script>", "text/plain; charset=utf-8"},
		{"a.xhtml", "application/xhtml+xml", "<html/>", "application/octet-stream"},
		{"a.xml", "text/xml", "<x/>", "text/plain; charset=utf-8"},
		{"a.js", "", "x()", "text/plain; charset=utf-8"},
		{"a.pdf", "", "%PDF-1.4", "application/octet-stream"},
		{"lies.png", "", "<!doctype html><script>x()</script>", "text/plain; charset=utf-8"},
		{"a.bin", "text/html; charset=utf-16", "<b>", "text/plain; charset=utf-8"},
	} {
		f := v.put(file.name, file.mime, file.content)
		got := v.Get("/files/" + f.ID.String() + "/content")
		if kind := got.Header.Get("Content-Type"); kind != file.kind {
			t.Errorf("%s (%s) is served as %s, want %s", file.name, file.mime, kind, file.kind)
		}
		if !strings.HasPrefix(got.Header.Get("Content-Security-Policy"), "sandbox; default-src 'none'") {
			t.Errorf("%s: the policy is %q", file.name, got.Header.Get("Content-Security-Policy"))
		}
		attached := strings.HasPrefix(got.Header.Get("Content-Disposition"), "attachment")
		if attached == (file.kind == "image/png") {
			t.Errorf("%s: the disposition is %q", file.name, got.Header.Get("Content-Disposition"))
		}
		if got.Body != file.content {
			t.Errorf("%s holds %q", file.name, got.Body)
		}
	}
}

func TestNamesAreText(t *testing.T) {
	v := visitSite(t, true, nil)
	f := v.put(`"><img src=x onerror=x()>.md`, "",
		"# T\n\n<script>x()</script>\n\n[a](javascript:x()) ![p](https://192.0.2.1/x)\n")
	for _, path := range []string{"/files", "/files/" + f.ID.String(), "/files/" + f.ID.String() + "/preview"} {
		body := v.Get(path).Body
		if strings.Contains(body, "<img") || strings.Contains(body, "<script>x") ||
			strings.Contains(body, `href="javascript`) {
			t.Errorf("%s lets a name or Markdown become part of the document", path)
		}
	}
	got := v.Get("/files/" + f.ID.String() + "/content").Header.Get("Content-Disposition")
	if want := `attachment; filename="_><img src=x onerror=x()>.md"; filename*=UTF-8''%22%3E%3Cimg%20src%3Dx%20onerror%3Dx%28%29%3E.md`; got != want {
		t.Errorf("the disposition is %s", got)
	}
}

// TestTable parses untrusted output of the program in the sandbox about a table.
func TestTable(t *testing.T) {
	says, ran := `{"columns": ["a<b>"], "rows": [["<script>x()</script>"]], "count": 7, "width": 1}`, 0
	v := visitSite(t, true, func(_ context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		ran++
		if len(spec.Inputs) != 1 || !spec.Inputs[0].ReadOnly {
			t.Errorf("the inputs are %v", spec.Inputs)
		}
		host.Output(engine.Stdout, []byte(says))
		return sandboxtest.Exit(0), nil
	})
	preview := func(content string) string {
		return v.Get("/files/" + v.put("t.csv", "", content).ID.String() + "/preview").Body
	}
	body := preview("a\n1\n")
	if !strings.Contains(body, "&lt;script&gt;") || strings.Contains(body, "<script>") ||
		!strings.Contains(body, "The first 1 of 7 rows") {
		t.Errorf("the table is %s", body)
	}
	preview("a\n1\n")
	if ran != 1 {
		t.Errorf("for the same content the program ran %d times", ran)
	}
	for i, lie := range []string{"no JSON", `{"problem": "<script>"}`,
		`{"columns": [` + strings.Repeat(`"x",`, 50) + `"x"]}`} {
		says = lie
		body := preview(strings.Repeat("b", i+1))
		if !strings.Contains(body, "cannot be read as a table") || strings.Contains(body, "<script>") {
			t.Errorf("after %.30s the preview is %s", lie, body)
		}
	}
	if got := v.Get("/runs").Body; !strings.Contains(got, "No runs yet") {
		t.Error("runs that make previews are among the visitor's")
	}
}

func TestArchive(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"))
	session, err := v.Engine.CreateSession(t.Context(), local, engine.SessionRequest{Files: []engine.FileRef{
		{ID: v.put("a.txt", "", "one").ID, Path: "d/a.txt"}, {ID: v.put("b.txt", "", "two").ID},
		{ID: v.put("c\u202etxt.csv", "", "three").ID}, {ID: v.put(`..\..\d`, "", "four").ID},
	}})
	if err != nil {
		t.Fatal(err)
	}
	if page := v.Get("/sessions/" + session.ID.String()).Body; strings.Contains(page, "held=true") {
		t.Error("a zip with hidden files is offered, and there are none")
	}
	risky, err := v.Engine.CreateSession(t.Context(), local, engine.SessionRequest{Files: []engine.FileRef{
		{ID: v.put("a.txt", "", "one").ID, Path: ".git/config"}, {ID: v.put("b.txt", "", "two").ID, Path: ".envrc"},
	}})
	if err != nil {
		t.Fatal(err)
	}
	at := "/sessions/" + risky.ID.String()
	if page := v.Get(at).Body; !strings.Contains(page, "files.zip?held=true") {
		t.Error("the files that the zip leaves out are not offered")
	}
	for query, want := range map[string]string{"": "LEFT-OUT.txt", "?held=true": ".envrc LEFT-OUT.txt"} {
		got := v.Get(at + "/files.zip" + query)
		z, err := zip.NewReader(strings.NewReader(got.Body), int64(len(got.Body)))
		if err != nil {
			t.Fatal(err)
		}
		var names []string
		for _, f := range z.File {
			names = append(names, f.Name)
		}
		if strings.Join(names, " ") != want {
			t.Errorf("%q holds %q", query, names)
		}
	}
	got := v.Get("/sessions/" + session.ID.String() + "/files.zip")
	z, err := zip.NewReader(strings.NewReader(got.Body), int64(len(got.Body)))
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]string{}
	for _, f := range z.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		text, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		found[f.Name] = string(text)
	}
	if diff := cmp.Diff(map[string]string{"d/a.txt": "one", "b.txt": "two", "c\u202etxt.csv": "three", ".._.._d": "four"},
		found); diff != "" {
		t.Errorf("the archive holds (-want +got)\n%s", diff)
	}
}

// TestShownNames checks that an invisible character in a name is shown as its number.
func TestShownNames(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("x"))
	v.put("می\u200cخواهم\u202egnp.csv", "", "1")
	got := v.Get("/files").Body
	if strings.Contains(got, "\u202e") || !strings.Contains(got, "می⟨U&#43;200C⟩خواهم⟨U&#43;202E⟩gnp.csv") {
		t.Errorf("the page says %s", got)
	}
}

func TestPlainText(t *testing.T) {
	for in, want := range map[string]string{
		"a\tb\n": "a\tb\n", "\x1b[1;31mred\x1b[0m": "red", "\x1b]0;title\x07x": "x",
		"\x1b]8;;http://a\x1b\\x\x1b]8;;\x1b\\": "x",
		"10%\r20%\rdone\n":                      "done\n", "a\r\nb": "a\nb", "first\n1\r2": "first\n2", "\x00\x08\x7fx": "x",
		"\x1b":  "",
		"\x1b[": "", "ä\x1b[0mö": "äö",
	} {
		if got := page.PlainText(in); got != want {
			t.Errorf("%q becomes %q, want %q", in, got, want)
		}
	}
	// Many line restarts take time linear in the length.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	start := pagetest.ProcessorTime(t)
	page.PlainText("x" + strings.Repeat("\r"+strings.Repeat("y", 3), 1<<20))
	if took := pagetest.ProcessorTime(t) - start; took > 5*time.Second {
		t.Errorf("4 MB of carriage returns took %v", took)
	}
}

func FuzzPlainText(f *testing.F) {
	f.Add("\x1b[31mred\r\n\x1b]x\x07")
	f.Fuzz(func(t *testing.T, s string) {
		got := page.PlainText(s)
		if strings.ContainsFunc(got, page.IsControl) {
			t.Errorf("%q leaves %q", s, got)
		}
		if page.PlainText(got) != got {
			t.Errorf("%q is not plain yet", got)
		}
	})
}

func TestPercentile(t *testing.T) {
	h := engine.Histogram{Bounds: []time.Duration{10 * time.Millisecond, 20 * time.Millisecond},
		Counts: []int64{10, 10, 0}, Count: 20}
	for part, want := range map[float64]time.Duration{0.25: 5 * time.Millisecond, 0.5: 10 * time.Millisecond,
		0.75: 15 * time.Millisecond, 1: 20 * time.Millisecond} {
		if got := percentile(h, part); got != want {
			t.Errorf("%v of 1: %v, want %v", part, got, want)
		}
	}
	if got := percentile(engine.Histogram{}, 0.5); got != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

func TestDiff(t *testing.T) {
	got := diff("a\nb\nc\n", "a\nB\nc\n")
	want := []diffLine{{"@", 1, 1, ""}, {" ", 1, 1, "a"}, {"-", 2, 0, "b"}, {"+", 0, 2, "B"}, {" ", 3, 3, "c"}}
	if diff := cmp.Diff(want, got.Lines); diff != "" {
		t.Error(diff)
	}
	if got := diff(strings.Repeat("a\n", maxDiffed), "b"); len(got.Lines) > 0 || !strings.Contains(got.Note, "too much") {
		t.Errorf("of much text: %v", got.Note)
	}
}

func TestTitle(t *testing.T) {
	for code, want := range map[string]string{
		"#!/usr/bin/python3\n# count apples\nx = 1": "count apples", "import os\nfrom a import b\n\nprint(1)": "print(1)",
		"import os": "import os", "": "",
		"<?php\necho 1;": "echo 1;", "// go\npackage main": "go",
		"\"\"\"Rates by month.\n\nMore.\"\"\"\nx = 1":   "Rates by month",
		"import os\n# Plot the sales\nplot()":           "Plot the sales",
		"# ----------\n# -*- coding: utf-8 -*-\n# Sums": "Sums",
		"def load(name):\n    return 1\n\nload(1)":      "load(1)",
		"def load(name):\n    return 1":                 "load",
		"class Tree:\n    pass":                         "Tree",
		"/* A tree of\n * numbers */\nint main() {}":    "A tree of",
	} {
		if got := titleOfRun(&engine.Run{Source: &engine.Source{Code: code}}); got != want {
			t.Errorf("%q is called %q, want %q", code, got, want)
		}
	}
}

func TestEvents(t *testing.T) {
	v := visitSite(t, true, pagetest.Prints("a\n\nevent: result\ndata: {}\n\n"))
	path := v.runs()
	all := v.Get(path + "/events").Body
	if n := strings.Count("\n"+all, "\nevent: "); n != 4 { // started, output, result, recent
		t.Errorf("%d events in %s", n, all)
	}
	r := v.Request("GET", path+"/events", nil)
	r.Header.Set("Last-Event-ID", "2")
	if got := v.Send(r).Body; strings.Contains(got, "event: output") || !strings.Contains(got, "event: result") {
		t.Errorf("after the second event comes %s", got)
	}
	// An interrupted run may have fewer events than a watcher saw.
	r = v.Request("GET", path+"/events", nil)
	r.Header.Set("Last-Event-ID", "99")
	if got := v.Send(r).Body; !strings.Contains(got, "event: result") {
		t.Errorf("after an event that is not kept comes %s", got)
	}
	if !bytes.Contains([]byte(all), []byte(`"data":"a\n\nevent: result\ndata: {}\n\n"`)) {
		t.Errorf("the output is %s", all)
	}
}

// A script gets the run's events as the response to its request, with small pictures inlined.
func TestRunIsAnsweredWithItsEvents(t *testing.T) {
	const png = "\x89PNG\r\n\x1a\n"
	picture := func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		host.Output(engine.Stdout, []byte("drawn\n"))
		out := sandboxtest.Exit(0)
		for _, f := range [][2]string{{"large.png", png + strings.Repeat("x", inlined)}, {"page.html", "<script>1</script>"},
			{"small.png", png + "small"}} {
			output, err := sandboxtest.File(f[0], f[1])
			if err != nil {
				return nil, err
			}
			out.Outputs = append(out.Outputs, output)
		}
		return out, nil
	}
	v := visitSite(t, true, picture)
	var body bytes.Buffer
	form := multipart.NewWriter(&body)
	for _, f := range [][2]string{{"token", v.Token()}, {"language", "python"}, {"code", "draw()"}} {
		if err := form.WriteField(f[0], f[1]); err != nil {
			t.Fatal(err)
		}
	}
	if err := form.Close(); err != nil {
		t.Fatal(err)
	}
	r := v.Request("POST", "/runs", &body)
	r.Header.Set("Content-Type", form.FormDataContentType())
	r.Header.Set("Accept", "text/event-stream")
	got := v.Send(r)
	if got.Status != 200 || !strings.HasPrefix(got.Header.Get("Location"), "/ui/runs/") {
		t.Fatalf("%d, %v", got.Status, got.Header)
	}
	var order []string
	data := map[string]struct{ Data, HTML string }{}
	for block := range strings.SplitSeq(strings.TrimSpace(got.Body), "\n\n") {
		_, block, _ = strings.Cut("\n"+block, "\nevent: ")
		name, text, _ := strings.Cut(block, "\ndata: ")
		var one struct{ Data, HTML string }
		if err := json.Unmarshal([]byte(text), &one); err != nil {
			t.Fatalf("%q: %v", block, err)
		}
		order, data[name] = append(order, name), one
	}
	if diff := cmp.Diff([]string{"started", "output", "result", "recent"}, order); diff != "" {
		t.Error(diff)
	}
	html := data["result"].HTML
	if n := strings.Count(html, `src="data:image/png;base64,iVBORw0KGgpzbWFsbA=="`); n != 1 ||
		strings.Count(html, "data:") != 1 {
		t.Errorf("one small picture is to come along: %s", html)
	}
	if !strings.Contains(data["recent"].HTML, "draw()") || data["output"].Data != "drawn\n" {
		t.Errorf("it says %v", data)
	}
}
