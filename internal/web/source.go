package web

import (
	"cmp"
	"context"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// source is a program as the form has it.
type source struct {
	Language string
	Code     string
	Stdin    string
	Network  string // rules of what the program may contact
	Timeout  int    // seconds
	Memory   int64
	Files    []input
}

// input is a file that a program finds in its workspace.
type input struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// originPage marks files that only pages show: no list has them.
const originPage engine.Origin = "page"

// clientPage is the word of a run's Source for this page.
const clientPage = "page"

// sourceOf makes the form's program of what History keeps of a run.
func (p *runPage) sourceOf(ctx context.Context, caller engine.Caller, kept *engine.Source) source {
	src := source{
		Language: kept.Language, Code: kept.Code, Stdin: string(kept.Stdin),
		Timeout: int(kept.Timeout.Seconds()), Memory: kept.Memory,
	}
	for _, f := range kept.Files {
		file, err := p.Engine.GetFile(ctx, caller, f.ID)
		if err != nil {
			file = engine.File{Name: "a file that is gone"} // a run that needs it says so
		}
		src.Files = append(src.Files, input{ID: f.ID.String(), Name: cmp.Or(f.Path, file.Name), Size: file.Size})
	}
	return src
}

// request is the run that the source asks for.
func (s *source) request() engine.RunRequest {
	req := engine.RunRequest{Language: s.Language, Code: s.Code, Profile: engine.Profile{
		Origin: engine.OriginNative, Client: clientPage, ShowPlots: true,
		Limits: engine.Limits{Timeout: time.Duration(s.Timeout) * time.Second, Memory: s.Memory},
	}}
	req.Network = networkOf(s.Network)
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

// clientWords says what a run came from.
func clientWords(run *engine.Run) string {
	if run.Source != nil && run.Source.Client != "" {
		return run.Source.Client
	}
	if words := originWords[run.Origin]; words != "" {
		return words
	}
	return string(run.Origin)
}

var originWords = map[engine.Origin]string{
	engine.OriginNative: "API", engine.OriginOnyx: "Onyx", engine.OriginLibreChat: "LibreChat", engine.OriginMCP: "MCP",
	engine.OriginDify: "Dify", engine.OriginJupyter: "Jupyter", engine.OriginE2B: "E2B",
	engine.OriginTerminal: "Open Terminal", engine.OriginOpenAI: "OpenAI",
}

// title is the first line of the code that says something: a comment, or what
// comes after the imports.
func titleOf(code string) string {
	first := ""
	for line := range strings.Lines(code) {
		line = strings.TrimSpace(line)
		said := strings.TrimSpace(strings.TrimLeft(line, "#/*-!<?"))
		if said == "" || strings.HasPrefix(line, "#!") || said == "php" {
			continue
		}
		first = cmp.Or(first, said)
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
