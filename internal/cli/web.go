package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/outbound"
	"github.com/airlock-run/airlock/internal/page"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/pytool"
)

// page mounts the page, which asks for a key with its own form.
func (a *app) page(s *service, api http.Handler) (httpd.Mount, error) {
	tool, err := a.pageTool(s.engine)
	if err != nil {
		return httpd.Mount{}, err
	}
	const prefix = "/ui"
	provider, err := a.identityProvider(prefix)
	if err != nil {
		return httpd.Mount{}, err
	}
	options := web.Options{
		Site: page.Options{
			Caller:       func(r *http.Request) (engine.Caller, bool) { return httpd.CallerFrom(r.Context()) },
			Authenticate: eitherSpelling(s.engine.Authenticate),
			Provider:     provider,
			OneMachine:   a.oneMachine(s),
			Self:         s.engine.Self,
			Act:          s.engine.RecordAct,
			Prefix:       prefix,
			MaxUpload:    a.Config.MaxUpload,
			Log:          a.Log,
		},
		Engine:    s.engine,
		Nodes:     s.nodes,
		Drain:     s.drain,
		Languages: languages(),
		Network:   a.Config.NetworkAllow,
		Disk:      a.disk,
		Live:      s.interpreters.Counts,
		Sessions:  s.interpreters,
		API:       api,
		Tool:      tool,
	}
	if s.assistant != nil {
		options.Parts = []page.Part{s.assistant.Pages()}
	}
	site, err := web.New(options)
	if err != nil {
		return httpd.Mount{}, err
	}
	s.below = append(s.below, site.Close)
	return httpd.Mount{
		Prefix: prefix, Handler: site, Public: true, Keyed: a.Config.SignIn.Elsewhere(), SignedIn: site.SignedIn,
		Refuse: site.Refuse, Holder: page.Holder, AnyOrigin: web.AnyOrigin(),
	}, nil
}

// languages returns a function that lists the languages and whether they are installed.
func languages() func(context.Context) []web.Language {
	versions := &language.Versions{}
	return func(ctx context.Context) []web.Language {
		installed := versions.Get(ctx)
		var list []web.Language
		for _, l := range language.All() {
			_, ok := installed[l.Name]
			list = append(list, web.Language{Name: l.Name, Title: l.Title, Installed: ok})
		}
		return list
	}
}

// disk returns the free space on the disk of the data directory.
func (a *app) disk() engine.Room {
	room, err := disk.Look(a.Config.Data, a.Config.MinFree)
	if err != nil {
		return engine.Room{}
	}
	return room
}

// pageTool is the run_python tool as the page shows and switches it.
type pageTool struct {
	url     string          // of the service that runs the tool's code; empty: this one
	file    string          // that stores the switch
	service *pytool.Service // nil: this one
	tool    *pytool.Tool

	mu  sync.Mutex
	off bool
}

var _ web.Tool = (*pageTool)(nil)

const switchesFile = "switches.json"

// switches is the content of that file.
type switches struct {
	RunPython bool `json:"run_python"`
}

func (a *app) pageTool(own *engine.Service) (*pageTool, error) {
	p := &pageTool{url: a.Config.CodeInterpreter, file: filepath.Join(a.Config.Data, switchesFile)}
	text, err := os.ReadFile(p.file)
	if err == nil {
		var s switches
		if err = json.Unmarshal(text, &s); err == nil {
			p.off = !s.RunPython
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, command.Fail(command.ExitUnavailable, "move it away: the tools are then on", "%s cannot be read: %w",
			p.file, err)
	}
	options := pytool.Options{Config: pytool.Config{BaseURL: p.url}, Store: noFiles{}, Enabled: p.on, Log: a.Log}
	if p.url == "" {
		options.Runner = healthOf{engine: own}
	} else {
		web := outbound.Guard(http.Client{
			Transport: command.OperatorsPolicy(p.url).Transport(http.DefaultTransport.(*http.Transport))})
		if p.service, err = pytool.NewService(p.url, pytool.ServiceOptions{HTTP: web}); err != nil {
			return nil, command.Fail(command.ExitUsage, "as http://127.0.0.1:8000/onyx", "%w", err)
		}
		options.Runner = p.service
	}
	if p.tool, err = pytool.New(options); err != nil {
		return nil, err
	}
	return p, nil
}

func (p *pageTool) on(context.Context) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return !p.off
}

// State implements web.Tool.
func (p *pageTool) State(ctx context.Context) web.ToolState {
	at := p.tool.Available(ctx)
	s := web.ToolState{
		Connection: web.Connected, On: p.on(ctx), Place: p.url, Version: at.Version, Reason: at.Reason, Cure: at.Cure,
	}
	if p.service == nil {
		s.Place, s.Version = "this one", ""
	}
	switch {
	case at.Available:
	case !s.On:
		s.Connection, s.Cure = web.NotEnabled, "Switch it on here."
	case at.Connected:
		s.Connection = web.Unhealthy
	default:
		s.Connection = web.ConnectionLost
	}
	return s
}

// Switch implements web.Tool.
func (p *pageTool) Switch(_ context.Context, on bool) error {
	text, err := json.Marshal(switches{RunPython: on})
	if err != nil {
		return err
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if err := command.ReplaceFile(p.file, text, 0o600); err != nil {
		return err
	}
	p.off = !on
	return nil
}

// healthOf is the runner of a tool that runs nothing: it reports the health of the engine in
// this process.
type healthOf struct {
	pytool.Runner
	engine *engine.Service
}

// Health implements pytool.Runner.
func (r healthOf) Health(ctx context.Context) pytool.Health {
	h := pytool.Health{Connected: true, Version: "in process"}
	if err := r.engine.Ready(ctx); err != nil {
		h.Error = cmp.Or(command.Explain(err).Hint, err.Error())
	}
	return h
}

// noFiles is the store of a tool that runs nothing.
type noFiles struct{ pytool.FileStore }
