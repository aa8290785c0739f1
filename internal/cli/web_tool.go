package cli

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"sync"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/web"
	"github.com/airlock-run/airlock/pytool"
)

// pageTool is the run_python tool as the page shows and switches it.
type pageTool struct {
	url     string          // empty: this service runs the tool's code itself
	file    string          // where the switch is remembered
	service *pytool.Service // nil: this one
	tool    *pytool.Tool

	mu  sync.Mutex
	off bool
}

var _ web.Tool = (*pageTool)(nil)

// switches is the file that remembers what was switched.
type switches struct {
	RunPython bool `json:"run_python"`
}

func (a *app) pageTool(own *engine.Service) (*pageTool, error) {
	p := &pageTool{url: a.cfg.CodeInterpreter, file: filepath.Join(a.cfg.Data, "switches.json")}
	text, err := os.ReadFile(p.file)
	if err == nil {
		var s switches
		if err = json.Unmarshal(text, &s); err == nil {
			p.off = !s.RunPython
		}
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, fail(exitUnavailable, "move it away: the tools are then on", "%s cannot be read: %w", p.file, err)
	}
	options := pytool.Options{Config: pytool.Config{BaseURL: p.url}, Store: noFiles{}, Enabled: p.on, Log: a.log}
	if p.url == "" {
		options.Runner = &toolRunner{engine: own} // which is asked how it is, and nothing else
	} else {
		web := &http.Client{Transport: operatorsPolicy(p.url).Transport(http.DefaultTransport.(*http.Transport))}
		if p.service, err = pytool.NewService(p.url, pytool.WithHTTPClient(web)); err != nil {
			return nil, fail(exitUsage, "as http://127.0.0.1:8000/onyx", "%w", err)
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
	case at.Connected: // of the same answer as the reason
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
	if err := replaceFile(p.file, text, 0o600); err != nil {
		return err
	}
	p.off = !on
	return nil
}

// noFiles is the store of a tool that is only looked at.
type noFiles struct{ pytool.FileStore }
