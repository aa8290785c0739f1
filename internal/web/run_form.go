package web

import (
	"cmp"
	"context"
	"errors"
	"mime/multipart"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

const (
	maxCode  = 17 << 20 // the engine has a lower bound and a better message
	maxStdin = 11 << 20 // as above
)

// readForm reads the form of the run page.
func (p *runPage) readForm(v *page.Request) (*source, error) {
	src := &source{}
	if err := v.EachPart(func(part *multipart.Part) error { return p.readPart(v, part, src) }); err != nil {
		return nil, err
	}
	if strings.TrimSpace(src.Code) == "" {
		return nil, page.Refuse(http.StatusBadRequest, "There is no code to run.",
			"Write some, or choose a run from the history.")
	}
	defaults, _ := p.Engine.Limits()
	src.Memory = defaults.Memory
	if src.Timeout == 0 {
		src.Timeout = int(defaults.Timeout.Seconds())
	}
	return src, nil
}

func (p *runPage) readPart(v *page.Request, part *multipart.Part, src *source) error {
	if part.FormName() == "upload" {
		return p.storeUpload(v, part, src.add)
	}
	text, err := page.Field(part, fieldLimit(part.FormName()))
	if err != nil {
		return err
	}
	switch part.FormName() {
	case "language":
		src.Language = text
	case "code":
		src.Code = strings.ReplaceAll(text, "\r\n", "\n") // as browsers send line breaks
	case "stdin":
		src.Stdin = strings.ReplaceAll(text, "\r\n", "\n")
	case "image":
		src.Image = text
	case "network":
		src.Network = text
	case "timeout":
		return src.setTimeout(text)
	case "file":
		return p.storedFile(v, text, src.add)
	}
	return nil
}

func fieldLimit(name string) int64 {
	switch name {
	case "code":
		return maxCode
	case "stdin":
		return maxStdin
	}
	return page.MaxField
}

func (s *source) setTimeout(text string) error {
	if text == "" {
		return nil
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < 1 {
		return page.Refuse(http.StatusBadRequest, "The time limit must be a whole number of seconds, 1 or more.", "")
	}
	s.Timeout = n
	return nil
}

// storeUpload stores a file of a form, if one was chosen, and adds it.
func (s *site) storeUpload(v *page.Request, part *multipart.Part, add func(engine.File) error) error {
	if part.FileName() == "" {
		return nil
	}
	file, err := s.Engine.PutFile(v.Context(), v.Caller, engine.Upload{
		Name: part.FileName(), Origin: engine.OriginNative}, part)
	if err != nil {
		return err
	}
	return add(file)
}

// storedFile adds a file that a form names by its id.
func (s *site) storedFile(v *page.Request, id string, add func(engine.File) error) error {
	parsed, err := page.ParseID(id)
	if err != nil {
		return err
	}
	file, err := s.Engine.GetFile(v.Context(), v.Caller, parsed)
	if errors.Is(err, engine.ErrNotFound) {
		return page.Refuse(http.StatusNotFound, "One of the input files is gone: it was deleted or has expired.",
			"Take it out of the list, or add it again.")
	}
	if err != nil {
		return err
	}
	return add(file)
}

func (s *source) add(f engine.File) error {
	if len(s.Files) >= page.MaxInputs {
		return page.Refuse(http.StatusBadRequest, "A program takes at most 256 input files.", "Pack them into an archive.")
	}
	s.Files = append(s.Files, input{f.ID.String(), f.Name, f.Size})
	return nil
}

// source is a program in the form.
type source struct {
	Language string
	Image    string // name of its image; empty: the usual one
	Code     string
	Stdin    string
	Network  string // rules for the program's network access
	Timeout  int    // seconds
	Memory   int64
	Files    []input
}

// input is an input file of a program.
type input struct {
	ID   string `json:"id"`
	Name string `json:"name"`
	Size int64  `json:"size"`
}

// originPage marks files for previews, which no list has.
const originPage engine.Origin = "page"

// clientPage names this page as the client of a run.
const clientPage = "page"

// sourceOf returns the program of a past run for the form.
func (p *runPage) sourceOf(ctx context.Context, caller engine.Caller, kept *engine.Source) source {
	src := source{
		Language: kept.Language, Image: kept.Image, Code: kept.Code, Stdin: string(kept.Stdin),
		Timeout: int(kept.Timeout.Seconds()), Memory: kept.Memory,
	}
	for _, f := range kept.Files {
		file, err := p.Engine.GetFile(ctx, caller, f.ID)
		if err != nil {
			file = engine.File{Name: "a file that is gone"} // a run that needs it fails
		}
		src.Files = append(src.Files, input{ID: f.ID.String(), Name: cmp.Or(f.Path, file.Name), Size: file.Size})
	}
	return src
}

// request returns the request for a run.
func (s *source) request() engine.RunRequest {
	req := engine.RunRequest{Language: s.Language, Image: s.Image, Code: s.Code, Profile: engine.Profile{
		Origin: engine.OriginNative, Client: clientPage, Files: engine.FileRules{Plots: true},
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

// clientWords names the client of a run.
func clientWords(run *engine.Run) string {
	switch src := run.Source; {
	case src != nil && src.Client == clientPage:
		return "this page"
	case src != nil && src.Client != "":
		return src.Client
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
