package live

import (
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
)

// comms runs a cell with a parent and returns what its comms say.
func (p *place) comms(session engine.ID, code string) (said []*CommMessage, c Cell) {
	p.t.Helper()
	c = p.runCell(session, CellRequest{Code: code, Parent: "request-1"})
	return p.said(session, c.ID), c
}

func (p *place) said(session, id engine.ID) (said []*CommMessage) {
	p.t.Helper()
	events, err := p.Watch(p.t.Context(), p.caller, session, id, 0)
	if err != nil {
		p.t.Fatal(err)
	}
	for e := range events {
		if e.Type == CommEvent {
			said = append(said, e.Comm)
		}
	}
	return said
}

// send sends a message to a comm, and returns what its handler prints and says.
func (p *place) send(session engine.ID, m CommMessage) (said []*CommMessage, end Cell) {
	p.t.Helper()
	events, err := p.SendComm(p.t.Context(), p.caller, session, "request-2", m)
	if err != nil {
		p.t.Fatal(err)
	}
	for e := range events {
		switch e.Type {
		case CommEvent:
			said = append(said, e.Comm)
		case DoneEvent:
			end = *e.Cell
		}
	}
	return said, end
}

// commContent is what a comm says of itself, and its widget.
type commContent struct {
	ID     string `json:"comm_id"`
	Target string `json:"target_name"`
	Data   struct {
		Method string
		State  map[string]any
	}
}

func content(t *testing.T, m *CommMessage) (c commContent) {
	t.Helper()
	if err := json.Unmarshal(m.Content, &c); err != nil {
		t.Fatal(err)
	}
	return c
}

// A slider of ipywidgets is moved by its page, as in Jupyter.
func TestWidgets(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	early := CommMessage{Kind: "comm_msg", Content: json.RawMessage(`{}`)}
	if _, err := p.SendComm(t.Context(), p.caller, s, "r", early); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("without an interpreter: %v", err)
	}
	said, c := p.comms(s, "import ipywidgets as w\nslider = w.IntSlider(3, description='n')\n"+
		"slider.observe(lambda change: print('now', change.new), 'value')\nslider")
	p.want(c, StatusOK)
	if o := c.Outputs[len(c.Outputs)-1]; o.Data["application/vnd.jupyter.widget-view+json"] == nil {
		t.Errorf("no view of the widget: %v", o.Data)
	}
	id := ""
	for _, m := range said {
		var metadata struct{ Version string }
		if about := content(t, m); about.Data.State["_model_name"] == "IntSliderModel" {
			id = about.ID
			if err := json.Unmarshal(m.Metadata, &metadata); m.Kind != "comm_open" || about.Target != "jupyter.widget" ||
				!strings.HasPrefix(metadata.Version, "2.") || err != nil {
				t.Errorf("%s of %s, version %q, %v", m.Kind, about.Target, metadata.Version, err)
			}
		}
	}
	if known, err := p.Comms(t.Context(), p.caller, s, "jupyter.widget"); err != nil || known[id].Target != "jupyter.widget" {
		t.Errorf("the comms are %v, %v", known, err)
	}
	if known, err := p.Comms(t.Context(), p.caller, s, "other"); err != nil || len(known) != 0 {
		t.Errorf("of another target: %v, %v", known, err)
	}
	said, c = p.send(s, CommMessage{Kind: "comm_msg", Metadata: json.RawMessage(`{}`), Content: json.RawMessage(
		fmt.Sprintf(`{"comm_id":%q,"data":{"method":"update","state":{"value":8},"buffer_paths":[]}}`, id))})
	checkCell(t, p.want(c, StatusOK), facts{Stdout: "now 8\n"})
	if len(said) != 1 || content(t, said[0]).Data.Method != "echo_update" || content(t, said[0]).Data.State["value"] != 8.0 {
		t.Errorf("%d messages answer to an update", len(said))
	}
	checkCell(t, p.run(s, "slider.value"), facts{Result: "8"})
	if all, err := p.Cells(t.Context(), p.caller, s); err != nil || len(all) != 2 || all[1].ExecutionCount != 2 {
		t.Errorf("%d cells are kept, %v", len(all), err)
	}
	if said, _ = p.comms(s, "slider.close()"); len(said) != 1 || said[0].Kind != "comm_close" {
		t.Errorf("%d messages close it", len(said))
	}
	c = p.runCell(s, CellRequest{Code: "w.IntSlider()"})
	if said = p.said(s, c.ID); len(said) != 0 {
		t.Errorf("%d messages to a caller that does not listen", len(said))
	}
}

// An Output takes what is printed for the request that it was entered in.
func TestWidgetOutput(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	said, c := p.comms(s, "import ipywidgets as w\nout = w.Output()\nwith out: print('inside')")
	checkCell(t, p.want(c, StatusOK), facts{Stdout: "inside\n"})
	var names []any
	for _, m := range said {
		if about := content(t, m); about.Data.Method == "update" {
			names = append(names, about.Data.State["msg_id"])
		}
	}
	if len(names) != 2 || names[0] != "request-1" || names[1] != "" {
		t.Errorf("the output names the requests %v", names)
	}
}

// What pages send that makes no sense costs nothing but its own effect.
func TestHostileComms(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	p.want(p.run(s, "kept = 1"), StatusOK)
	said, end := p.send(s, CommMessage{Kind: "comm_open", Content: json.RawMessage(`{"comm_id":"c","target_name":"none","data":{}}`)})
	if p.want(end, StatusOK); len(said) != 1 || said[0].Kind != "comm_close" || content(t, said[0]).ID != "c" {
		t.Errorf("%d messages answer to a comm without a target", len(said))
	}
	const target = `
import comm, time
def opened(c, message):
    c.on_msg(heard)
def heard(message):
    data = message["content"]["data"]
    if data == "raise": 1 / 0
    if data == "sleep":
        print("begun", flush=True)
        time.sleep(60)
    if data == "nan": comm.get_comm_manager().comms["d"].send({"x": float("nan"), "y": {1}})
    if data == "large": comm.get_comm_manager().comms["d"].send({"x": "a" * (17 << 20)})
    if data == "flood":
        for i in range(10_100): comm.get_comm_manager().comms["d"].send({"i": i})
    if message["buffers"]:
        comm.get_comm_manager().comms["d"].send({}, buffers=[bytes(message["buffers"][0])[::-1], b""])
comm.get_comm_manager().register_target("t", opened)`
	p.want(p.run(s, target), StatusOK)
	p.send(s, CommMessage{Kind: "comm_open", Content: json.RawMessage(`{"comm_id":"d","target_name":"t","data":{}}`)})
	for _, c := range []struct {
		name, kind, content string
		buffers             [][]byte
		want                facts
		said                int
	}{
		{name: "no comm", kind: "comm_msg", content: `{"comm_id":"gone","data":{}}`, want: facts{StderrHas: "No such comm"}},
		{name: "no object", kind: "comm_msg", content: `[]`, want: facts{Status: StatusError}},
		{name: "no id", kind: "comm_msg", content: `{}`, want: facts{Status: StatusError}},
		{name: "an error", kind: "comm_msg", content: `{"comm_id":"d","data":"raise"}`, want: facts{StderrHas: "ZeroDivisionError"}},
		{name: "no JSON", kind: "comm_msg", content: `{"comm_id":"d","data":"nan"}`, said: 1},
		{name: "a large answer", kind: "comm_msg", content: `{"comm_id":"d","data":"large"}`, want: facts{StderrHas: "[left out: comm_msg of 17"}},
		{name: "a flood", kind: "comm_msg", content: `{"comm_id":"d","data":"flood"}`, want: facts{StderrHas: "left out"}, said: maxComms},
		{name: "10 MB", kind: "comm_msg", content: `{"comm_id":"d","data":"` + strings.Repeat("x", 10<<20) + `"}`},
		{name: "buffers", kind: "comm_msg", content: `{"comm_id":"d","data":{}}`, buffers: [][]byte{{1, 2, 255}}, said: 1},
		{name: "10 MB in buffers", kind: "comm_msg", content: `{"comm_id":"d","data":{}}`, buffers: [][]byte{make([]byte, 10<<20)}, said: 1},
	} {
		said, end := p.send(s, CommMessage{Kind: c.kind, Content: json.RawMessage(c.content), Buffers: c.buffers})
		if c.want.Status == "" {
			c.want.Status = StatusOK
		}
		checkCell(t, end, c.want, c.name)
		if len(said) != c.said {
			t.Errorf("%s: %d messages, not %d", c.name, len(said), c.said)
		}
		if c.name == "buffers" && len(said) == 1 && fmt.Sprint(said[0].Buffers) != "[[255 2 1] []]" {
			t.Errorf("buffers come back as %v", said[0].Buffers)
		}
	}
	if _, err := p.SendComm(t.Context(), p.caller, s, "r", CommMessage{Kind: "comm_msg", Content: json.RawMessage(`{}`),
		Buffers: [][]byte{make([]byte, 17<<20)}}); !errors.Is(err, engine.ErrTooLarge) {
		t.Errorf("17 MiB: %v", err)
	}
	for _, m := range []CommMessage{{Kind: "__init__", Content: json.RawMessage(`{"comm_id":"d"}`)}, {Kind: "comm_msg"}} {
		if _, err := p.SendComm(t.Context(), p.caller, s, "r", m); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	events, err := p.SendComm(t.Context(), p.caller, s, "r", CommMessage{Kind: "comm_msg", Content: json.RawMessage(`{"comm_id":"d","data":"sleep"}`)})
	if err != nil {
		t.Fatal(err)
	}
	for e := range events {
		if e.Type == Stdout {
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Error(err)
			}
		}
		if e.Type == DoneEvent {
			checkCell(t, *e.Cell, facts{Status: StatusInterrupted, Error: "KeyboardInterrupt"})
		}
	}
	checkCell(t, p.run(s, "kept"), facts{Result: "1", Restarted: new(false)})
	js := p.session("javascript")
	p.run(js, "1")
	if _, err := p.Comms(t.Context(), p.caller, js, ""); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("of JavaScript: %v", err)
	}
}

// A widget of anywidget brings its own script, and is counted up by its page.
func TestAnyWidget(t *testing.T) {
	p := openWithPackages(t, Config{})
	s := p.session("python")
	said, c := p.comms(s, `import anywidget, traitlets
class Counter(anywidget.AnyWidget):
    _esm = "export default { render({ model, el }) { el.textContent = model.get('count'); } };"
    count = traitlets.Int(3).tag(sync=True)
counter = Counter()
counter.observe(lambda change: print('now', change.new), 'count')
counter`)
	p.want(c, StatusOK)
	if o := c.Outputs[len(c.Outputs)-1]; o.Data["application/vnd.jupyter.widget-view+json"] == nil {
		t.Errorf("no view of the widget: %v", o.Data)
	}
	id := ""
	for _, m := range said {
		if about := content(t, m); about.Data.State["_model_module"] == "anywidget" && about.Data.State["count"] == 3.0 {
			id = about.ID
			if script, _ := about.Data.State["_esm"].(string); !strings.Contains(script, "export default") {
				t.Errorf("its script is %q", script)
			}
		}
	}
	said, c = p.send(s, CommMessage{Kind: "comm_msg", Metadata: json.RawMessage(`{}`), Content: json.RawMessage(
		fmt.Sprintf(`{"comm_id":%q,"data":{"method":"update","state":{"count":8},"buffer_paths":[]}}`, id))})
	checkCell(t, p.want(c, StatusOK), facts{Stdout: "now 8\n"})
	if len(said) != 1 || content(t, said[0]).Data.State["count"] != 8.0 {
		t.Errorf("%d messages answer to an update", len(said))
	}
}
