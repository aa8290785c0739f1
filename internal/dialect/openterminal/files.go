package openterminal

import (
	"bytes"
	"cmp"
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
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	home        = "/workspace"
	largestText = 10 << 20 // limit for tools that read or edit
)

// alsoHome are other names of the home directory that models write.
var alsoHome = []string{"/home/user", "/mnt/data"}

// absolute returns the absolute path of a client's path.
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

// cwd returns the working directory of the user's chat.
func (q *request) cwd() string {
	folder, _ := q.folders.Get(place{q.caller.Owner, q.chat})
	return cmp.Or(folder, home)
}

// found is the target of a path, through all links, as the programs of the sandbox see it.
type found struct {
	engine.Entry // by its path without links
	exists       bool
}

func (q *request) locate(absolute string) (found, error) {
	e, err := q.live.RealFile(q.Context(), q.caller, q.workspace, absolute)
	e.Path = q.absolute(e.Path, home)
	if errors.Is(err, engine.ErrNotFound) && e.Path != home {
		return found{Entry: e}, nil
	}
	return found{e, err == nil}, err
}

func (f found) kind() string {
	if f.Kind == engine.EntryFolder {
		return "directory"
	}
	return "file"
}

// fixed are the folders of a session's root whose files cannot be changed. Those of an image can in part.
var fixed = []string{"/bin", "/dev", "/lib", "/lib64", "/opt/airlock", "/proc", "/sbin", "/sys", "/usr"}

// writable reports whether a file is in a folder whose files can be changed.
func (f found) writable() bool {
	return !slices.ContainsFunc(fixed, func(folder string) bool {
		return f.Path == folder || strings.HasPrefix(f.Path, folder+"/")
	})
}

// existing is locate for a file that must exist.
func (q *request) existing(absolute, kind string) (found, error) {
	f, err := q.locate(absolute)
	switch {
	case err != nil:
		return f, err
	case f.exists && (kind == "" || kind == f.kind()):
		return f, nil
	case kind == "directory":
		return f, wire.Refuse(http.StatusNotFound, "Directory not found: %s", absolute)
	case kind == "file":
		return f, wire.Refuse(http.StatusNotFound, "File not found: %s", absolute)
	}
	return f, wire.Refuse(http.StatusNotFound, "Path not found: %s", absolute)
}

func seconds(t time.Time) float64 { return float64(t.UnixMicro()) / 1e6 }

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
	all, more, err := q.live.ListFiles(q.Context(), q.caller, q.workspace, f.Path, 1)
	if err != nil {
		return nil, err
	}
	if more {
		return nil, wire.Refuse(http.StatusRequestEntityTooLarge, "%s has too many files for one list: use run_command.", dir)
	}
	list := []entryBody{}
	for _, e := range all {
		at := found{e, true}
		if e.Kind == engine.EntryLink {
			if at, err = q.locate(e.Path); err != nil || !at.exists {
				at = found{e, true} // a dangling link
			}
		}
		list = append(list, entryBody{path.Base(e.Path), at.kind(), at.Size, seconds(at.Modified), at.writable()})
	}
	return struct {
		Dir      string      `json:"dir"`
		Writable bool        `json:"writable"`
		Entries  []entryBody `json:"entries"`
	}{dir, f.writable(), list}, nil
}

// documents are files whose text the sandbox finds.
var documents = []string{".pdf", ".docx", ".pptx", ".xlsx"}

func (q *request) readFile() (any, error) {
	first, last := q.whole("start_line", 1, math.MaxInt32, 1), q.whole("end_line", 1, math.MaxInt32, math.MaxInt32)
	if q.problem != nil {
		return nil, q.problem
	}
	f, err := q.existing(q.absolute(q.query.Get("path"), q.cwd()), "file")
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
	end := min(last, total)
	lines = lines[min(first-1, end):end]
	return struct {
		Path    string `json:"path"`
		Content string `json:"content"`
		Total   int    `json:"total_lines"`
	}{f.Path, strings.Join(lines, ""), total}, nil
}

// text returns the content of a file, or the text of a document.
func (q *request) text(f found) (string, error) {
	if slices.Contains(documents, strings.ToLower(path.Ext(f.Path))) {
		return q.live.DocumentText(q.Context(), q.caller, q.workspace, f.Path)
	}
	if f.Size > largestText {
		return "", wire.Refuse(http.StatusRequestEntityTooLarge,
			"%s has %d bytes, at most %d are read: use run_command with head, tail or grep.", f.Path, f.Size, largestText)
	}
	_, file, err := q.live.OpenFile(q.Context(), q.caller, q.workspace, f.Path)
	if err != nil {
		return "", err
	}
	defer file.Close()
	text, err := io.ReadAll(io.LimitReader(file, largestText))
	if err != nil {
		return "", err
	}
	if !utf8.Valid(text) || bytes.IndexByte(text, 0) >= 0 {
		return "", wire.Refuse(http.StatusUnsupportedMediaType,
			"Unsupported binary file type: %s. Use run_command to look into it.", guess(f.Path))
	}
	return string(text), nil
}

func guess(name string) string {
	return cmp.Or(mime.TypeByExtension(strings.ToLower(path.Ext(name))), "application/octet-stream")
}

// send answers with the bytes of a file. It must not run as a part of Open WebUI, whose page shows
// it from its own origin.
func (q *request) send(f found) (any, error) {
	_, file, err := q.live.OpenFile(q.Context(), q.caller, q.workspace, f.Path)
	if err != nil {
		return nil, err
	}
	defer file.Close()
	h := q.w.Header()
	h.Set("Content-Type", guess(f.Path))
	h.Set("Content-Security-Policy", "sandbox")
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Cache-Control", "no-store")
	http.ServeContent(q.w, q.Request, "", f.Modified, file)
	return answered{}, nil
}

func (q *request) writeFile(body struct{ Path, Content string }) (any, error) {
	return q.store(q.absolute(body.Path, q.cwd()), strings.NewReader(body.Content))
}

type written struct {
	Path string `json:"path"`
	Size int64  `json:"size"`
}

func (q *request) store(absolute string, content io.Reader) (any, error) {
	e, err := q.live.WriteFile(q.Context(), q.caller, q.workspace, absolute, content)
	return written{absolute, e.Size}, err
}

// replacement is one edit. Its line numbers count in the text after the edits before it.
type replacement struct {
	Target  string `json:"target"`
	By      string `json:"replacement"`
	First   int    `json:"start_line"`
	Last    int    `json:"end_line"`
	Several bool   `json:"allow_multiple"`
}

func (q *request) replaceContent(body struct {
	Path         string
	Replacements []replacement
}) (any, error) {
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
	before, part, after := strings.Join(lines[:first], ""), strings.Join(lines[first:last], ""),
		strings.Join(lines[last:], "")
	if r.Target == "" {
		return "", wire.Refuse(http.StatusBadRequest, "The target is empty.")
	}
	switch n := strings.Count(part, r.Target); {
	case n == 0:
		return "", wire.Refuse(http.StatusBadRequest,
			"Target string not found: %.200q. Read the file: it must be the same text, line ends included.", r.Target)
	case n > 1 && !r.Several:
		return "", wire.Refuse(http.StatusBadRequest,
			"Found %d occurrences of target string but allow_multiple is false: %.200q. Give more of the text around it.", n,
			r.Target)
	}
	return before + strings.ReplaceAll(part, r.Target, r.By) + after, nil
}

func (q *request) displayFile() (any, error) {
	at := q.absolute(q.query.Get("path"), q.cwd())
	f, err := q.locate(at)
	return struct {
		Path   string `json:"path"`
		Exists bool   `json:"exists"`
	}{at, f.exists}, err
}

const (
	maxMatches = 500
	maxSearch  = 100 // of a page of search_files or match_files
)

// search searches files; see live.Search. The handlers format the answer.
func (q *request) search(way, kind string, s live.Search) (live.Found, string, error) {
	if q.problem != nil {
		return live.Found{}, "", q.problem
	}
	f, err := q.existing(q.absolute(cmp.Or(q.query.Get("path"), "."), q.cwd()), kind)
	if err != nil {
		return live.Found{}, "", err
	}
	if s.Kind = cmp.Or(q.query.Get("type"), "any"); s.Kind != "any" && s.Kind != "file" && s.Kind != "directory" {
		return live.Found{}, "", wrong("string_pattern_mismatch", "query", "type",
			"String should match pattern '^(file|directory|any)$'", s.Kind)
	}
	s.Kind = strings.TrimPrefix(s.Kind, "any")
	s.Path, s.Include, s.Exclude = f.Path, q.query["include"], q.query["exclude"]
	result, err := q.live.SearchFiles(q.Context(), q.caller, q.workspace, way, s)
	if errors.Is(err, engine.ErrCanceled) && q.Context().Err() == nil {
		err = wire.Refuse(http.StatusGatewayTimeout, "That took too long: name a smaller folder.")
	}
	return result, f.Path, err
}

func (q *request) grep() (any, error) {
	q.query.Del("type")
	query := q.query.Get("query")
	found, at, err := q.search("grep", "", live.Search{
		Query: query, Regex: q.flag("regex", true), IgnoreCase: q.flag("case_insensitive", false),
		PerLine: q.flag("match_per_line", true), Most: q.whole("max_results", 1, maxMatches, 50),
	})
	return map[string]any{"query": query, "path": at, "matches": found.Matches, "truncated": found.More}, err
}

func (q *request) glob() (any, error) {
	pattern := q.query.Get("pattern")
	found, at, err := q.search("glob", "directory", live.Search{Query: pattern,
		Most: q.whole("max_results", 1, maxMatches, 50)})
	return map[string]any{"pattern": pattern, "path": at, "matches": found.Matches, "truncated": found.More}, err
}

func (q *request) searchFiles() (any, error) {
	found, _, err := q.search("search", "directory", live.Search{Query: q.query.Get("query"),
		Most: q.whole("limit", 1, maxSearch, 20), Hidden: q.flag("show_hidden", false)})
	return map[string]any{"results": found.Matches}, err
}

func (q *request) matchFiles() (any, error) {
	s := live.Search{Query: q.query.Get("query"), Most: q.whole("limit", 1, maxSearch, maxSearch),
		Offset: q.whole("offset", 0, math.MaxInt32, 0), Hidden: q.flag("show_hidden", false)}
	if strings.TrimSpace(s.Query) == "" {
		q.problem = cmp.Or(q.problem, wire.Refuse(http.StatusBadRequest, "Query must not be blank"))
	}
	found, _, err := q.search("matches", "directory", s)
	var next *int
	if found.More {
		next = new(s.Offset + s.Most)
	}
	return map[string]any{"results": found.Matches, "next_offset": next}, err
}
