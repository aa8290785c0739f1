package gemini

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"path"
	"strings"
	"time"

	"github.com/airlock-run/airlock/provider"
)

// Environments are a preview of the service: machines with files that code and
// their owner can list, which generateContent has not. They are used with
// Options.Environments, through requests of our own: the SDK's part for them
// repeats requests by a rule of its own, and holds downloads in memory (v1.77.0).
//
// An environment has no name and a file of it no owner. What we have to know again
// later stands in the path of an empty file that each is made with.
type environments struct{ c *Client }

// Where things are in an environment.
const (
	inputs  = "inputs/"   // what was given to it
	markers = ".airlock/" // ours
)

// environment is one as the service writes it.
type environment struct {
	ID       string    `json:"id"`
	Status   string    `json:"status"` // "active", "expired"
	Created  time.Time `json:"created"`
	Accessed time.Time `json:"last_accessed"`
	Sources  []source  `json:"sources"`
}

type source struct {
	Type    string `json:"type"` // "inline"
	Content string `json:"content"`
	Target  string `json:"target"`
}

// kept is how long an environment lives after its last use.
const kept = 7 * 24 * time.Hour

func (e environment) id() string { return strings.TrimPrefix(e.ID, "environments/") }

// marker is what stands in the path of the marker, after a word for what it is of.
func (e environment) marker(word string) (string, bool) {
	for _, s := range e.Sources {
		if text, ok := strings.CutPrefix(strings.TrimPrefix(s.Target, "/"), markers+word+"-"); ok {
			text, err := url.PathUnescape(text)
			return text, err == nil
		}
	}
	return "", false
}

func mark(word, text string) []source {
	return []source{{Type: "inline", Target: markers + word + "-" + url.PathEscape(text)}}
}

func (e environment) session() provider.Session {
	name, _ := e.marker("session")
	s := provider.Session{ID: e.id(), Name: name, Created: e.Created, LastUsed: e.Accessed, IdleTTL: kept, Active: e.Status != "expired"}
	if last := s.LastUsed; !last.IsZero() {
		s.Expires = last.Add(kept)
	}
	return s
}

// call sends and receives JSON.
func (c *Client) call(ctx context.Context, op, method, where string, body, into any) error {
	var content io.Reader
	if body != nil {
		b, err := json.Marshal(body)
		if err != nil {
			return provider.Failed(c.Name(), op, err)
		}
		content = bytes.NewReader(b)
	}
	r, err := c.request(ctx, method, "/"+apiVersion+where, content)
	if err != nil {
		return err
	}
	r.Header.Set("Content-Type", "application/json")
	resp, err := c.options.HTTP.Do(r)
	if err != nil {
		return provider.Failed(c.Name(), op, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 8<<20))
	if resp.StatusCode/100 != 2 {
		return c.refused(op, resp.StatusCode, resp.Header, data)
	}
	if err == nil && into != nil {
		err = json.Unmarshal(data, into)
	}
	if err != nil {
		return provider.Failed(c.Name(), op, err)
	}
	return nil
}

// create makes an environment, from another one if that is named.
func (e environments) create(ctx context.Context, op, from string, marked []source, n provider.Network) (environment, error) {
	body := map[string]any{"sources": marked}
	if from != "" {
		body["from_environment"] = from
	}
	switch {
	case !n.Allowed: // they reach the internet unless told otherwise
		body["network"] = "disabled"
	case len(n.Domains) > 0:
		var list []map[string]string
		for _, d := range n.Domains {
			list = append(list, map[string]string{"domain": d})
		}
		body["network"] = map[string]any{"allowlist": list}
	}
	var made environment
	if err := e.c.call(ctx, op, http.MethodPost, "/environments", body, &made); err != nil {
		return made, err
	}
	if made.ID == "" {
		return made, &provider.Error{Kind: provider.Transient, Provider: provider.Gemini, Op: op, Message: "the answer has no environment in it", Unsure: true}
	}
	return made, nil
}

// Create implements provider.SessionStore. The first file brings its environment
// with it, as a copy; the others are carried over.
func (e environments) Create(ctx context.Context, spec provider.SessionSpec) (provider.Session, error) {
	from, rest := "", spec.Files
	for i, f := range spec.Files {
		if id, _, ok := uploaded(f.Ref); ok {
			from = id
			rest = append(append([]provider.FileInfo(nil), spec.Files[:i]...), spec.Files[i+1:]...)
			break
		}
	}
	made, err := e.create(ctx, "make an environment", from, mark("session", spec.Name), spec.Network)
	if err != nil {
		return provider.Session{}, gone(err)
	}
	for _, f := range rest {
		if _, err := e.Add(ctx, made.id(), f); err != nil {
			_ = e.Delete(context.WithoutCancel(ctx), made.id())
			failed := *provider.Failed(provider.Gemini, "make an environment", err)
			failed.Unsure = true // whether it is gone
			return provider.Session{}, &failed
		}
	}
	return made.session(), nil
}

// gone says of an environment that is not there what it means: they are there as
// long as they live.
func gone(err error) error {
	e, ok := errors.AsType[*provider.Error](err)
	if !ok || e.Kind != provider.FileNotFound {
		return err
	}
	expired := *e
	expired.Kind = provider.ContainerExpired
	return &expired
}

// Get implements provider.SessionStore.
func (e environments) Get(ctx context.Context, id string) (provider.Session, error) {
	var got environment
	if err := e.c.call(ctx, "look at environment "+id, http.MethodGet, "/environments/"+url.PathEscape(id), nil, &got); err != nil {
		return provider.Session{}, gone(err)
	}
	return got.session(), nil
}

// all goes through the environments of the account.
func (e environments) all(ctx context.Context) iter.Seq2[environment, error] {
	return func(yield func(environment, error) bool) {
		seen := map[string]bool{}
		for token := ""; ; {
			var page struct {
				Environments []environment `json:"environments"`
				Next         string        `json:"next_page_token"`
			}
			query := url.Values{"page_size": {"100"}}
			if token != "" {
				query.Set("page_token", token)
			}
			if err := e.c.call(ctx, "list environments", http.MethodGet, "/environments?"+query.Encode(), nil, &page); err != nil {
				yield(environment{}, err)
				return
			}
			for _, one := range page.Environments {
				if !yield(one, nil) {
					return
				}
			}
			if token = page.Next; token == "" {
				return
			}
			if seen[token] {
				yield(environment{}, provider.Repeats(provider.Gemini, "list environments"))
				return
			}
			seen[token] = true
		}
	}
}

// List implements provider.SessionStore: those that were made as sessions.
func (e environments) List(ctx context.Context, q provider.Filter) iter.Seq2[provider.Session, error] {
	return func(yield func(provider.Session, error) bool) {
		for one, err := range e.all(ctx) {
			if err != nil {
				yield(provider.Session{}, err)
				return
			}
			s := one.session()
			if s.Name == "" || q.Name != "" && s.Name != q.Name || s.Created.Before(q.CreatedAfter) {
				continue
			}
			if !yield(s, nil) {
				return
			}
		}
	}
}

// Touch implements provider.SessionStore.
func (e environments) Touch(ctx context.Context, id string) error {
	s, err := e.Get(ctx, id)
	if err == nil && !s.Active {
		return &provider.Error{Kind: provider.ContainerExpired, Provider: provider.Gemini, Op: "touch " + id, Message: "the environment has expired"}
	}
	return err
}

// listed is a file as the service writes it.
type listed struct {
	Name     string    `json:"name"`
	Path     string    `json:"path"`
	Type     string    `json:"type"` // "file", "directory"
	MIME     string    `json:"mime_type"`
	Size     string    `json:"size_bytes"`
	Created  time.Time `json:"created"`
	Modified time.Time `json:"modified"`
}

// Files implements provider.SessionStore.
func (e environments) Files(ctx context.Context, id string) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		seen := map[string]bool{}
		for token := ""; ; {
			var page struct {
				Files []listed `json:"files"`
				Next  string   `json:"next_page_token"`
			}
			query := url.Values{"recursive": {"true"}, "page_size": {"100"}}
			if token != "" {
				query.Set("page_token", token)
			}
			op := "list the files of environment " + id
			if err := e.c.call(ctx, op, http.MethodGet, "/environments/"+url.PathEscape(id)+"/files/?"+query.Encode(), nil, &page); err != nil {
				yield(provider.FileInfo{}, gone(err))
				return
			}
			for _, f := range page.Files {
				if info, ok := f.describe(id); ok && !yield(info, nil) {
					return
				}
			}
			if token = page.Next; token == "" {
				return
			}
			if seen[token] {
				yield(provider.FileInfo{}, provider.Repeats(provider.Gemini, op))
				return
			}
			seen[token] = true
		}
	}
}

func (f listed) describe(environment string) (provider.FileInfo, bool) {
	where := strings.TrimPrefix(cmp.Or(f.Path, f.Name), "/")
	info := provider.FileInfo{Ref: provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeSession, Session: environment, Path: where},
		Name: path.Base(where), MIME: f.MIME, Size: -1, Created: f.Created, Origin: provider.OriginModel, Readable: true, State: provider.StateReady}
	if f.Modified.After(info.Created) { // written again: another file
		info.Created = f.Modified
	}
	if _, err := fmt.Sscan(f.Size, &info.Size); err != nil {
		info.Size = -1
	}
	if strings.HasPrefix(where, inputs) {
		info.Origin = provider.OriginUser
	}
	return info, f.Type != "directory" && !strings.HasPrefix(where, markers)
}

// Add implements provider.SessionStore: the content goes through here.
func (e environments) Add(ctx context.Context, id string, f provider.FileInfo) (provider.FileInfo, error) {
	var body io.Reader = bytes.NewReader(f.Ref.Inline)
	size := f.Size
	if f.Ref.Scope != provider.ScopeInline {
		from, info, err := e.c.openInside(ctx, f.Ref, 0)
		if err != nil {
			return provider.FileInfo{}, err
		}
		defer from.Close()
		body = from
		if info.Size >= 0 {
			size = info.Size
		}
	}
	name, err := e.free(ctx, id, f.Name)
	if err != nil {
		return provider.FileInfo{}, err
	}
	where := inputs + name
	if err := e.c.uploadInside(ctx, id, where, provider.Upload{Name: f.Name, MIME: f.MIME, Size: size, Body: body}); err != nil {
		return provider.FileInfo{}, gone(err)
	}
	f.Ref = provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeSession, Session: id, Path: where}
	f.Size, f.Origin = size, provider.OriginUser
	return f, nil
}

// free is a name that no input has yet.
func (e environments) free(ctx context.Context, id, name string) (string, error) {
	taken := map[string]bool{}
	for f, err := range e.Files(ctx, id) {
		if err != nil {
			return "", err
		}
		taken[f.Ref.Path] = true
	}
	name = cmp.Or(provider.CleanName(name), "input")
	ending := path.Ext(name)
	for n, try := 2, name; ; n++ {
		if !taken[inputs+try] {
			return try, nil
		}
		try = fmt.Sprintf("%s-%d%s", strings.TrimSuffix(name, ending), n, ending)
	}
}

// Delete implements provider.SessionStore.
func (e environments) Delete(ctx context.Context, id string) error {
	err := e.c.call(ctx, "delete environment "+id, http.MethodDelete, "/environments/"+url.PathEscape(id), nil, nil)
	if kind := provider.KindOf(err); kind == provider.FileNotFound || kind == provider.ContainerExpired {
		return nil
	}
	return err
}

// openInside fetches a file of an environment.
func (c *Client) openInside(ctx context.Context, ref provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	info := provider.FileInfo{Ref: ref, Size: -1}
	id, where, ok := uploaded(ref)
	if !ok {
		return nil, info, &provider.Error{Kind: provider.FileNotFound, Provider: provider.Gemini, Op: "fetch " + ref.ID, Message: "this is no file of an environment"}
	}
	return c.fetch(ctx, ref, "/environments/"+url.PathEscape(id)+"/files/"+escaped(where)+"?alt=media", offset)
}

// escaped is a path for an address.
func escaped(where string) string {
	return strings.ReplaceAll(url.PathEscape(where), "%2F", "/")
}

// uploadInside sends a file to a place in an environment.
func (c *Client) uploadInside(ctx context.Context, id, where string, u provider.Upload) error {
	up := &upload{c: c, op: "upload " + u.Name}
	about := "/upload/" + apiVersion + "/environments/" + url.PathEscape(id) + "/files/" + escaped(where) + "?overwrite=true&extract=false"
	if err := up.begin(ctx, http.MethodPut, about, nil, u); err != nil {
		return err
	}
	up.bare = true
	_, err := up.content(ctx, u)
	return err
}

// uploaded reads where in which environment a file is.
func uploaded(r provider.FileRef) (id, where string, ok bool) {
	if r.Scope == provider.ScopeSession {
		return r.Session, r.Path, r.Session != "" && r.Path != ""
	}
	rest, ok := strings.CutPrefix(r.ID, "environments/")
	if !ok || r.Scope == provider.ScopeInline {
		return "", "", false
	}
	id, where, ok = strings.Cut(rest, "/files/")
	return id, where, ok
}
