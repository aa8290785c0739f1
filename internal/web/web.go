// Package web serves the service's pages: run code and watch it, notebooks, files, the state of the
// service.
//
// It is an edge like a dialect: it decodes a request, calls the engine, and renders the answer. One page
// is one file page_<name>.go, with templates/<name>.html and, if it has a script, static/<name>.js. A
// page registers its routes, and its entry of the navigation, in a function that New calls. To add a
// page, add those three files and that one line. What every page needs is package page.
package web

import (
	"context"
	"embed"
	"html/template"
	"net/http"
	"slices"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/page"
)

// Options configure the page. Engine and Languages are required.
type Options struct {
	Site   page.Options
	Engine *engine.Service

	// Parts have other pages, which come after those about programs.
	Parts     []page.Part
	Languages func(ctx context.Context) []Language // that a program can be written in

	// Nodes lists the nodes of the cluster. It is nil if there is no cluster.
	Nodes func() []engine.Node
	// Drain stops or resumes accepting new work on a node. It is nil if not available.
	Drain   func(ctx context.Context, name string, drain bool) error
	Network []string // rules for each program that asks for network access

	Disk func() engine.Room // of the data directory; nil: not shown
	Live func() live.Counts // interpreters of live sessions; nil: not shown
	// Sessions read tables that are opened with all rows; nil: their beginnings are shown.
	Sessions live.Sessions
	API      http.Handler // the native API, its prefix removed; nil: there are no notebooks
	Tool     Tool         // the run_python tool; nil: not shown
}

//go:embed templates/*.html static
var serviceFiles embed.FS

// site is a site with what the pages of the service need.
type site struct {
	*page.Site
	Options
	previews *previews
	frames   *frames
}

// New returns the page. The caller closes it.
func New(o Options) (*page.Site, error) {
	s := &site{Options: o, previews: &previews{engine: o.Engine, tables: map[previewKey]*table{}},
		frames: &frames{sessions: o.Sessions, owners: map[engine.Owner]*ownerFrames{}}}
	// The pages, in the order of the navigation.
	programs := page.Part{Files: serviceFiles, Functions: functions, Add: func(kit *page.Site) {
		s.Site = kit
		kit.Preview = s.preview
		s.runPage()
		s.notebookPages()
		s.sharePages()
	}}
	rest := page.Part{Add: func(*page.Site) {
		s.filesPage()
		s.usagePage()
		s.statusPage()
		s.toolsPage()
	}}
	return page.New(o.Site, slices.Concat([]page.Part{programs}, o.Parts, []page.Part{rest})...)
}

// functions are those of the templates.
var functions = template.FuncMap{
	"rows":          func(r [][]string) int64 { return int64(len(r)) },
	"pages":         func(n int) []int { return numbers(min(n, shownPages)) },
	"leavesOut":     leavesOut,
	"wallWords":     wallWords,
	"languageTitle": languageTitle,
	"gibHours":      gibHours,
}

// findFile returns the stored file that a request is about.
func (s *site) findFile(v *page.Request) (engine.File, error) {
	id, err := v.ID()
	if err != nil {
		return engine.File{}, err
	}
	return s.Engine.GetFile(v.Context(), v.Caller, id)
}

// findRun returns the run that a request is about.
func (s *site) findRun(v *page.Request) (*engine.Run, error) { return s.runByID(v, v.PathValue("id")) }

func (s *site) runByID(v *page.Request, id string) (*engine.Run, error) {
	parsed, err := page.ParseID(id)
	if err != nil {
		return nil, err
	}
	return s.Engine.GetRun(v.Context(), v.Caller, parsed)
}

// wallWords says what separates a program from its host.
func wallWords(wall engine.Wall) string {
	switch wall {
	case engine.WallShared:
		return "on the kernel of this machine"
	case engine.WallGVisor:
		return "with a kernel of its own"
	}
	return string(wall)
}
