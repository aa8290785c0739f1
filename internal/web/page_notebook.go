package web

import (
	"io"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/page"
)

// notebookPage shows notebooks. A notebook is a file of a live session, as in Jupyter. The
// page serves the document and proxies the requests of its script to the native API; the
// script does the rest.
type notebookPage struct{ *site }

func (s *site) notebookPages() {
	if s.API == nil {
		return
	}
	p := &notebookPage{s}
	s.Nav = append(s.Nav, page.Entry{Name: "notebook", Title: "Notebooks", Path: "/notebooks"})
	s.Sections["notebooks"] = "notebook"
	s.Mux.HandleFunc("GET /notebooks", s.Handle(p.list))
	s.Mux.HandleFunc("GET /notebooks/{id}", s.Handle(p.show))
	s.Mux.HandleFunc("POST /markdown", s.Change(p.markdown))
	s.Mux.HandleFunc("GET /frame/{kind}", s.frame)
	s.Mux.HandleFunc("/api/{path...}", s.Handle(p.api))
	s.Mux.HandleFunc("GET /sessions/{id}/ports/{port}", s.Handle(p.openPort))
	s.Mux.HandleFunc(page.PortPath+page.PortTicket, p.port)
}

// notebooksView is the list of notebooks.
type notebooksView struct {
	Notebooks []notebookEntry
	Languages []notebookLanguage // of a new one
	Images    []string           // to choose from for a new one; none: there is no choice
	Image     string             // the usual one
	Shares    []shareEntry
}

// notebookLanguage is a language that a notebook can have.
type notebookLanguage struct{ Name, Title string }

// notebookTitles are the titles of the languages of live sessions.
var notebookTitles = map[string]string{"python": "Python", "javascript": "JavaScript", "typescript": "TypeScript",
	"bash": "Bash", "r": "R"}

// notebookEntry is a live session with a notebook in it.
type notebookEntry struct {
	engine.Session
	Title string
	File  string // name of the notebook's file, without .ipynb
	Files int
}

// list shows the live sessions that hold a notebook, newest first.
func (p *notebookPage) list(w http.ResponseWriter, v *page.Request) error {
	all, err := p.Engine.ListSessions(v.Context(), v.Caller, engine.SessionQuery{Origin: engine.OriginNative})
	if err != nil {
		return err
	}
	var body notebooksView
	for _, name := range live.Languages(nil) {
		body.Languages = append(body.Languages, notebookLanguage{name, notebookTitles[name]})
	}
	for _, session := range all {
		if session.Kind != engine.SessionLive {
			continue
		}
		_, places, err := p.Engine.SessionFiles(v.Context(), v.Caller, session.ID)
		if engine.KindOf(err) == engine.ErrNotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		for _, f := range places {
			if name, ok := strings.CutSuffix(f.Path, ".ipynb"); ok && !strings.Contains(name, "/") {
				body.Notebooks = append(body.Notebooks, notebookEntry{session, page.Named(name), name, len(places) - 1})
				break
			}
		}
	}
	if body.Shares, err = p.shares(v); err != nil {
		return err
	}
	if body.Images, err = p.imageNames(v.Caller, &body.Image); err != nil {
		return err
	}
	p.Render(w, v, http.StatusOK, "notebooks", "Notebooks", body)
	return nil
}

// notebookView is the page around one notebook.
type notebookView struct {
	Session  string // "": it is made with the first cell or file
	Language string // of a notebook without a session
	Image    string // name of its image; empty: the usual one
	Timeout  int    // seconds that a cell may run
	Max      int64  // bytes of an uploaded file
}

func (p *notebookPage) show(w http.ResponseWriter, v *page.Request) error {
	_, maxima := p.Engine.Limits()
	body := notebookView{Language: "python", Timeout: int(maxima.Timeout.Seconds()), Max: p.MaxUpload}
	if language := v.URL.Query().Get("language"); slices.Contains(live.Languages(nil), language) {
		body.Language = language
	}
	body.Image = v.URL.Query().Get("image")
	if v.PathValue("id") != "new" {
		id, err := v.ID()
		if err != nil {
			return err
		}
		session, err := p.Engine.GetSession(v.Context(), v.Caller, id)
		if err != nil {
			return err
		}
		if session.Kind != engine.SessionLive {
			return engine.ErrNotFound
		}
		body.Session, body.Image = id.String(), live.Image(session)
	}
	p.RenderUnder(w, v, http.StatusOK, "notebook", "Notebook", body, notebookPolicy(v.Host, p.Prefix))
	return nil
}

// sourceOf names what is below a path of ours in a policy. A policy cannot have an IPv6 address;
// there it names the origin.
func sourceOf(host, path string) string {
	if at, err := netip.ParseAddrPort(host); err == nil && at.Addr().Is6() {
		return "'self'"
	}
	return host + path
}

// notebookPolicy also allows pictures and sound in the document itself, and the frames of
// the viewers. It names only the frames' addresses, so that a frame cannot navigate
// elsewhere.
func notebookPolicy(host, prefix string) func(nonce string) string {
	frames := sourceOf(host, prefix+"/frame/")
	return func(nonce string) string {
		return page.PolicyWith(nonce, "'self' data: blob:", "; media-src data: blob:; frame-src "+frames)
	}
}

// markdown renders a cell of Markdown: no raw HTML, no pictures from elsewhere.
func (p *notebookPage) markdown(w http.ResponseWriter, v *page.Request) error {
	text, err := io.ReadAll(io.LimitReader(v.Body, page.MaxMarkdown+1))
	if err != nil {
		return page.FormError(err)
	}
	html, ok := page.RenderMarkdown(string(text))
	if !ok {
		return page.Refuse(http.StatusUnprocessableEntity, "This text is too long or too nested to be shown as Markdown.",
			"It is shown as it is; split it into several cells.")
	}
	p.Send(w, v, http.StatusOK, []byte(html))
	return nil
}

// api passes requests of the page's script on to the native API, as the visitor. The
// visitor's cookie is sent only below the prefix, and alone permits only reading: a script
// must send the token of its own page, so that no other page can use the API. Ports of
// programs are refused: their answers would have the page's origin.
func (p *notebookPage) api(w http.ResponseWriter, v *page.Request) error {
	if !p.CheckToken(v, v.Header.Get(page.TokenHeader)) {
		return page.ErrToken
	}
	to := path.Clean("/" + v.PathValue("path"))
	if parts := strings.Split(to, "/"); len(parts) < 2 || parts[1] != "sessions" || len(parts) > 4 && parts[3] == "ports" {
		return engine.ErrNotFound
	}
	inner, address := *v.Request, *v.URL
	address.Path, address.RawPath = to, ""
	inner.URL, inner.Pattern = &address, ""
	p.API.ServeHTTP(w, &inner)
	return nil
}

// viewers maps kinds of content to the scripts that show them in a frame.
var viewers = map[string]string{
	"html": "viewer-html.js", "plotly": "viewer-plotly.js", "vega": "viewer-vega.js", "widget": "viewer-widget.js",
}

// foreign is the viewer that runs scripts of programs, modules of anywidget, which it has as blobs.
// They can do what the frame can: draw, and send messages to the page, which checks them.
const foreign = "widget"

// frame serves an empty document with an opaque origin, which the notebook fills. Only this
// package's scripts run in it, and treat the content as data, but for the viewer that is foreign.
func (s *site) frame(w http.ResponseWriter, r *http.Request) {
	script := viewers[r.PathValue("kind")]
	if script == "" {
		http.NotFound(w, r)
		return
	}
	address, err := s.Assets.URL(script)
	if err != nil {
		panic(err) // the names are constant
	}
	nonce := page.NewSecret()
	allowed := "'nonce-" + nonce + "'"
	if r.PathValue("kind") == foreign {
		// What a script with a nonce imports has its nonce too, wherever it comes from.
		nonce, allowed = "", sourceOf(r.Host, address)+" blob:"
	}
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "sandbox allow-scripts; default-src 'none'; script-src "+allowed+
		"; worker-src 'none'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data:; "+
		"form-action 'none'; base-uri 'none'; frame-ancestors 'self'")
	h.Del("X-Frame-Options")
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Referrer-Policy", "no-referrer")
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Output</title>`+
		`<meta name="color-scheme" content="light dark"><style>html,body{margin:0;background:transparent}`+
		`body{font:14px/1.5 system-ui,sans-serif;padding:2px;overflow-x:auto}table{border-collapse:collapse}`+
		`td,th{padding:.2em .6em;border:1px solid #8888}`+
		// What is wider than its box: phones show no bar of it.
		`.more-left body::before,.more-right body::after{content:"";position:fixed;inset:0 auto 0 0;width:1.5em;`+
		`background:linear-gradient(to right,#888a,transparent);pointer-events:none}`+
		`.more-right body::after{inset:0 0 0 auto;scale:-1 1}</style></head><body><script nonce="`+nonce+`" src="`+address+
		`"></script></body></html>`)
}
