// Package page is what the pages of both houses share: the frame and its navigation, sign-ins and the
// tokens of forms, errors in words, events, Markdown and coloured code. Pages are server-rendered HTML
// with a few small scripts. Each can be read without scripts.
//
// New makes a Site of parts. A Part brings templates, scripts and routes; it registers each route on
// Site.Mux through Handle (anybody with a key), Change (with a token) or Decision (a form without files),
// and returns errors that InWords or Refuse have put into words.
//
// The output of programs is hostile. It reaches a document only as text, through html/template or text
// nodes. ServeContent serves files under a sandbox policy, and the policy of a page allows only the
// scripts of its site.
package page

import (
	"cmp"
	"context"
	"html/template"
	"io"
	"io/fs"
	"log/slog"
	"mime"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/oidc"
)

// Part is a part of the site: some pages.
type Part struct {
	Files     fs.FS            // templates/*.html and static/*, in addition to those of this package; nil: none
	Functions template.FuncMap // of its templates
	Add       func(*Site)      // adds its routes, and its entries to the navigation
}

// Site serves the page, with the prefix removed from requests.
type Site struct {
	Options
	// Preview answers with the part of a page that shows a file's content. The part that has stored
	// files and a sandbox to read them sets it.
	Preview func(w http.ResponseWriter, v *Request, f File, content io.ReadSeeker) error

	Mux       *http.ServeMux
	parts     []Part
	Assets    *assets
	templates templates
	signIns   *signInStore
	Nav       []Entry
	Sections  map[string]string // the navigation entries of pages that have no entry of their own
	AtClose   []func()          // called by Close
}

// Options configure a Site. Caller and Authenticate are required.
type Options struct {
	// Caller returns the caller of a request that the front door has identified with
	// SignedIn; false: it has none.
	Caller func(*http.Request) (engine.Caller, bool)
	// Authenticate returns the caller of a key, or ErrUnauthorized.
	Authenticate func(ctx context.Context, token string) (engine.Caller, error)
	// Provider signs visitors in beside keys; nil: there is none.
	Provider *oidc.Provider
	// Act records what a visitor did for the audit log, or could not do; nil: nothing does.
	Act func(ctx context.Context, caller engine.Caller, action, object, detail string, err error)
	// OneMachine returns why pages of one machine are unavailable on a cluster of several
	// nodes, or "".
	OneMachine func() (why string)
	// Self returns this node's epoch, of several nodes; nil: there is one node.
	Self func() engine.Epoch

	Prefix    string           // where the handler is mounted; empty: "/ui"
	MaxUpload int64            // bytes of one file; 0: 200 MiB
	Log       *slog.Logger     // logs causes that visitors must not see; nil: discarded
	Now       func() time.Time // nil: time.Now
}

// New returns a site with the pages of its parts, in the order of the navigation. The caller
// closes it.
func New(o Options, parts ...Part) (*Site, error) {
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
	if o.Act == nil {
		o.Act = func(context.Context, engine.Caller, string, string, string, error) {}
	}
	if o.OneMachine == nil {
		o.OneMachine = func() string { return "" }
	}
	s := &Site{Options: o, parts: parts, Mux: http.NewServeMux(), signIns: newSignInStore(o.Now, o.Self),
		Sections: map[string]string{}}
	var err error
	if s.Assets, err = loadAssets(o.Prefix+"/static/", s.files()); err != nil {
		return nil, err
	}
	if s.templates, err = loadTemplates(s); err != nil {
		return nil, err
	}
	s.Mux.Handle("GET /static/{version}/{name}", s.Assets)
	s.Mux.HandleFunc("GET /sign-in", s.signInForm)
	s.Mux.HandleFunc("POST /sign-in", s.signIn)
	if o.Provider != nil {
		s.Mux.HandleFunc("GET "+providerPath, s.beginSignIn)
		s.Mux.HandleFunc("GET "+returnPath, s.finishSignIn)
	}
	s.Mux.HandleFunc("POST /sign-out", s.Change(s.signOut))
	for _, part := range parts {
		part.Add(s)
	}
	s.Mux.HandleFunc("/", s.Handle(func(http.ResponseWriter, *Request) error { return ErrNotFound }))
	return s, nil
}

// ErrNotFound is the error of a page that does not exist.
var ErrNotFound error = engine.ErrNotFound

// Entry is an entry of the navigation.
type Entry struct {
	Name  string // of the page, for which the entry is marked
	Title string
	Path  string // below the prefix

	More      bool // it is listed in the menu after the others
	Operators bool // for operators only
	Machine   bool // not available where Options.OneMachine says so
}

// files returns the files of this package and those of the parts.
func (s *Site) files() []fs.FS {
	all := []fs.FS{ownFiles}
	for _, part := range s.parts {
		if part.Files != nil {
			all = append(all, part.Files)
		}
	}
	return all
}

// Close ends the page's background work.
func (s *Site) Close() error {
	for _, end := range s.AtClose {
		end()
	}
	s.AtClose = nil
	return nil
}

// ServeHTTP serves the page.
func (s *Site) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	secure(w.Header())
	s.Mux.ServeHTTP(w, r)
}

// Handler answers a request, or returns an error for fail.
type Handler = func(http.ResponseWriter, *Request) error

// With returns a handler that first finds what a request is about.
func With[T any](
	find func(*Request) (T, error), serve func(http.ResponseWriter, *Request, T) error,
) Handler {
	return func(w http.ResponseWriter, v *Request) error {
		found, err := find(v)
		if err != nil {
			return err
		}
		return serve(w, v, found)
	}
}

// Handle returns the HTTP handler of a page. It identifies the caller, and redirects a
// caller without a sign-in to the sign-in form.
func (s *Site) Handle(serve Handler) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		v, known := s.Visit(w, r)
		if !known {
			s.requireSignIn(w, v)
			return
		}
		if err := serve(w, v); err != nil {
			s.Fail(w, v, err)
		}
	}
}

// OnMachine returns an error if several nodes answer.
func (s *Site) OnMachine() error {
	if why := s.OneMachine(); why != "" {
		return Refuse(http.StatusConflict, "This is not available where several nodes answer.", why)
	}
	return nil
}

// Change is handle for requests that change something. The request must have the token
// of the visitor's own pages, as a header or as the field "token" of a form: the first one if
// the form has files, whose other parts are for the handler.
func (s *Site) Change(serve Handler) http.HandlerFunc {
	return s.Handle(func(w http.ResponseWriter, v *Request) error {
		token, err := v.token(w)
		switch {
		case err != nil:
			return err
		case !s.CheckToken(v, token):
			return ErrToken
		}
		return serve(w, v)
	})
}

// FormToken returns the token for the forms of a visitor's pages.
func (s *Site) FormToken(v *Request) string { return s.signIns.token(v.cookie) }

// CheckToken reports whether a token is of the visitor's own pages.
func (s *Site) CheckToken(v *Request, token string) bool { return s.signIns.holds(v.cookie, token) }

// token reads the token of a request that changes something.
func (v *Request) token(w http.ResponseWriter) (string, error) {
	if token := v.Header.Get(TokenHeader); token != "" {
		return token, nil
	}
	if strings.HasPrefix(v.Header.Get("Content-Type"), "multipart/") {
		return v.partToken()
	}
	v.Body = http.MaxBytesReader(w, v.Body, MaxForm)
	if err := v.ParseForm(); err != nil {
		return "", Refuse(http.StatusBadRequest, "This form could not be read.",
			"Go back, load the page again and send it once more.")
	}
	return v.PostForm.Get("token"), nil
}

// Decision is change for a form without files, of which the handler finds the fields in
// PostForm. A form in parts is refused: its fields are not there.
func (s *Site) Decision(serve Handler) http.HandlerFunc {
	checked := s.Change(func(w http.ResponseWriter, v *Request) error {
		v.Body = http.MaxBytesReader(w, v.Body, MaxForm)
		if err := v.ParseForm(); err != nil {
			return FormError(err)
		}
		return serve(w, v)
	})
	return func(w http.ResponseWriter, r *http.Request) {
		var refused error
		kind, _, err := mime.ParseMediaType(r.Header.Get("Content-Type"))
		switch {
		case err != nil || kind != "application/x-www-form-urlencoded":
			refused = Refuse(http.StatusUnsupportedMediaType, "This form was sent in a way that this page does not accept.",
				"Load the page again and repeat what you did.")
		case r.ContentLength > MaxForm:
			refused = &http.MaxBytesError{Limit: MaxForm}
		default:
			checked(w, r)
			return
		}
		v, _ := s.Visit(w, r)
		s.Fail(w, v, refused)
	}
}

// MaxForm bounds a form without files: code and a few fields.
const MaxForm = 4 << 20

// URL returns a path with the prefix, for browsers.
func (s *Site) URL(path string) string { return s.Prefix + path }
