package web

import (
	"io"
	"net/http"
	"net/netip"
	"path"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// notebookPage is where notebooks are written. A notebook is a file of a live session,
// as in Jupyter: this page serves the document and passes on what its script asks of
// the native API; cells, files and variables are the script's business.
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
		id, err := engine.ParseID(v.PathValue("id"))
		if err != nil {
			return engine.ErrNotFound
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

// notebookPolicy is what a notebook's page may load besides our own files: pictures and
// sound that are in the document itself, and frames of the viewers. A frame that is
// navigated elsewhere is stopped by this, so it names the frames' addresses alone. An
// address of IPv6 cannot be written in a policy; there the origin has to do.
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

// api passes what the page's script asks on to the native API, as the visitor. The
// visitor's cookie is good below our prefix only, and by itself for looking only: a
// script must show the token of its own page, so that no other page can ask. What
// programs serve on ports of theirs is not passed on: it would be of our origin.
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

// viewers are the kinds of content that are shown in a frame, each with the script that does.
var viewers = map[string]string{
	"html": "viewer-html.js", "plotly": "viewer-plotly.js", "vega": "viewer-vega.js",
}

// frame is an empty document of an origin of its own, which the notebook fills. Only
// our scripts run in it: what it is told to show is data to them.
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
		panic(err) // a name of ours
	}
	_, _ = io.WriteString(w, `<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Output</title>`+
		`<meta name="color-scheme" content="light dark"><style>html,body{margin:0;background:transparent}`+
		`body{font:14px/1.5 system-ui,sans-serif;padding:2px;overflow-x:auto}table{border-collapse:collapse}`+
		`td,th{padding:.2em .6em;border:1px solid #8888}</style></head><body><script nonce="`+nonce+`" src="`+address+
		`"></script></body></html>`)
}
