package web

import (
	"context"
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// Tool is the run_python tool of this service.
type Tool interface {
	// State returns the state of the tool. It asks the tool's service at most every few
	// seconds.
	State(ctx context.Context) ToolState
	// Switch turns the tool on or off for all callers, and saves that.
	Switch(ctx context.Context, on bool) error
}

// Connection is the state of the connection to a tool's service.
type Connection string

// The connections of a tool.
const (
	Connected      Connection = "connected"
	Unhealthy      Connection = "unhealthy" // it answers that it is not healthy
	ConnectionLost Connection = "lost"
	NotEnabled     Connection = "off" // it is switched off
)

// Words returns the connection in words.
func (c Connection) Words() string {
	return map[Connection]string{Connected: "Connected", Unhealthy: "Unhealthy", ConnectionLost: "Connection lost",
		NotEnabled: "Not enabled"}[c]
}

// ToolState is the state of a tool.
type ToolState struct {
	Connection Connection
	On         bool   // the switch
	Place      string // the address of the service
	Version    string // of the service
	Reason     string // why the tool cannot be used
	Cure       string // what to do about it
}

// toolsPage shows the tools of models.
type toolsPage struct{ *site }

// toolsView is the data of the tools page.
type toolsView struct {
	ToolState
	MaySwitch bool
}

func (s *site) toolsPage() {
	if s.Tool == nil {
		return
	}
	p := &toolsPage{s}
	s.Nav = append(s.Nav, page.Entry{Name: "tools", Title: "Tools", Path: "/tools", More: true})
	s.Mux.HandleFunc("GET /tools", s.Handle(p.show))
	s.Mux.HandleFunc("POST /tools/run_python", s.Change(p.turn))
}

func (p *toolsPage) show(w http.ResponseWriter, v *page.Request) error {
	body := toolsView{ToolState: p.Tool.State(v.Context()), MaySwitch: v.Operator()}
	if v.Wants("application/x-part") {
		return p.Fragment(w, v, "tools", "live", body)
	}
	p.Render(w, v, http.StatusOK, "tools", "Tools", body)
	return nil
}

func (p *toolsPage) turn(w http.ResponseWriter, v *page.Request) error {
	if !v.Operator() {
		return &engine.Error{Op: "switch a tool", Kind: engine.ErrForbidden}
	}
	var on bool
	switch v.FormValue("on") {
	case "true":
		on = true
	case "false":
	default:
		return page.Refuse(http.StatusBadRequest, "The switch is either on or off.", "")
	}
	err := p.Tool.Switch(v.Context(), on)
	p.Engine.RecordAct(v.Context(), v.Caller, engine.ActSetting, "run_python", v.FormValue("on"), err)
	if err != nil {
		return err
	}
	return p.Redirect(w, v, "/tools")
}
