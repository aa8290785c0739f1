package mcp

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"strings"
	"unicode/utf8"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	listedFiles = 100
	maxResource = 16 << 20 // bytes of one that is read
)

// addResources adds what a person picks from: files, output, a way to begin.
func (s *Server) addResources() {
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "file", Title: "File of a session", URITemplate: "airlock://sessions/{session}/files/{+path}",
	}, s.readResource)
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "output", Title: "Output of a program", URITemplate: "airlock://runs/{run}/{stream}", MIMEType: "text/plain",
	}, s.readResource)
	about, docs := describe("analyze")
	s.sdk.AddPrompt(&sdk.Prompt{
		Name: "analyze", Title: "Analyze a file", Description: docs["analyze"],
		Arguments: []*sdk.PromptArgument{
			{Name: "file", Description: docs["file"], Required: true}, {Name: "question", Description: docs["question"]},
		},
	}, func(_ context.Context, r *sdk.GetPromptRequest) (*sdk.GetPromptResult, error) {
		question := r.Params.Arguments["question"]
		if question == "" {
			question = docs["otherwise"]
		}
		text := strings.NewReplacer("{file}", r.Params.Arguments["file"], "{question}", question).Replace(about)
		return &sdk.GetPromptResult{Messages: []*sdk.PromptMessage{{Role: "user", Content: &sdk.TextContent{Text: text}}}},
			nil
	})
	s.addView()
	s.sdk.AddReceivingMiddleware(s.listResources)
}

// listResources answers with the caller's newest files: the SDK has one list for
// everybody.
func (s *Server) listResources(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		list, ok := result.(*sdk.ListResourcesResult)
		if err != nil || !ok {
			return result, err
		}
		list.Resources = []*sdk.Resource{} // hosts find the view by its tool
		files, err := s.Engine.ListFiles(ctx, s.callerOf(ctx, r),
			engine.FileQuery{Origin: engine.OriginMCP, Page: engine.Page{Limit: listedFiles}})
		if err != nil {
			return nil, fmt.Errorf("list files: %w", engine.KindOf(err))
		}
		for _, f := range files {
			list.Resources = append(list.Resources, &sdk.Resource{
				URI: "airlock://files/" + f.ID.String(), Name: f.Name, MIMEType: f.MIME, Size: f.Size,
			})
		}
		return list, nil
	}
}

func (s *Server) readResource(ctx context.Context, r *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
	missing := sdk.ResourceNotFoundError(r.Params.URI)
	contents, err := s.resource(ctx, s.callerOf(ctx, r), r.Params.URI)
	if err != nil {
		if _, ok := errors.AsType[*missingError](err); ok || errors.Is(err, engine.ErrNotFound) ||
			errors.Is(err, engine.ErrInvalid) {
			return nil, missing
		}
		if text, ok := errorOf(err); ok {
			return nil, errors.New(text)
		}
		s.Log.ErrorContext(ctx, "mcp", "error", err)
		return nil, errors.New("the service failed")
	}
	contents.URI = r.Params.URI
	return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{contents}}, nil
}

// resource returns what an address names.
func (s *Server) resource(ctx context.Context, caller engine.Caller, uri string) (*sdk.ResourceContents, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, engine.ErrNotFound
	}
	handle, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch u.Host {
	case "sessions":
		session, _, err := s.session(ctx, caller, handle)
		if err != nil {
			return nil, err
		}
		name, err := engine.CleanPath(strings.TrimPrefix(rest, "files/"))
		if err != nil || !strings.HasPrefix(rest, "files/") {
			return nil, engine.ErrNotFound
		}
		data, size, err := s.read(ctx, caller, session, name, 0, maxResource)
		if err == nil && size > maxResource {
			err = refused("%s has %d bytes: read_file reads a part of it", engine.ShownName(name), size)
		}
		return contents(data, ""), err
	case "runs":
		p, err := s.program(ctx, caller, handle)
		if err != nil {
			return nil, err
		}
		out, err := p.outcome(ctx)
		if err != nil {
			return nil, err
		}
		switch rest {
		case "stdout":
			return contents([]byte(out.stdout), "text/plain"), nil
		case "stderr":
			return contents([]byte(out.stderr), "text/plain"), nil
		}
	case "files":
		return s.storedFile(ctx, caller, handle)
	}
	return nil, engine.ErrNotFound
}

func (s *Server) storedFile(ctx context.Context, caller engine.Caller, text string) (*sdk.ResourceContents, error) {
	id, err := engine.ParseID(text)
	if err != nil {
		return nil, engine.ErrNotFound
	}
	f, content, err := s.Engine.OpenFile(ctx, caller, id)
	if err != nil {
		return nil, err
	}
	defer content.Close()
	if f.Size > maxResource {
		return nil, refused("%s has %d bytes: have a program look at it", engine.ShownName(f.Name), f.Size)
	}
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(content, data); err != nil {
		return nil, err
	}
	return contents(data, f.MIME), nil
}

func contents(data []byte, kind string) *sdk.ResourceContents {
	if utf8.Valid(data) {
		return &sdk.ResourceContents{Text: string(data), MIMEType: kind}
	}
	return &sdk.ResourceContents{Blob: data, MIMEType: kind}
}
