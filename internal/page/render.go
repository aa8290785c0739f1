package page

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"path"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

//go:embed templates/*.html static
var ownFiles embed.FS

// templates has a set for each page: the frame, the shared parts (files whose names begin
// with an underscore), and the page itself.
type templates map[string]*template.Template

func loadTemplates(s *Site) (templates, error) {
	shared := template.New("").Funcs(s.functions())
	for _, part := range s.parts {
		shared = shared.Funcs(part.Functions)
	}
	for _, files := range s.files() {
		if shares, err := fs.Glob(files, "templates/_*.html"); err != nil || len(shares) == 0 {
			continue
		}
		if _, err := shared.ParseFS(files, "templates/_*.html"); err != nil {
			return nil, err
		}
	}
	all := templates{}
	for _, files := range s.files() {
		pages, err := fs.Glob(files, "templates/[a-z]*.html")
		if err != nil {
			return nil, err
		}
		for _, file := range pages {
			set, err := template.Must(shared.Clone()).ParseFS(files, file)
			if err != nil {
				return nil, err
			}
			all[strings.TrimSuffix(path.Base(file), ".html")] = set
		}
	}
	return all, nil
}

func (s *Site) functions() template.FuncMap {
	return template.FuncMap{
		"asset":    s.Assets.URL,
		"at":       s.URL,
		"bytes":    ByteCount,
		"count":    Count,
		"int":      func(n int64) int { return int(n) },
		"named":    Named,
		"prose":    Prose,
		"sentence": Sentence,
		"duration": engine.DurationText,
		"inc":      func(i int) int { return i + 1 },
		"dict":     dict,
		"commands": commands,
		"since":    func(t time.Time) string { return since(s.Now(), t) },
		"until":    func(t time.Time) string { return until(s.Now(), t) },
		"clock":    func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"stamp":    func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
	}
}

// commands renders text between backquotes as code.
func commands(text string) template.HTML {
	var b strings.Builder
	for {
		plain, rest, _ := strings.Cut(text, "`")
		command, after, found := strings.Cut(rest, "`")
		if !found {
			break
		}
		b.WriteString(template.HTMLEscapeString(plain) + "<code>" + template.HTMLEscapeString(command) + "</code>")
		text = after
	}
	b.WriteString(template.HTMLEscapeString(text))
	return template.HTML(b.String()) //nolint:gosec // each part is escaped
}

// dict returns a map for a part of a page that takes several arguments.
func dict(pairs ...any) (map[string]any, error) {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		key, ok := pairs[i].(string)
		if !ok {
			return nil, fmt.Errorf("dict: %v is no name", pairs[i])
		}
		m[key] = pairs[i+1]
	}
	return m, nil
}

// View is the data of the frame around a page.
type View struct {
	Title   string
	Page    string // name of the page, whose navigation entry is marked
	Nav     []Entry
	Owner   string // of the visitor; empty: not signed in
	Name    string // of the visitor, for people; empty: not known
	SignOut bool   // the visitor can sign out
	Token   string // for forms and scripts
	Nonce   string // for styles that scripts make
	Body    any    // specific to the page
}

// Render answers with a page. It renders the whole page first, so that an error does not
// leave half a page.
func (s *Site) Render(w http.ResponseWriter, v *Request, status int, name, title string, body any) {
	s.RenderUnder(w, v, status, name, title, body, policy)
}

// RenderUnder is render with another policy.
func (s *Site) RenderUnder(
	w http.ResponseWriter, v *Request, status int, name, title string, body any, policy func(nonce string) string,
) {
	page := View{
		Title: title, Page: name, Nonce: NewSecret(), Token: s.FormToken(v),
		SignOut: v.HasKey, Owner: string(v.Caller.Owner), Name: v.Caller.Name, Body: body,
	}
	if section := s.Sections[name]; section != "" {
		page.Page = section
	}
	if page.Owner != "" {
		several := s.OnMachine() != nil
		for _, entry := range s.Nav {
			hidden := entry.Operators && !v.Operator() || entry.Machine && several
			if !hidden {
				page.Nav = append(page.Nav, entry)
			}
		}
	}
	text, err := s.part(name, "frame", page)
	if err != nil {
		s.Log.ErrorContext(v.Context(), "render a page", "page", name, "err", err)
		http.Error(w, "Something went wrong in the service. Its log says more.", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Security-Policy", policy(page.Nonce))
	s.Send(w, v, status, text)
}

// Fragment answers with a part of a page, for a script.
func (s *Site) Fragment(w http.ResponseWriter, v *Request, page, part string, body any) error {
	return s.SendPart(w, v, page, part, View{Token: s.FormToken(v), Owner: string(v.Caller.Owner), Body: body})
}

// SendPart answers with a part of a page, whose data is not in a View.
func (s *Site) SendPart(w http.ResponseWriter, v *Request, page, part string, data any) error {
	text, err := s.part(page, part, data)
	if err == nil {
		s.Send(w, v, http.StatusOK, text)
	}
	return err
}

// part renders a part of a page.
func (s *Site) part(page, part string, data any) ([]byte, error) {
	var text bytes.Buffer
	err := s.templates[page].ExecuteTemplate(&text, part, data)
	return text.Bytes(), err
}

// EventPart is part for an event. An error is logged, and shown in its place.
func (s *Site) EventPart(page, part string, data any) string {
	text, err := s.part(page, part, data)
	if err != nil {
		s.Log.Error("a part of the page could not be made", "page", page, "part", part, "err", err)
		return `<p class="problem">This could not be shown. Load the page again.</p>`
	}
	return string(text)
}

// compressFrom is the size from which documents are compressed.
const compressFrom = 4 << 10

// Send answers with a document, compressed if it is long.
func (s *Site) Send(w http.ResponseWriter, v *Request, status int, text []byte) {
	h := w.Header()
	h.Set("Content-Type", "text/html; charset=utf-8")
	// The form token stands next to text that others chose, and the length of a
	// compressed answer tells what repeats (BREACH). A foreign page would need the
	// visitor's cookie for that, which is SameSite=Strict.
	h.Set("Vary", "Accept-Encoding, Accept, Cookie")
	if len(text) < compressFrom || !strings.Contains(v.Header.Get("Accept-Encoding"), "gzip") {
		w.WriteHeader(status)
		_, _ = w.Write(text)
		return
	}
	h.Set("Content-Encoding", "gzip")
	w.WriteHeader(status)
	z := gzip.NewWriter(w)
	_, _ = z.Write(text)
	_ = z.Close() // the visitor may have disconnected
}

// policy allows only this package's own files. Documents have no inline scripts. The
// editor's script makes styles, which have the nonce of the document.
func policy(nonce string) string { return PolicyWith(nonce, "'self'", "") }

// PolicyWith is policy with other sources of pictures and further directives.
func PolicyWith(nonce, images, more string) string {
	styles := "style-src 'self'"
	if nonce != "" {
		styles += " 'nonce-" + nonce + "'"
	}
	return "default-src 'none'; script-src 'self'; " + styles + "; img-src " + images + "; connect-src 'self'; " +
		"form-action 'self'; base-uri 'none'; frame-ancestors 'none'" + more
}

// secure sets the headers of every answer, which a handler may replace.
func secure(h http.Header) {
	h.Set("Content-Security-Policy", policy(""))
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Permissions-Policy", "camera=(), microphone=(), geolocation=(), payment=(), usb=()")
	h.Set("Cache-Control", "no-store")
}
