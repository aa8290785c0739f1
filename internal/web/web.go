// Package web serves the page: run code and watch it, fetch files, see how the
// service is. It is server-rendered HTML with a few small scripts; every page
// can be read, and a program run, without any script.
//
// It is an edge like a dialect: it decodes a request, calls the engine, and
// renders the answer. One page is one file page_<name>.go, with
// templates/<name>.html and, if it has a script, static/<name>.js. A page
// registers its routes in a function that newSite calls, and adds its entry
// to the navigation there. To add a page, add those three files and that one line.
//
// What programs print and write is hostile. It reaches a document only as
// text, through html/template or text nodes; files are served by content.go
// under a sandbox of their own; and the policy in headers.go lets no script
// run but our own files.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Options set up the page. Engine, Caller,
// Authenticate and Languages are required.
type Options struct {
	Engine *engine.Service
	// Caller says whom the front door knows the request to be from, which asks
	// SignedIn; false: nobody yet.
	Caller func(*http.Request) (engine.Caller, bool)
	// Authenticate returns whose key a token is, ErrUnauthorized for nobody's.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)

	Review    *Review                              // replies, projects, reports; nil: there are no such pages
	Languages func(ctx context.Context) []Language // that a program can be written in

	// OneMachine says why Review and Ask are not to be had, because several nodes answer;
	// empty: they are.
	OneMachine func() (why string)

	// Nodes are those of the cluster; nil: it has none.
	Nodes func() []engine.Node
	// Drain has a node take nothing new, or takes that back; nil: nobody can.
	Drain func(ctx context.Context, name string, drain bool) error
	// Self is this life of this node, of several; nil: there is one.
	Self func() engine.Epoch

	Network []string // rules of what each program may contact that asks for it

	Prefix    string           // where the handler is mounted; empty: "/ui"
	MaxUpload int64            // bytes of one file; 0: 200 MiB
	Disk      func() Disk      // of the data directory; nil: not shown
	Live      func() Live      // interpreters of live sessions; nil: not shown
	API       http.Handler     // the native API, its prefix removed; nil: there are no notebooks
	Tool      Tool             // the run_python tool; nil: not shown
	Ask       *Ask             // conversations with models; nil: not shown
	Log       *slog.Logger     // for causes that a visitor must not see; nil: nothing is logged
	Now       func() time.Time // nil: time.Now
}

// Site is the page at work. It is a handler that wants its prefix removed.
type Site struct {
	Options
	mux       *http.ServeMux
	assets    *assets
	templates templates
	signIns   *signInStore
	nav       []navEntry
	sections  map[string]string // of pages without an entry of their own: which entry is the current one
	closing   []func()          // to be called by Close
}

// navEntry is one page that the navigation leads to.
type navEntry struct {
	Name  string // of the page, which marks the entry as the current one
	Title string
	Path  string // below the prefix

	operators bool // others are refused there
	machine   bool // not to be had where Options.OneMachine says so
}

// New returns the page. Close ends what it does in the background.
func New(o Options) (*Site, error) {
	o.Prefix = cmp.Or(o.Prefix, "/ui")
	if o.MaxUpload <= 0 {
		o.MaxUpload = 200 << 20
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Self == nil {
		o.Self = func() engine.Epoch { return 0 }
	}
	if o.OneMachine == nil {
		o.OneMachine = func() string { return "" }
	}
	s := &Site{Options: o, mux: http.NewServeMux(), signIns: newSignInStore(o.Now, o.Self), sections: map[string]string{}}
	var err error
	if s.assets, err = loadAssets(o.Prefix + "/static/"); err != nil {
		return nil, err
	}
	if s.templates, err = loadTemplates(s); err != nil {
		return nil, err
	}
	s.mux.Handle("GET /static/{name}", s.assets)
	s.signInRoutes()

	// The pages, in the order of the navigation.
	s.runPage()
	s.notebookPages()
	s.sharePages()
	s.askPages(o.Ask)
	s.reviewPages(o.Review)
	s.filesPage()
	s.statusPage()
	s.toolsPage()

	s.mux.HandleFunc("/", s.handle(func(http.ResponseWriter, *webRequest) error { return engine.ErrNotFound }))
	return s, nil
}

// Close ends what the page does in the background.
func (s *Site) Close() error {
	for _, end := range s.closing {
		end()
	}
	s.closing = nil
	return nil
}

// ServeHTTP serves the page.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	s.mux.ServeHTTP(w, r)
}

// handle makes a handler of a page: it finds out who asks, and sends
// strangers to the sign-in.
func (s *Site) handle(serve func(http.ResponseWriter, *webRequest) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, known := s.visit(w, r)
		if !known {
			s.requireSignIn(w, v)
			return
		}
		if err := serve(w, v); err != nil {
			s.fail(w, v, err)
		}
	}
}

// onMachine refuses what is not to be had where several nodes answer.
func (s *Site) onMachine() error {
	if why := s.OneMachine(); why != "" {
		return refuse(http.StatusConflict, "This is not to be had where several nodes answer.", why)
	}
	return nil
}

// change is handle for what changes something. The request must bear the
// token of the visitor's own pages, as a header or as the field "token" of a
// form; a form with files is read by the handler, which checks the token.
func (s *Site) change(serve func(http.ResponseWriter, *webRequest) error) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, v *webRequest) error {
		if strings.HasPrefix(v.Header.Get("Content-Type"), "multipart/") && v.Header.Get(tokenHeader) == "" {
			return serve(w, v)
		}
		token := v.Header.Get(tokenHeader)
		if token == "" {
			v.Body = http.MaxBytesReader(w, v.Body, maxForm)
			if err := v.ParseForm(); err != nil {
				return refuse(http.StatusBadRequest, "This form could not be read.",
					"Go back, load the page again and send it once more.")
			}
			token = v.PostForm.Get("token")
		}
		if !s.signIns.holds(v.cookie, token) {
			return errToken
		}
		return serve(w, v)
	})
}

// maxForm bounds a form without files: code and a few fields.
const maxForm = 4 << 20

// address is a path of ours as a browser asks for it.
func (s *Site) address(path string) string { return s.Prefix + path }
