package mcp

import (
	"context"
	_ "embed"
	"encoding/base64"
	"fmt"
	"path"
	"strings"

	"github.com/dustin/go-humanize"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
)

// The extension that shows a person a file in the host's own window
// (https://github.com/modelcontextprotocol/ext-apps). The document is ours, whatever
// the file is; it asks the host for the file as for every resource.
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

// show has a host show a file. Its view knows which one by the call's arguments.
func (s *Server) show(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	session, _, err := s.session(ctx, c.caller, c.text("session"))
	if err != nil {
		return nil, err
	}
	name, err := c.path()
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
