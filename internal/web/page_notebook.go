package web

import (
	"io"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// notebookPage shows notebooks. A notebook is a file of a live session, as in Jupyter. The
// page serves the document and proxies the requests of its script to the native API; the
// script does the rest.
type notebookPage struct{ *Site }

func (s *Site) notebookPages() {
	if s.API == nil {
		return
	}
	p := &notebookPage{s}
	s.nav = append(s.nav, navEntry{Name: "notebook", Title: "Notebooks", Path: "/notebooks"})
	s.sections["notebooks"] = "notebook"
	s.mux.HandleFunc("GET /notebooks", s.handle(p.list))
	s.mux.HandleFunc("GET /notebooks/{id}", s.handle(p.show))
	s.mux.HandleFunc("POST /markdown", s.change(p.markdown))
	s.mux.HandleFunc("GET /frame/{kind}", s.frame)
	s.mux.HandleFunc("/api/{path...}", s.handle(p.api))
	s.mux.HandleFunc("GET /sessions/{id}/ports/{port}", s.handle(p.openPort))
	s.mux.HandleFunc(portPath+portTicket, p.port)
}

// notebooksView is the list of notebooks.
type notebooksView struct {
	Notebooks []notebookEntry
	Shares    []shareEntry
}

// notebookEntry is a live session with a notebook in it.
type notebookEntry struct {
	engine.Session
	Title string
	Files int
}

// list shows the live sessions that hold a notebook, newest first.
func (p *notebookPage) list(w http.ResponseWriter, v *webRequest) error {
	all, err := p.Engine.ListSessions(v.Context(), v.caller, engine.SessionQuery{Origin: engine.OriginNative})
	if err != nil {
		return err
	}
	var body notebooksView
	for _, session := range all {
		if session.Kind != engine.SessionLive {
			continue
		}
		_, places, err := p.Engine.SessionFiles(v.Context(), v.caller, session.ID)
		if engine.KindOf(err) == engine.ErrNotFound {
			continue // deleted meanwhile
		}
		if err != nil {
			return err
		}
		for _, f := range places {
			if name, ok := strings.CutSuffix(f.Path, ".ipynb"); ok && !strings.Contains(name, "/") {
				body.Notebooks = append(body.Notebooks, notebookEntry{session, named(name), len(places) - 1})
				break
			}
		}
	}
	if body.Shares, err = p.shares(v); err != nil {
		return err
	}
	p.render(w, v, http.StatusOK, "notebooks", "Notebooks", body)
	return nil
}

// notebookView is the page around one notebook.
type notebookView struct {
	Session  string // "": it is made with the first cell or file
	Language string // of a notebook without a session
	Timeout  int    // seconds that a cell may run
	Max      int64  // bytes of an uploaded file
}

func (p *notebookPage) show(w http.ResponseWriter, v *webRequest) error {
	_, maxima := p.Engine.Limits()
	body := notebookView{Language: "python", Timeout: int(maxima.Timeout.Seconds()), Max: p.MaxUpload}
	if language := v.URL.Query().Get("language"); language == "javascript" || language == "bash" {
		body.Language = language
	}
	if v.PathValue("id") != "new" {
		id, err := v.id()
		if err != nil {
			return err
		}
		session, err := p.Engine.GetSession(v.Context(), v.caller, id)
		if err != nil {
			return err
		}
		if session.Kind != engine.SessionLive {
			return engine.ErrNotFound
		}
		body.Session = id.String()
	}
	p.renderUnder(w, v, http.StatusOK, "notebook", "Notebook", body, notebookPolicy(v.Host, p.Prefix))
	return nil
}

// notebookPolicy also allows pictures and sound in the document itself, and the frames of
// the viewers. It names only the frames' addresses, so that a frame cannot navigate
// elsewhere. A policy cannot have an IPv6 address; there it allows the origin.
func notebookPolicy(host, prefix string) func(nonce string) string {
	frames := host + prefix + "/frame/"
	if at, err := netip.ParseAddrPort(host); err == nil && at.Addr().Is6() {
		frames = "'self'"
	}
	return func(nonce string) string {
		return policyWith(nonce, "'self' data: blob:", "; media-src data: blob:; frame-src "+frames)
	}
}

// markdown renders a cell of Markdown: no raw HTML, no pictures from elsewhere.
func (p *notebookPage) markdown(w http.ResponseWriter, v *webRequest) error {
	text, err := io.ReadAll(io.LimitReader(v.Body, maxMarkdown+1))
	if err != nil {
		return formError(err)
	}
	html, ok := renderMarkdown(markdown, string(text))
	if !ok {
		return refuse(http.StatusUnprocessableEntity, "This text is too long or too nested to be shown as Markdown.",
			"It is shown as it is; split it into several cells.")
	}
	p.send(w, v, http.StatusOK, []byte(html))
	return nil
}

// api passes requests of the page's script on to the native API, as the visitor. The
// visitor's cookie is sent only below the prefix, and alone permits only reading: a script
// must send the token of its own page, so that no other page can use the API. Ports of
// programs are refused: their answers would have the page's origin.
func (p *notebookPage) api(w http.ResponseWriter, v *webRequest) error {
	if !p.signIns.holds(v.cookie, v.Header.Get(tokenHeader)) {
		return errToken
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
	"html": "viewer-html.js", "plotly": "viewer-plotly.js", "vega": "viewer-vega.js",
}

// frame serves an empty document with an opaque origin, which the notebook fills. Only this
// package's scripts run in it, and treat the content as data.
func (s *Site) frame(w http.ResponseWriter, r *http.Request) {
	script := viewers[r.PathValue("kind")]
	if script == "" {
		http.NotFound(w, r)
		return
	}
	nonce := newSecret()
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	h.Set("Content-Security-Policy", "sandbox allow-scripts; default-src 'none'; script-src 'nonce-"+nonce+
		"'; style-src 'unsafe-inline'; img-src data: blob:; font-src data:; media-src data:; form-action 'none'; "+
		"base-uri 'none'; frame-ancestors 'self'")
	h.Del("X-Frame-Options")
	h.Set("X-DNS-Prefetch-Control", "off")
	h.Set("Referrer-Policy", "no-referrer")
	address, err := s.assets.address(script)
	if err != nil {
		panic(err) // the names are constant
	}
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Output</title>`+
		`<meta name="color-scheme" content="light dark"><style>html,body{margin:0;background:transparent}`+
		`body{font:14px/1.5 system-ui,sans-serif;padding:2px;overflow-x:auto}table{border-collapse:collapse}`+
		`td,th{padding:.2em .6em;border:1px solid #8888}</style></head><body><script nonce="`+nonce+`" src="`+address+
		`"></script></body></html>`)
}
