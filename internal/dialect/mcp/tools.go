package mcp

import (
	"bytes"
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

const (
	defaultChars = 20_000
	maxContent   = 3 << 20 // bytes that write_file takes
	listDepth    = 1 << 12 // more than any path's depth
)

// table lists the tools.
func (s *Server) table() []tool {
	session := argument{name: "session", kind: text}
	needed := argument{name: "session", kind: text, required: true, min: 1}
	path := argument{name: "path", kind: text, required: true, min: 1}
	encoding := argument{name: "encoding", kind: text, enum: []string{"utf8", "base64"}, value: "utf8"}
	wait := argument{name: "wait_seconds", kind: integer, min: 1, max: 280, value: 45}
	reads := sdk.ToolAnnotations{ReadOnlyHint: true}
	destroys := sdk.ToolAnnotations{DestructiveHint: new(true), IdempotentHint: true}
	var tools []tool
	if s.Engine != nil {
		tools = []tool{{name: "run_code", title: "Run code", call: (*Server).runCode, args: []argument{
			{name: "code", kind: text, required: true, min: 1}, {name: "language", kind: text, value: "python"},
			session, {name: imageArgument, kind: text}, {name: "files", kind: list, max: 25}, {name: "args",
				kind: list}, {name: "stdin", kind: text},
			{name: "timeout_seconds", kind: integer, min: 1, max: 300, value: 60}, wait,
			{name: "max_chars", kind: integer, min: 1000, max: 100_000, value: defaultChars},
		}},
			{name: "wait_run", title: "Wait for a program", hints: reads, call: (*Server).waitRun, args: []argument{
				{name: "run", kind: text, required: true, min: 1}, wait,
			}},
			{name: "describe_environment", title: "Describe the environment", hints: reads,
				call: (*Server).describeEnvironment},
			{name: "write_file", title: "Write a file", hints: sdk.ToolAnnotations{IdempotentHint: true},
				call: (*Server).writeFile,
				args: []argument{path, {name: "content", kind: text, required: true}, encoding, session}},
			{name: "read_file", title: "Read a file", hints: reads, call: (*Server).readFile, args: []argument{
				needed, path, {name: "offset", kind: integer, value: 0},
				{name: "limit", kind: integer, min: 1, max: 40_000, value: 16_000}, encoding,
			}},
			{name: "list_files", title: "List files", hints: reads, call: (*Server).listFiles, args: []argument{
				needed, {name: "prefix", kind: text}, {name: "after", kind: text},
				{name: "limit", kind: integer, min: 1, max: 1000, value: 200},
			}},
			{name: "delete_file", title: "Delete a file", hints: destroys, call: (*Server).deleteFile,
				args: []argument{needed, path}},
			{name: "show", title: "Show a file", hints: reads, view: true, call: (*Server).show,
				args: []argument{needed, path}},
		}
	}
	if s.HTTP {
		tools = append(tools, tool{name: "upload_link", title: "Link for an upload", call: (*Server).uploadLink,
			args: []argument{path, session}})
	}
	if s.Upstream != nil {
		tools = append(tools, tool{name: "search_tools", title: "Search tools", hints: reads, call: (*Server).searchTools,
			args: []argument{
				{name: "query", kind: text, required: true},
				{name: "detail", kind: text, enum: []string{"names", "signatures", "full"}, value: "signatures"},
				{name: "limit", kind: integer, min: 1, max: 50, value: 10},
			}})
	}
	if s.Changes != nil {
		tools = append(tools,
			tool{name: "propose_changes", title: "Propose changes", hints: reads, call: (*Server).proposeChanges,
				args: []argument{
					{name: "response", kind: text, required: true, min: 1}, {name: "root", kind: text},
				}},
			tool{name: "apply_changes", title: "Apply changes", hints: sdk.ToolAnnotations{DestructiveHint: new(true)},
				call: (*Server).applyChanges, args: []argument{
					{name: "plan_id", kind: text, required: true, min: 1}, {name: "only", kind: list},
				}})
	}
	return tools
}

// work returns the session of a call, or a new one.
func (s *Server) work(ctx context.Context, c *call) (engine.ID, error) {
	if handle := c.text("session"); handle != "" {
		session, _, _, err := s.session(ctx, c.caller, handle)
		return session, err
	}
	session, err := s.Live.Create(ctx, c.caller, live.Request{Origin: engine.OriginMCP})
	return session.ID, err
}

// file returns the session and the path of a call about a file.
func (s *Server) file(ctx context.Context, c *call) (session engine.ID, name string, err error) {
	if session, _, _, err = s.session(ctx, c.caller, c.text("session")); err != nil {
		return session, "", err
	}
	name, err = c.path()
	return session, name, err
}

// path reads the argument path.
func (c *call) path() (string, error) {
	clean, err := engine.CleanPath(c.text("path"))
	if err != nil {
		return "", refused("path %.80q: give a relative path without '..'", c.text("path"))
	}
	return clean, nil
}

func (s *Server) writeFile(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	name, err := c.path()
	if err != nil {
		return nil, err
	}
	content, err := c.content("content")
	if err != nil {
		return nil, refused("%w", err)
	}
	if len(content) > maxContent {
		return nil, refused("content: it has %s, at most 3 MB are taken here. upload_link takes larger files",
			humanize.Bytes(uint64(len(content))))
	}
	session, err := s.work(ctx, c)
	if err != nil {
		return nil, err
	}
	if _, err := s.write(ctx, c.caller, session, name, bytes.NewReader(content)); err != nil {
		return nil, about(name, err)
	}
	return answer(fmt.Sprintf("Written: %s (%s). session %s has it: pass it to go on.",
		engine.ShownName(name), humanize.Bytes(uint64(len(content))), sessionPrefix+session.String())), nil
}

func (s *Server) readFile(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	session, name, err := s.file(ctx, c)
	if err != nil {
		return nil, err
	}
	offset, limit := int64(c.int("offset")), c.int("limit")
	data, size, err := s.read(ctx, c.caller, session, name, offset, limit)
	if err != nil {
		return nil, about(name, err)
	}
	var shown string
	if c.text("encoding") == "base64" {
		shown = base64.StdEncoding.EncodeToString(data)
	} else if data = wholeRunes(data); !utf8.Valid(data) {
		return nil, refused("%s is not text: read it with encoding base64, or have a program look at it",
			engine.ShownName(name))
	} else {
		shown = string(data)
	}
	end := offset + int64(len(data))
	head := fmt.Sprintf("%s, bytes %d to %d of %d", engine.ShownName(name), offset, end, size)
	if end < size {
		head += fmt.Sprintf(". Go on with offset=%d", end)
	}
	return answer(head + ".\n\n" + shown), nil
}

// wholeRunes drops an incomplete character at the end.
func wholeRunes(data []byte) []byte {
	for i := len(data) - 1; i >= 0 && i >= len(data)-utf8.UTFMax; i-- {
		if utf8.RuneStart(data[i]) {
			if !utf8.FullRune(data[i:]) && i > 0 {
				return data[:i]
			}
			break
		}
	}
	return data
}

// write writes a file, and makes the folders above it.
func (s *Server) write(
	ctx context.Context, caller engine.Caller, session engine.ID, name string, content io.Reader,
) (engine.Entry, error) {
	if folder := path.Dir(name); folder != "." {
		if _, err := s.Live.MakeFolder(ctx, caller, session, folder); err != nil {
			return engine.Entry{}, err
		}
	}
	return s.Live.WriteFile(ctx, caller, session, name, content)
}

// read returns a part of a file and the size of the whole.
func (s *Server) read(
	ctx context.Context, caller engine.Caller, session engine.ID, name string, offset int64, limit int,
) ([]byte, int64, error) {
	entry, f, err := s.Live.OpenFile(ctx, caller, session, name)
	if err != nil {
		return nil, 0, err
	}
	defer f.Close()
	if offset > entry.Size {
		return nil, entry.Size, refused("offset: %s has %d bytes", engine.ShownName(name), entry.Size)
	}
	data := make([]byte, min(int64(limit), entry.Size-offset))
	n, err := f.ReadAt(data, offset)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, 0, err
	}
	return data[:n], entry.Size, nil
}

func (s *Server) listFiles(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	session, _, _, err := s.session(ctx, c.caller, c.text("session"))
	if err != nil {
		return nil, err
	}
	entries, more, err := s.Live.ListFiles(ctx, c.caller, session, "", listDepth)
	if err != nil {
		return nil, err
	}
	entries = slices.DeleteFunc(entries, func(e engine.Entry) bool {
		return e.Kind != engine.EntryFile || !strings.HasPrefix(e.Path, c.text("prefix")) || e.Path <= c.text("after")
	})
	slices.SortFunc(entries, func(a, b engine.Entry) int { return strings.Compare(a.Path, b.Path) })
	var b strings.Builder
	shown := min(len(entries), c.int("limit"))
	for _, e := range entries[:shown] {
		fmt.Fprintf(&b, "%s (%s)\n", engine.ShownName(e.Path), humanize.Bytes(uint64(e.Size)))
	}
	switch left := len(entries) - shown; {
	case shown == 0:
		b.WriteString("There are no files.")
	case left > 0:
		fmt.Fprintf(&b, "%d more: go on with after=%s", left, quote(entries[shown-1].Path))
	case more:
		b.WriteString("There are more than can be listed: have a program look.")
	}
	return answer(strings.TrimRight(b.String(), "\n")), nil
}

func (s *Server) deleteFile(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	session, name, err := s.file(ctx, c)
	if err != nil {
		return nil, err
	}
	if err := s.Live.RemoveFile(ctx, c.caller, session, name, false); err != nil && !errors.Is(err, engine.ErrNotFound) {
		return nil, about(name, err)
	}
	return answer("Deleted: " + engine.ShownName(name)), nil
}

func (s *Server) describeEnvironment(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	var b strings.Builder
	fmt.Fprintf(&b, "Languages: %s. Variables stay in python, js, ts, bash and r.\n", strings.Join(s.Languages(ctx), ", "))
	if set, main := s.Engine.PackagesOf(c.caller, engine.OriginLive); set != "" {
		fmt.Fprintf(&b, "Python packages: the set %q%s. `pip list` in bash lists all.\n", set, namePackages(main))
	}
	images, err := s.Engine.ImagesOf(c.caller)
	if err != nil {
		return nil, err
	}
	if len(images) > 0 {
		b.WriteString(aboutImages(images, s.Engine.DefaultImage(c.caller, engine.OriginMCP), c.caller.MayHaveHost()))
	}
	limits, most := s.Engine.Limits()
	fmt.Fprintf(&b, "A program has %s (at most %s), %s of memory, %d processes, and a working directory of %s.\n",
		engine.DurationText(limits.Timeout), engine.DurationText(most.Timeout), humanize.IBytes(uint64(limits.Memory)),
		limits.Processes, humanize.IBytes(uint64(limits.Workspace)))
	network := "There is no network."
	if c.caller.Network != "" { // no tool can request more
		network = "Programs may contact, through the proxy that is set for them, and nothing else: " +
			strings.ReplaceAll(c.caller.Network, ",", ", ") + "."
	}
	b.WriteString(network + "\n")
	if isolation, err := s.Engine.Isolation(ctx); err == nil {
		fmt.Fprintf(&b, "Isolation: %s.\n", isolation.Summary)
	}
	return answer(strings.TrimRight(b.String(), "\n")), nil
}

// wellKnown are the packages that a model is told of first.
var wellKnown = strings.Fields(`numpy pandas matplotlib scipy scikit-learn seaborn plotly statsmodels sympy polars
	pyarrow duckdb pillow openpyxl python-docx python-pptx pypdf reportlab requests beautifulsoup4 lxml torch transformers`)

// packagesLength bounds the names of packages in an answer.
const packagesLength = 750

// namePackages names packages with their versions, the well-known ones first: ": numpy 2.4.6, pandas 3.1.1 and 9 more".
func namePackages(packages []engine.Package) string {
	rank := func(p engine.Package) int {
		if i := slices.Index(wellKnown, strings.ToLower(p.Name)); i >= 0 {
			return i
		}
		return len(wellKnown)
	}
	packages = slices.SortedStableFunc(slices.Values(packages), func(a, b engine.Package) int { return rank(a) - rank(b) })
	var b strings.Builder
	for i, p := range packages {
		named := ", " + p.Name + " " + p.Version
		if b.Len()+len(named) > packagesLength {
			fmt.Fprintf(&b, " and %d more", len(packages)-i)
			break
		}
		b.WriteString(named)
	}
	return strings.Replace(b.String(), ",", ":", 1)
}

// aboutImages describes the images for a model.
func aboutImages(images []engine.Image, usual string, host bool) string {
	var b strings.Builder
	b.WriteString("Images, for the argument image of run_code, with languages and packages of their own:\n")
	for i := range images {
		fmt.Fprintf(&b, "  %s: %s\n", images[i].Name, images[i].Has())
	}
	if host {
		fmt.Fprintf(&b, "  %s: the languages and packages above\n", engine.HostImage)
	}
	fmt.Fprintf(&b, "Without it a new session has %s.\n", usual)
	return b.String()
}

// refusedError is a refusal in words for a model.
type refusedError struct{ error }

func refused(format string, args ...any) error { return &refusedError{fmt.Errorf(format, args...)} }

// Refused is an error whose text is for the model.
func Refused(format string, args ...any) error { return refused(format, args...) }

// about returns the error of a file in words for a model.
func about(name string, err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return refused("there is no file %s: list_files tells what there is", quote(path.Clean(name)))
	}
	return err
}

func quote(s string) string {
	if len(s) > 80 {
		s = strings.ToValidUTF8(s[:80], "")
	}
	return `"` + engine.ShownName(s) + `"`
}

// errorOf returns the text of an error for a model, and whether it may be shown.
func errorOf(err error) (string, bool) {
	if e, ok := errors.AsType[*missingError](err); ok {
		return e.Error(), true
	}
	if e, ok := errors.AsType[*refusedError](err); ok {
		return e.Error(), true
	}
	kind := engine.KindOf(err)
	e, ok := errors.AsType[*engine.Error](err)
	if !ok || kind == engine.ErrInternal {
		if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
			return "cancelled", true
		}
		return "", false
	}
	switch {
	case kind == engine.ErrBusy:
		why := "other programs wait"
		if e.Err != nil {
			why = e.Err.Error()
		}
		return fmt.Sprintf("busy: %s. Try again in %d s.", why, max(int(e.RetryAfter/time.Second), 1)), true
	case kind == engine.ErrInvalid && e.ID != "" && e.Err != nil:
		return e.ID + " " + e.Err.Error(), true
	case e.Hint != "":
		return e.Hint, true
	case e.Err != nil && kind != engine.ErrUnavailable:
		return e.Err.Error(), true
	}
	return string(kind), true
}
