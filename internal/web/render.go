package web

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

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/workspace"
)

//go:embed templates/*.html
var templateFiles embed.FS

// templates has a set for each page: the frame, the shared parts (files whose names begin
// with an underscore), and the page itself.
type templates map[string]*template.Template

func loadTemplates(s *Site) (templates, error) {
	shared, err := template.New("").Funcs(s.functions()).ParseFS(templateFiles, "templates/_*.html")
	if err != nil {
		return nil, err
	}
	pages, err := fs.Glob(templateFiles, "templates/[a-z]*.html")
	if err != nil {
		return nil, err
	}
	all := templates{}
	for _, file := range pages {
		set, err := template.Must(shared.Clone()).ParseFS(templateFiles, file)
		if err != nil {
			return nil, err
		}
		all[strings.TrimSuffix(path.Base(file), ".html")] = set
	}
	return all, nil
}

func (s *Site) functions() template.FuncMap {
	return template.FuncMap{
		"asset":     s.assets.address,
		"at":        s.address,
		"bytes":     byteCount,
		"count":     count,
		"int":       func(n int64) int { return int(n) },
		"named":     named,
		"prose":     prose,
		"sentence":  sentence,
		"severity":  func(s workspace.Severity) string { return severityWords[s] },
		"kind":      func(k assignment.Kind) string { return kindTitles[k] },
		"rows":      func(r [][]string) int64 { return int64(len(r)) },
		"pages":     func(n int) []int { return numbers(min(n, shownPages)) },
		"duration":  shortDuration,
		"inc":       func(i int) int { return i + 1 },
		"dict":      dict,
		"leavesOut": leavesOut,
		"commands":  commands,
		"since":     func(t time.Time) string { return since(s.Now(), t) },
		"until":     func(t time.Time) string { return until(s.Now(), t) },
		"clock":     func(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") },
		"stamp":     func(t time.Time) string { return t.UTC().Format(time.RFC3339) },
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

// view is the data of the frame around a page.
type view struct {
	Title   string
	Page    string // name of the page, whose navigation entry is marked
	Nav     []navEntry
	Owner   string // of the visitor; empty: not signed in
	SignOut bool   // the visitor can sign out
	Token   string // for forms and scripts
	Nonce   string // for styles that scripts make
	Body    any    // specific to the page
}

// render answers with a page. It renders the whole page first, so that an error does not
// leave half a page.
func (s *Site) render(w http.ResponseWriter, v *webRequest, status int, name, title string, body any) {
	s.renderUnder(w, v, status, name, title, body, policy)
}

// renderUnder is render with another policy.
func (s *Site) renderUnder(
	w http.ResponseWriter, v *webRequest, status int, name, title string, body any, policy func(nonce string) string,
) {
	page := view{
		Title: title, Page: name, Nonce: newSecret(), Token: s.signIns.token(v.cookie),
		SignOut: v.signedIn, Owner: string(v.caller.Owner), Body: body,
	}
	if section := s.sections[name]; section != "" {
		page.Page = section
	}
	if page.Owner != "" {
		several := s.onMachine() != nil
		for _, entry := range s.nav {
			hidden := entry.operators && !v.operator() || entry.machine && several
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
	s.send(w, v, status, text)
}

// fragment answers with a part of a page, for a script.
func (s *Site) fragment(w http.ResponseWriter, v *webRequest, page, part string, body any) error {
	return s.sendPart(w, v, page, part, view{Token: s.signIns.token(v.cookie), Owner: string(v.caller.Owner), Body: body})
}

func (s *Site) sendPart(w http.ResponseWriter, v *webRequest, page, part string, data any) error {
	text, err := s.part(page, part, data)
	if err == nil {
		s.send(w, v, http.StatusOK, text)
	}
	return err
}

// part renders a part of a page.
func (s *Site) part(page, part string, data any) ([]byte, error) {
	var text bytes.Buffer
	err := s.templates[page].ExecuteTemplate(&text, part, data)
	return text.Bytes(), err
}

// eventPart is part for an event. An error is logged, and shown in its place.
func (s *Site) eventPart(page, part string, data any) string {
	text, err := s.part(page, part, data)
	if err != nil {
		s.Log.Error("a part of the page could not be made", "page", page, "part", part, "err", err)
		return `<p class="problem">This could not be shown. Load the page again.</p>`
	}
	return string(text)
}

// compressFrom is the size from which documents are compressed.
const compressFrom = 4 << 10

func (s *Site) send(w http.ResponseWriter, v *webRequest, status int, text []byte) {
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
func policy(nonce string) string { return policyWith(nonce, "'self'", "") }

// policyWith is policy with other sources of pictures and further directives.
func policyWith(nonce, images, more string) string {
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
