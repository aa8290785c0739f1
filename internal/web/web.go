// Package web serves the page: run code and watch it, fetch files, see the state of the
// service. It is server-rendered HTML with a few small scripts. Every page can be read,
// and a program run, without scripts.
//
// It is an edge like a dialect: it decodes a request, calls the engine, and
// renders the answer. One page is one file page_<name>.go, with
// templates/<name>.html and, if it has a script, static/<name>.js. A page
// registers its routes in a function that newSite calls, and adds its entry
// to the navigation there. To add a page, add those three files and that one line.
//
// The output of programs is hostile. It reaches a document only as text, through
// html/template or text nodes. content.go serves files under a sandbox policy, and the
// policy in render.go allows only the scripts of this package.
package web

import (
	"cmp"
	"context"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// Options configure the page. Engine, Caller, Authenticate and Languages are required.
type Options struct {
	Engine *engine.Service
	// Caller returns the caller of a request that the front door has identified with
	// SignedIn; false: it has none.
	Caller func(*http.Request) (engine.Caller, bool)
	// Authenticate returns the caller of a key, or ErrUnauthorized.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)

	Review    *Review                              // replies, projects, reports; nil: there are no such pages
	Languages func(ctx context.Context) []Language // that a program can be written in

	// OneMachine returns why Review and Ask are unavailable on a cluster of several nodes,
	// or "".
	OneMachine func() (why string)

	// Nodes lists the nodes of the cluster. It is nil if there is no cluster.
	Nodes func() []engine.Node
	// Drain stops or resumes accepting new work on a node. It is nil if not available.
	Drain func(ctx context.Context, name string, drain bool) error
	// Self returns this node's epoch, of several nodes; nil: there is one node.
	Self func() engine.Epoch

	Network []string // rules for each program that asks for network access

	Prefix    string             // where the handler is mounted; empty: "/ui"
	MaxUpload int64              // bytes of one file; 0: 200 MiB
	Disk      func() engine.Room // of the data directory; nil: not shown
	Live      func() live.Counts // interpreters of live sessions; nil: not shown
	API       http.Handler       // the native API, its prefix removed; nil: there are no notebooks
	Tool      Tool               // the run_python tool; nil: not shown
	Ask       *Ask               // conversations with models; nil: not shown
	Log       *slog.Logger       // logs causes that visitors must not see; nil: discarded
	Now       func() time.Time   // nil: time.Now
}

// Site serves the page, with the prefix removed from requests.
type Site struct {
	Options
	mux       *http.ServeMux
	assets    *assets
	templates templates
	signIns   *signInStore
	previews  *previews
	nav       []navEntry
	sections  map[string]string // the navigation entries of pages that have no entry of their own
	closing   []func()          // called by Close
}

// navEntry is an entry of the navigation.
type navEntry struct {
	Name  string // of the page, for which the entry is marked
	Title string
	Path  string // below the prefix

	operators bool // for operators only
	machine   bool // not available where Options.OneMachine says so
}

// New returns the page. The caller closes it.
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
	s := &Site{Options: o, mux: http.NewServeMux(), signIns: newSignInStore(o.Now, o.Self),
		previews: &previews{engine: o.Engine, tables: map[previewKey]*table{}}, sections: map[string]string{}}
	var err error
	if s.assets, err = loadAssets(o.Prefix + "/static/"); err != nil {
		return nil, err
	}
	if s.templates, err = loadTemplates(s); err != nil {
		return nil, err
	}
	s.mux.Handle("GET /static/{version}/{name}", s.assets)
	s.mux.HandleFunc("GET /sign-in", s.signInForm)
	s.mux.HandleFunc("POST /sign-in", s.signIn)
	s.mux.HandleFunc("POST /sign-out", s.change(s.signOut))

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

// Close ends the page's background work.
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

// handler answers a request, or returns an error for fail.
type handler = func(http.ResponseWriter, *webRequest) error

// with returns a handler that first finds what a request is about.
func with[T any](
	find func(*webRequest) (T, error), serve func(http.ResponseWriter, *webRequest, T) error,
) handler {
	return func(w http.ResponseWriter, v *webRequest) error {
		found, err := find(v)
		if err != nil {
			return err
		}
		return serve(w, v, found)
	}
}

// handle returns the HTTP handler of a page. It identifies the caller, and redirects a
// caller without a sign-in to the sign-in form.
func (s *Site) handle(serve handler) http.HandlerFunc {
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

// onMachine returns an error if several nodes answer.
func (s *Site) onMachine() error {
	if why := s.OneMachine(); why != "" {
		return refuse(http.StatusConflict, "This is not to be had where several nodes answer.", why)
	}
	return nil
}

// change is handle for requests that change something. The request must have the token
// of the visitor's own pages, as a header or as the field "token" of a form: the first one if
// the form has files, whose other parts are for the handler.
func (s *Site) change(serve handler) http.HandlerFunc {
	return s.handle(func(w http.ResponseWriter, v *webRequest) error {
		token, err := v.token(w)
		switch {
		case err != nil:
			return err
		case !s.signIns.holds(v.cookie, token):
			return errToken
		}
		return serve(w, v)
	})
}

// token reads the token of a request that changes something.
func (v *webRequest) token(w http.ResponseWriter) (string, error) {
	if token := v.Header.Get(tokenHeader); token != "" {
		return token, nil
	}
	if strings.HasPrefix(v.Header.Get("Content-Type"), "multipart/") {
		return v.partToken()
	}
	v.Body = http.MaxBytesReader(w, v.Body, maxForm)
	if err := v.ParseForm(); err != nil {
		return "", refuse(http.StatusBadRequest, "This form could not be read.",
			"Go back, load the page again and send it once more.")
	}
	return v.PostForm.Get("token"), nil
}

// decision is change for a form without files, of which the handler finds the fields in
// PostForm. A form in parts is refused: its fields are not there.
func (s *Site) decision(serve handler) http.HandlerFunc {
	checked := s.change(func(w http.ResponseWriter, v *webRequest) error {
		v.Body = http.MaxBytesReader(w, v.Body, maxForm)
		if err := v.ParseForm(); err != nil {
			return formError(err)
		}
		return serve(w, v)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		var refused error
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case err != nil || kind != "application/x-www-form-urlencoded":
			refused = refuse(http.StatusUnsupportedMediaType, "This form was sent in a way that is not taken here.",
				"Load the page again and repeat what you did.")
		case r.ContentLength > maxForm:
			refused = &http.MaxBytesError{Limit: maxForm}
		default:
			checked(w, r)
			return
		}
		v, _ := s.visit(w, r)
		s.fail(w, v, refused)
	}
}

// maxForm bounds a form without files: code and a few fields.
const maxForm = 4 << 20

// address returns a path with the prefix, for browsers.
func (s *Site) address(path string) string { return s.Prefix + path }
