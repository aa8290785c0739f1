package web

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// source is what a visitor asked to be run. The engine keeps what came of it,
// and not the code; so the page keeps the source as a file of the visitor's,
// and its id in the scope of the run's session.
type source struct {
	Language string  `json:"language"`
	Code     string  `json:"code"`
	Stdin    string  `json:"stdin,omitempty"`
	Timeout  int     `json:"timeout_s,omitempty"` // seconds
	Memory   int64   `json:"memory,omitempty"`
	Files    []input `json:"files,omitempty"`
}

// input is a file that a program finds in its workspace.
type input struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// originPage marks the files that hold sources, and originPreview the runs
// that make previews: no list shows them.
const (
	originPage    engine.Origin = "page"
	originPreview engine.Origin = "preview"
)

// sourceTime is how long a source is kept since its last use: as long as any
// run that may still ask for it.
const sourceTime = 48 * time.Hour

// sourceFiles is what keeping sources asks of the core.
type sourceFiles interface {
	PutFile(ctx context.Context, caller engine.Caller, up engine.Upload, content io.Reader) (engine.File, error)
	OpenFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, engine.Content, error)
	GetSession(ctx context.Context, caller engine.Caller, id engine.ID) (engine.Session, error)
}

// sources keeps what visitors ran.
type sources struct{ files sourceFiles }

const maxSource = 16 << 20 // code and standard input, as JSON

// keep stores a source and returns the scope by which of finds it.
func (s sources) keep(ctx context.Context, caller engine.Caller, src *source) (scope string, err error) {
	text, err := json.Marshal(src)
	if err != nil {
		return "", err
	}
	file, err := s.files.PutFile(ctx, caller, engine.Upload{
		Name: "source.json", Origin: originPage, MIME: "application/json", TTL: sourceTime}, bytes.NewReader(text))
	if err != nil {
		return "", err
	}
	return file.ID.String(), nil
}

// of returns what was run, nil where that is not known: the run came another
// way, or it is too old.
func (s sources) of(ctx context.Context, caller engine.Caller, run *engine.Run) (*source, error) {
	session, err := s.files.GetSession(ctx, caller, run.Session)
	if errors.Is(err, engine.ErrNotFound) || err == nil && session.Scope == "" {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	id, err := engine.ParseID(session.Scope)
	if err != nil {
		return nil, nil
	}
	file, content, err := s.files.OpenFile(ctx, caller, id)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if file.Origin != originPage {
		return nil, nil
	}
	var src source
	if err := json.NewDecoder(io.LimitReader(content, maxSource)).Decode(&src); err != nil {
		return nil, nil // no source of ours
	}
	return &src, nil
}

// request is the run that the source asks for.
func (s *source) request() engine.RunRequest {
	req := engine.RunRequest{Language: s.Language, Code: s.Code, Profile: engine.Profile{
		Origin: engine.OriginNative, ShowPlots: true, Limits: engine.Limits{Timeout: time.Duration(s.Timeout) * time.Second},
	}}
	if s.Stdin != "" {
		req.Stdin = []byte(s.Stdin)
	}
	for _, f := range s.Files {
		if id, err := engine.ParseID(f.ID); err == nil {
			req.Files = append(req.Files, engine.FileRef{ID: id})
		}
	}
	return req
}

// title is the first line of the code that says something: a comment, or what
// comes after the imports.
func (s *source) title() string {
	first := ""
	for line := range strings.Lines(s.Code) {
		line = strings.TrimSpace(line)
		said := strings.TrimSpace(strings.TrimLeft(line, "#/*-!<?"))
		if said == "" || strings.HasPrefix(line, "#!") || said == "php" {
			continue
		}
		if first == "" {
			first = said
		}
		if word, _, _ := strings.Cut(said, " "); !setsUp[word] {
			return shorten(said, maxTitle)
		}
	}
	return shorten(first, maxTitle)
}

const maxTitle = 72 // characters

// setsUp are the words with which lines begin that say little of a program.
var setsUp = map[string]bool{
	"import": true, "from": true, "include": true, "package": true, "use": true, "using": true,
	"library": true, "set": true, "const": true, "require": true, "library(": true,
}
