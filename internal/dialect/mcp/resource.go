package mcp

import (
	"context"
	_ "embed"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net/url"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/dustin/go-humanize"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	listedFiles = 100
	maxResource = 16 << 20 // bytes of one resource
	storedURI   = "airlock://files/"
)

// addResources adds the resources and prompts that a person selects.
func (s *Server) addResources() {
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "file", Title: "File of a session", URITemplate: "airlock://sessions/{session}/files/{+path}",
	}, s.readResource)
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "output", Title: "Output of a program", URITemplate: "airlock://runs/{run}/{stream}", MIMEType: "text/plain",
	}, s.readResource)
	s.sdk.AddResourceTemplate(&sdk.ResourceTemplate{
		Name: "stored", Title: "Stored file", URITemplate: storedURI + "{file}",
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

// listResources answers with the caller's newest files: the SDK has one list for all callers.
func (s *Server) listResources(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		result, err := next(ctx, method, r)
		list, ok := result.(*sdk.ListResourcesResult)
		if err != nil || !ok {
			return result, err
		}
		list.Resources = []*sdk.Resource{} // hosts find the view through its tool
		files, err := s.Engine.ListFiles(ctx, s.callerOf(ctx, r),
			engine.FileQuery{Origin: engine.OriginMCP, Page: engine.Page{Limit: listedFiles}})
		if err != nil {
			return nil, fmt.Errorf("list files: %w", engine.KindOf(err))
		}
		for _, f := range files {
			list.Resources = append(list.Resources, &sdk.Resource{
				URI: storedURI + f.ID.String(), Name: f.Name, MIMEType: f.MIME, Size: f.Size,
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

// resource returns the contents of an address.
func (s *Server) resource(ctx context.Context, caller engine.Caller, uri string) (*sdk.ResourceContents, error) {
	u, err := url.Parse(uri)
	if err != nil {
		return nil, engine.ErrNotFound
	}
	handle, rest, _ := strings.Cut(strings.TrimPrefix(u.Path, "/"), "/")
	switch u.Host {
	case "sessions":
		session, _, _, err := s.session(ctx, caller, handle)
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

// The extension that shows a file in a window of the host
// (https://github.com/modelcontextprotocol/ext-apps). The document is the same for every file, and
// asks the host for the file like for any resource.
const (
	appsExtension = "io.modelcontextprotocol/ui"
	viewURI       = "ui://airlock/view.html"
	viewType      = "text/html;profile=mcp-app"
)

//go:embed view/view.html
var viewPage string

//go:embed view/charts.js.gz
var viewCharts []byte

// addView adds the document. It is not in the list: hosts find it by the tool's
// definition.
func (s *Server) addView() {
	s.sdk.AddResource(&sdk.Resource{URI: viewURI, Name: "view", Title: "File of a session", MIMEType: viewType},
		func(context.Context, *sdk.ReadResourceRequest) (*sdk.ReadResourceResult, error) {
			page := strings.Replace(viewPage, "{{charts}}", base64.StdEncoding.EncodeToString(viewCharts), 1)
			return &sdk.ReadResourceResult{Contents: []*sdk.ResourceContents{{
				URI: viewURI, MIMEType: viewType, Text: page,
				// No domains: nothing is loaded, and nothing is sent.
				Meta: sdk.Meta{"ui": map[string]any{"csp": map[string]any{}, "prefersBorder": true}},
			}}}, nil
		})
}

// show makes a host show a file. The view reads its path from the arguments of the call.
func (s *Server) show(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	session, name, err := s.file(ctx, c)
	if err != nil {
		return nil, err
	}
	_, size, err := s.read(ctx, c.caller, session, name, 0, 0)
	switch {
	case err != nil:
		return nil, about(name, err)
	case size > maxResource:
		return nil, refused("%s has %d bytes, at most %d are shown: have a program make it smaller",
			engine.ShownName(name), size, maxResource)
	case strings.HasPrefix(path.Ext(name), ".htm"):
		return nil, refused("%s is not shown, since pages of programs are not run in a person's window: write the figure as "+
			"JSON (Plotly's write_json, Altair's chart.save) or as a picture", engine.ShownName(name))
	}
	return answer(fmt.Sprintf("%s (%s) is shown to the person, where their program has views.",
		engine.ShownName(name), humanize.Bytes(uint64(size)))), nil
}
