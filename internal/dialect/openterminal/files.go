package openterminal

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"math"
	"mime"
	"net/http"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

const (
	home        = "/workspace"
	largestText = 10 << 20 // that a tool reads or edits
	insideTime  = 30 * time.Second
)

// alsoHome are other names of the home that models write.
var alsoHome = []string{"/home/user", "/mnt/data"}

//go:embed inside.py
var insideProgram string

// absolute is the path that a client means.
func (q *request) absolute(name, base string) string {
	switch {
	case name == "~", strings.HasPrefix(name, "~/"):
		name = home + name[1:]
	case !strings.HasPrefix(name, "/"):
		name = base + "/" + name
	}
	name = path.Clean(name)
	for _, other := range alsoHome {
		if name == other || strings.HasPrefix(name, other+"/") {
			return home + name[len(other):]
		}
	}
	return name
}

// cwd is the working directory of the user's chat.
func (q *request) cwd() string {
	q.mu.Lock()
	defer q.mu.Unlock()
	return cmp.Or(q.folders[place{q.caller.Owner, q.chat}], home)
}

// inWorkspace is a path relative to the workspace, "" for itself; ok is false for one
// that is elsewhere.
func inWorkspace(absolute string) (relative string, ok bool) {
	if absolute == home {
		return "", true
	}
	relative, ok = strings.CutPrefix(absolute, home+"/")
	if !ok {
		relative = ""
	}
	return relative, ok
}

// inside runs a part of inside.py in the sandbox.
func (q *request) inside(into any, op string, args ...any) error {
	text, err := json.Marshal(append([]any{}, args...))
	if err != nil {
		return err
	}
	out, err := q.output(int64(1<<20), "/usr/bin/python3", "-c", insideProgram, op, string(text))
	if err != nil {
		return err
	}
	return json.Unmarshal(out, into)
}

// output runs a command in the sandbox to its end and returns what it wrote on stdout.
func (q *request) output(most int64, argv ...string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(q.Context(), insideTime)
	defer cancel()
	p, err := q.live.StartProcess(ctx, q.caller, q.workspace, live.ProcessRequest{Argv: argv, Dir: home})
	if err != nil {
		return nil, err
	}
	events, err := q.live.WatchProcess(ctx, q.caller, q.workspace, p.ID, 0)
	if err != nil {
		return nil, err
	}
	var out, problem bytes.Buffer
	for e := range events {
		switch e.Type {
		case live.ProcessStdout:
			out.Write(e.Data)
		case live.ProcessStderr:
			problem.Write(e.Data)
		case live.ProcessExit:
			if e.Process.ExitCode == nil || *e.Process.ExitCode != 0 {
				lines := strings.Split(strings.TrimSpace(problem.String()), "\n")
				return nil, refuse(http.StatusBadRequest, "%s", cmp.Or(lines[len(lines)-1], "The sandbox could not do that."))
			}
			return out.Bytes(), nil
		}
		if e.Dropped > 0 || int64(out.Len()) > most {
			err = refuse(http.StatusRequestEntityTooLarge, "That is too large to be read here: copy it to %s, or read a part of it with run_command.", home)
			break
		}
	}
	kill, stop := context.WithTimeout(context.WithoutCancel(ctx), insideTime)
	defer stop()
	return nil, cmp.Or(err, q.live.KillProcess(kill, q.caller, q.workspace, p.ID), refuse(http.StatusGatewayTimeout, "That took longer than %v: name a smaller folder.", insideTime))
}

// found is something in the sandbox, after all links.
type found struct {
	Exists   bool    `json:"exists"`
	Path     string  `json:"path"` // absolute
	Type     string  `json:"type"` // file or directory
	Size     int64   `json:"size"`
	Modified float64 `json:"modified"`
	Writable bool    `json:"writable"`

	relative string
	in       bool // the workspace
}

// locate finds what a path names as the programs of the sandbox see it: also through
// links, and outside of the workspace, where the sandbox itself looks.
func (q *request) locate(absolute string) (found, error) {
	relative, in := inWorkspace(absolute)
	if in {
		e, err := q.live.StatFile(q.Context(), q.caller, q.workspace, relative)
		if err == nil && (e.Kind == engine.EntryFile || e.Kind == engine.EntryFolder) {
			return found{true, absolute, kindOf(e), e.Size, seconds(e.Modified), true, relative, true}, nil
		}
		if kind := engine.KindOf(err); err != nil && kind != engine.ErrNotFound && kind != engine.ErrInvalid {
			return found{}, err
		}
	}
	var f found
	if err := q.inside(&f, "where", absolute); err != nil {
		return found{}, err
	}
	f.Path = q.absolute(f.Path, home)
	f.relative, f.in = inWorkspace(f.Path)
	return f, nil
}

// existing is locate for what must be there.
func (q *request) existing(absolute, kind string) (found, error) {
	f, err := q.locate(absolute)
	switch {
	case err != nil:
		return f, err
	case f.Exists && (kind == "" || kind == f.Type):
		return f, nil
	case kind == "directory":
		return f, refuse(http.StatusNotFound, "Directory not found: %s", absolute)
	case kind == "file":
		return f, refuse(http.StatusNotFound, "File not found: %s", absolute)
	}
	return f, refuse(http.StatusNotFound, "Path not found: %s", absolute)
}

// writable is the place in the workspace where something is to be made or changed.
func (q *request) writable(absolute string) (string, error) {
	f, err := q.locate(absolute)
	if err != nil {
		return "", err
	}
	if !f.in {
		return "", refuse(http.StatusForbidden, "%s cannot be changed: only what is in %s can.", absolute, home)
	}
	return f.relative, nil
}

func kindOf(e engine.Entry) string {
	if e.Kind == engine.EntryFolder {
		return "directory"
	}
	return "file"
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

// openFile opens a file of the sandbox. What is outside of the workspace is read by the
// sandbox, and is not large.
func (q *request) openFile(f found) (content io.ReadSeeker, done func(), err error) {
	if !f.in {
		text, err := q.output(1<<20, "/bin/cat", "--", f.Path)
		return bytes.NewReader(text), func() {}, err
	}
	_, file, err := q.live.OpenFile(q.Context(), q.caller, q.workspace, f.relative)
	if err != nil {
		return nil, nil, err
	}
	return file, func() { file.Close() }, nil
}

type entryBody struct {
	Name     string  `json:"name"`
	Type     string  `json:"type"`
	Size     int64   `json:"size"`
	Modified float64 `json:"modified"`
	Writable bool    `json:"writable"`
}

func (q *request) listFiles() (any, error) {
	dir := q.absolute(cmp.Or(q.query.Get("directory"), "."), q.cwd())
	f, err := q.existing(dir, "directory")
	if err != nil {
		return nil, err
	}
	list := []entryBody{}
	answer := func() (any, error) {
		return struct {
			Dir      string      `json:"dir"`
			Writable bool        `json:"writable"`
			Entries  []entryBody `json:"entries"`
		}{dir, f.Writable, list}, nil
	}
	if f.in {
		all, more, err := q.live.ListFiles(q.Context(), q.caller, q.workspace, f.relative, 1)
		if err != nil {
			return nil, err
		}
		if !more && !slices.ContainsFunc(all, func(e engine.Entry) bool { return e.Kind == engine.EntryLink }) {
			for _, e := range all {
				list = append(list, entryBody{path.Base(e.Path), kindOf(e), e.Size, seconds(e.Modified), true})
			}
			return answer()
		}
	}
	if err := q.inside(&list, "listing", f.Path); err != nil {
		return nil, err
	}
	return answer()
}

// documents are files whose text the sandbox finds.
var documents = []string{".pdf", ".docx", ".pptx", ".xlsx"}

func (q *request) readFile() (any, error) {
	name, err := q.need("path")
	if err != nil {
		return nil, err
	}
	first, err1 := q.whole("start_line", 1, math.MaxInt32, 1)
	last, err2 := q.whole("end_line", 1, math.MaxInt32, math.MaxInt32)
	if err := errors.Join(err1, err2); err != nil {
		return nil, err
	}
	f, err := q.existing(q.absolute(name, q.cwd()), "file")
	if err != nil {
		return nil, err
	}
	if kind := guess(f.Path); strings.HasPrefix(kind, "image/") && kind != "image/svg+xml" {
		return q.send(f)
	}
	text, err := q.text(f)
	if err != nil {
		return nil, err
	}
	lines := slices.Collect(strings.Lines(text))
	total := len(lines)
	end := min(int(last), total)
	lines = lines[min(int(first)-1, end):end]
	return struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		Total   int    `json:"total_lines"`
	}{f.Path, strings.Join(lines, ""), total}, nil
}

// text is the content of a file, or what can be read of a document.
func (q *request) text(f found) (string, error) {
	if slices.Contains(documents, strings.ToLower(path.Ext(f.Path))) {
		var text string
		err := q.inside(&text, "document", f.Path)
		return text, err
	}
	if f.Size > largestText {
		return "", refuse(http.StatusRequestEntityTooLarge, "%s has %d bytes, at most %d are read: use run_command with head, tail or grep.", f.Path, f.Size, largestText)
	}
	file, done, err := q.openFile(f)
	if err != nil {
		return "", err
	}
	defer done()
	text, err := io.ReadAll(io.LimitReader(file, largestText))
	if err != nil {
		return "", err
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return "", refuse(http.StatusUnsupportedMediaType, "Unsupported binary file type: %s. Use run_command to look into it.", guess(f.Path))
	}
	return string(text), nil
}

func guess(name string) string {
	return cmp.Or(mime.TypeByExtension(strings.ToLower(path.Ext(name))), "application/octet-stream")
}

// send answers with the bytes of a file. What it is may run in nobody's name: a page
// of Open WebUI shows it from its own origin.
func (q *request) send(f found) (any, error) {
	file, done, err := q.openFile(f)
	if err != nil {
		return nil, err
	}
	defer done()
	h := q.w.Header()
	h.Set("Content-Type", guess(f.Path))
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	http.ServeContent(q.w, q.Request, "", time.UnixMicro(int64(f.Modified*1e6)), file)
	return answered{}, nil
}

func (q *request) writeFile() (any, error) {
	var body struct{ Path, Content string }
	if err := q.decode(&body, "path", "content"); err != nil {
		return nil, err
	}
	return q.store(q.absolute(body.Path, q.cwd()), strings.NewReader(body.Content))
}

type written struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

func (q *request) store(absolute string, content io.Reader) (any, error) {
	relative, err := q.writable(absolute)
	if err != nil {
		return nil, err
	}
	e, err := q.live.WriteFile(q.Context(), q.caller, q.workspace, relative, content)
	return written{absolute, e.Size}, err
}

// replacement is one edit. It counts in the lines of the file as it is when its turn
// comes.
type replacement struct {
	Target  string `json:"target"`
	By      string `json:"replacement"`
	First   int    `json:"start_line"`
	Last    int    `json:"end_line"`
	Several bool   `json:"allow_multiple"`
}

func (q *request) replaceContent() (any, error) {
	var body struct {
		Path         string        `json:"path"`
		Replacements []replacement `json:"replacements"`
	}
	if err := q.decode(&body, "path", "replacements"); err != nil {
		return nil, err
	}
	f, err := q.existing(q.absolute(body.Path, q.cwd()), "file")
	if err != nil {
		return nil, err
	}
	text, err := q.text(f)
	if err != nil {
		return nil, err
	}
	for _, r := range body.Replacements {
		if text, err = r.apply(text); err != nil {
			return nil, err
		}
	}
	return q.store(f.Path, strings.NewReader(text))
}

func (r replacement) apply(text string) (string, error) {
	lines := slices.Collect(strings.Lines(text))
	first, last := max(r.First, 1)-1, len(lines)
	if r.Last > 0 {
		last = min(r.Last, last)
	}
	first = min(first, last)
	before, part, after := strings.Join(lines[:first], ""), strings.Join(lines[first:last], ""), strings.Join(lines[last:], "")
	if r.Target == "" {
		return "", refuse(http.StatusBadRequest, "The target is empty.")
	}
	switch n := strings.Count(part, r.Target); {
	case n == 0:
		return "", refuse(http.StatusBadRequest, "Target string not found: %.200q. Read the file: it must be the same text, line ends included.", r.Target)
	case n > 1 && !r.Several:
		return "", refuse(http.StatusBadRequest, "Found %d occurrences of target string but allow_multiple is false: %.200q. Give more of the text around it.", n, r.Target)
	}
	return before + strings.ReplaceAll(part, r.Target, r.By) + after, nil
}

func (q *request) displayFile() (any, error) {
	name, err := q.need("path")
	if err != nil {
		return nil, err
	}
	f, err := q.locate(q.absolute(name, q.cwd()))
	return struct {
		Path   string `json:"path"`
		Exists bool   `json:"exists"`
	}{q.absolute(name, q.cwd()), f.Exists}, err
}

const mostMatches = 500

func (q *request) grep() (any, error) {
	query, err := q.need("query")
	regex, err1 := q.flag("regex", true)
	ignore, err2 := q.flag("case_insensitive", false)
	perLine, err3 := q.flag("match_per_line", true)
	most, err4 := q.whole("max_results", 1, mostMatches, 50)
	if err := errors.Join(err, err1, err2, err3, err4); err != nil {
		return nil, err
	}
	f, err := q.existing(q.absolute(cmp.Or(q.query.Get("path"), "."), q.cwd()), "")
	if err != nil {
		return nil, err
	}
	var result searched
	if err := q.inside(&result, "grep", f.Path, query, regex, ignore, append([]string{}, q.query["include"]...), perLine, most); err != nil {
		return nil, err
	}
	return result.answer("query", query, f.Path)
}

func (q *request) glob() (any, error) {
	pattern, err := q.need("pattern")
	most, err1 := q.whole("max_results", 1, mostMatches, 50)
	if err := errors.Join(err, err1); err != nil {
		return nil, err
	}
	kind := cmp.Or(q.query.Get("type"), "any")
	if kind != "any" && kind != "file" && kind != "directory" {
		return nil, wrong("string_pattern_mismatch", "query", "type", "String should match pattern '^(file|directory|any)$'", kind)
	}
	f, err := q.existing(q.absolute(cmp.Or(q.query.Get("path"), "."), q.cwd()), "directory")
	if err != nil {
		return nil, err
	}
	var result searched
	if err := q.inside(&result, "glob", f.Path, pattern, append([]string{}, q.query["exclude"]...), kind, most); err != nil {
		return nil, err
	}
	return result.answer("pattern", pattern, f.Path)
}

type searched struct {
	Matches   json.RawMessage `json:"matches"`
	Truncated bool            `json:"truncated"`
	Problem   string          `json:"problem"`
}

func (s searched) answer(asked, text, where string) (any, error) {
	if s.Problem != "" {
		return nil, refuse(http.StatusBadRequest, "%s", s.Problem)
	}
	return map[string]any{asked: text, "path": where, "matches": s.Matches, "truncated": s.Truncated}, nil
}
