package browser

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/modelcontextprotocol/go-sdk/mcp"
)

// A host of MCP Apps, as little of one as there can be: a page that answers what the
// view in its frame asks.
const hostPage = `<!doctype html><title>host</title><iframe id="view" src="/view" width="900" height="700"></iframe><script>
let resolve; const ready = new Promise((r) => { resolve = r; }); const frame = document.getElementById("view");
const send = (m) => frame.contentWindow.postMessage({ jsonrpc: "2.0", ...m }, "*");
addEventListener("message", async ({ data: m }) => {
  if (m.method === "ui/initialize") send({ id: m.id, result: { protocolVersion: "2026-01-26", hostCapabilities: {}, hostContext: { theme: "dark" } } });
  if (m.method === "ui/notifications/initialized") resolve();
  if (m.method === "resources/read") {
    const read = await fetch("/read?uri=" + encodeURIComponent(m.params.uri));
    send(read.ok ? { id: m.id, result: await read.json() } : { id: m.id, error: { code: -32002, message: "not found" } });
  }
});
window.shown = async (args) => { await ready;
  send({ method: "ui/notifications/tool-input", params: { arguments: args } });
  send({ method: "ui/notifications/tool-result", params: { content: [] } }); };
</script>`

// hostPolicy is what hosts must use where a view asks for nothing.
const hostPolicy = "default-src 'none'; script-src 'self' 'unsafe-inline'; style-src 'self' 'unsafe-inline'; " +
	"img-src 'self' data:; media-src 'self' data:; connect-src 'none'"

// The view shows tables, pictures, charts and text under the policy that hosts use, and
// what is hostile in a file stays text.
func TestMCPView(t *testing.T) {
	s := shared(t)
	client, err := mcp.NewClient(&mcp.Implementation{Name: "host", Version: "1"}, nil).Connect(t.Context(),
		&mcp.StreamableClientTransport{Endpoint: strings.TrimSuffix(s.url, "/ui") + "/mcp"}, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	session := ""
	put := func(path, content string) {
		t.Helper()
		arguments := map[string]any{"path": path, "content": content}
		if session != "" {
			arguments["session"] = session
		}
		r, err := client.CallTool(t.Context(), &mcp.CallToolParams{Name: "write_file", Arguments: arguments})
		if err != nil || r.IsError {
			t.Fatalf("%s: %v, %v", path, r, err)
		}
		_, rest, _ := strings.Cut(r.Content[0].(*mcp.TextContent).Text, "session ")
		session, _, _ = strings.Cut(rest, " ")
	}
	rows := "name,units\n\"Desk, large\",10\n<img src=x onerror=alert(1)>,9\nChair,100\n"
	put("in a folder/sales #1.csv", rows)
	put("rows.json", `[{"a": 1, "b": "x"}, {"a": 2}]`)
	put("lite.json", `{"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "data": {"values": [{"a": "A", "b": 2}, {"a": "B", "b": 5}]},
		"transform": [{"calculate": "datum.b * 2", "as": "c"}], "mark": "bar", "encoding": {"x": {"field": "a"}, "y": {"field": "c", "type": "quantitative"}}}`)
	put("away.json", `{"$schema": "https://vega.github.io/schema/vega-lite/v6.json", "data": {"url": "https://example.com/x.json"}, "mark": "bar", "encoding": {}}`)
	put("plotly.json", `{"data": [{"type": "histogram", "x": [1, 2, 2, 3]}], "layout": {"title": {"text": "Counts"}}}`)
	put("picture.svg", `<svg xmlns="http://www.w3.org/2000/svg" width="30" height="20"><script>alert(1)</script><rect width="30" height="20"/></svg>`)
	put("notes.txt", "one\n<b>two</b>\n")
	mux := http.NewServeMux()
	mux.HandleFunc("/{$}", func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, hostPage) })
	mux.HandleFunc("/view", func(w http.ResponseWriter, r *http.Request) {
		read, err := client.ReadResource(r.Context(), &mcp.ReadResourceParams{URI: "ui://airlock/view.html"})
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		w.Header().Set("Content-Security-Policy", hostPolicy)
		fmt.Fprint(w, read.Contents[0].Text)
	})
	mux.HandleFunc("/read", func(w http.ResponseWriter, r *http.Request) {
		read, err := client.ReadResource(r.Context(), &mcp.ReadResourceParams{URI: r.URL.Query().Get("uri")})
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		text, _ := read.MarshalJSON()
		_, _ = w.Write(text)
	})
	host := httptest.NewServer(mux)
	defer host.Close()
	b := open(t, look{})
	b.goTo(host.URL)
	const view = `document.getElementById("view").contentDocument`
	show := func(path, holds string) {
		t.Helper()
		b.run(`await shown({session: ` + quote(session) + `, path: ` + quote(path) + `})`)
		b.wait(view + `.getElementById("name").textContent === ` + quote(path) + ` && (` + holds + `)`)
	}
	about := view + `.getElementById("about").textContent`
	show("in a folder/sales #1.csv", about+` === "3 of 3 rows, 2 columns"`)
	column := func() string {
		return eval[string](b, `[...`+view+`.querySelectorAll("tbody tr")].map((r) => r.cells[1].textContent).join()`)
	}
	b.run(view + `.querySelectorAll("th button")[1].click()`)
	if got := column(); got != "9,10,100" { // as numbers
		t.Errorf("sorted: %s", got)
	}
	b.run(view + `.querySelectorAll("th button")[1].click()`)
	if got := column(); got != "100,10,9" {
		t.Errorf("sorted down: %s", got)
	}
	b.run(`const f = ` + view + `.getElementById("filter"); f.value = "DESK"; f.dispatchEvent(new Event("input"))`)
	if got := column(); got != "10" {
		t.Errorf("filtered: %s", got)
	}
	if n := eval[int](b, view+`.querySelectorAll("td img").length`); n != 0 {
		t.Error("a cell became markup")
	}
	b.run(view + `.getElementById("filter").value = ""`)
	show("rows.json", about+` === "2 of 2 rows, 2 columns"`)
	show("lite.json", about+` === "Vega" && `+view+`.querySelectorAll(".chart svg path").length >= 2`)
	show("plotly.json", about+` === "Plotly" && `+view+`.querySelectorAll(".chart .bars path").length >= 2`)
	b.shoot("mcp-view")
	show("picture.svg", about+` === "30 x 20"`)
	show("notes.txt", view+`.querySelector("pre")?.textContent === "one\n<b>two</b>\n"`)
	show("gone.txt", about+` === "It cannot be shown: not found"`)
	show("away.json", `/cannot be shown|Vega/.test(`+about+`)`)
	if faults := b.forgive(); strings.Contains(strings.Join(faults, " "), "Content Security Policy") {
		t.Errorf("the view is refused something: %v", faults)
	}
}
