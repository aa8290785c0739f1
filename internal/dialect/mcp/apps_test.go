package mcp

import (
	"strings"
	"testing"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// The view is one document that loads nothing. A program's page never replaces it.
func TestView(t *testing.T) {
	r := newRig(t)
	c := r.client("ada", nil)
	list, err := c.ListTools(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, tool := range list.Tools {
		ui, _ := tool.Meta["ui"].(map[string]any)
		if (tool.Name == "show") != (ui["resourceUri"] == viewURI) {
			t.Errorf("%s: %v", tool.Name, tool.Meta) // hosts open a frame for each call of a tool with a view
		}
	}
	read, err := c.ReadResource(t.Context(), &sdk.ReadResourceParams{URI: viewURI})
	if err != nil {
		t.Fatal(err)
	}
	page := read.Contents[0]
	if page.MIMEType != viewType || len(page.Text) < 500_000 || strings.Contains(page.Text, "{{") {
		t.Errorf("the view: %s, %d bytes", page.MIMEType, len(page.Text))
	}
	for _, outside := range []string{" src=", "<link", "http://", "https://", "eval(", "innerHTML", "document.write"} {
		if strings.Contains(viewPage, outside) {
			t.Errorf("the view has %s", outside)
		}
	}
	if files, err := c.ListResources(t.Context(), nil); err != nil || len(files.Resources) != 0 {
		t.Errorf("listed: %v, %v", files, err)
	}
	session := sessionOf(t, call1(t, c, "write_file", map[string]any{"path": "a/t.csv", "content": "x,y\n1,2\n"}))
	call1(t, c, "write_file", map[string]any{"path": "p.html", "content": "<script>", "session": session})
	for path, want := range map[string]string{"a/t.csv": "a/t.csv (8 B) is shown", "p.html": "pages of programs are not run",
		"no.csv": "there is no file", "../x": "without '..'"} {
		got := call1(t, c, "show", map[string]any{"session": session, "path": path})
		if !strings.Contains(textOf(got), want) || got.IsError != (path != "a/t.csv") {
			t.Errorf("%s: %q", path, textOf(got))
		}
	}
	if got := call1(t, r.client("mallory", nil), "show", map[string]any{"session": session,
		"path": "a/t.csv"}); !strings.HasPrefix(textOf(got), "there is no session") {
		t.Errorf("another owner: %q", textOf(got))
	}
}
