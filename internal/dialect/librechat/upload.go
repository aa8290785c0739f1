package librechat

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	// batchFactor is the limit of an upload, in files of the largest size.
	batchFactor = 4

	maxBatch = 200
	// storers is how many small files of a request are stored at once. Making many files durable
	// takes little longer than one.
	storers   = 16
	smallFile = 256 << 10
)

// stored is a file of an upload.
type stored struct {
	name string
	file engine.File
	err  error
}

// batch is an upload in progress.
type batch struct {
	api    *api
	caller engine.Caller
	ctx    context.Context //nolint:containedctx // it lasts as long as the request that it is
	files  []*stored
	more   bool // more than maxBatch files came

	work  sync.WaitGroup
	slots chan struct{}
}

func (a *api) upload(w http.ResponseWriter, r *http.Request) error {
	oldClient(w)
	b, session, err := a.receive(r)
	if err != nil {
		return err
	}
	type entry struct {
		FileID   string `json:"fileId"`
		ID       string `json:"id"`
		Filename string `json:"filename"`
		Name     string `json:"name"`
	}
	entries := []entry{}
	for _, f := range b.files {
		if f.err != nil {
			b.discard()
			if errors.Is(f.err, engine.ErrTooLarge) {
				return refuse(http.StatusRequestEntityTooLarge, fileTooLarge)
			}
			return f.err
		}
		id := f.file.ID.String()
		entries = append(entries, entry{id, id, f.name, f.name})
	}
	writeJSON(w, http.StatusOK, struct {
		Message   string  `json:"message"`
		StorageID string  `json:"storage_session_id"`
		SessionID string  `json:"session_id"`
		Files     []entry `json:"files"`
	}{"success", session, session, entries})
	return nil
}

// batchEntry is the result of one file of a batch.
type batchEntry struct {
	Status   string `json:"status"`
	Filename string `json:"filename"`
	Name     string `json:"name"`
	FileID   string `json:"fileId,omitempty"`
	ID       string `json:"id,omitempty"`
	Error    string `json:"error,omitempty"`
}

type batchReply struct {
	Message      string       `json:"message"`
	StorageID    string       `json:"storage_session_id"`
	SessionID    string       `json:"session_id"`
	Files        []batchEntry `json:"files"`
	Succeeded    int          `json:"succeeded"`
	Failed       int          `json:"failed"`
	LimitReached bool         `json:"filesLimitReached,omitempty"`
	MaxFiles     int          `json:"maxFiles,omitempty"`
}

func (a *api) uploadBatch(w http.ResponseWriter, r *http.Request) error {
	oldClient(w)
	b, session, err := a.receive(r)
	if err != nil {
		return err
	}
	out := batchReply{Message: "success", StorageID: session, SessionID: session, Files: []batchEntry{}}
	for _, f := range b.files {
		if f.err != nil {
			out.Failed++
			out.Files = append(out.Files, batchEntry{Status: "error", Filename: f.name, Name: f.name,
				Error: a.fileError(r, f.err)})
			continue
		}
		out.Succeeded++
		id := f.file.ID.String()
		out.Files = append(out.Files, batchEntry{Status: "success", Filename: f.name, Name: f.name, FileID: id, ID: id})
	}
	if b.more {
		out.LimitReached, out.MaxFiles = true, maxBatch
	}
	status := http.StatusOK
	switch {
	case out.Succeeded == 0:
		status, out.Message = http.StatusBadRequest, "error"
	case out.Failed > 0:
		out.Message = "partial_success"
	}
	writeJSON(w, status, out)
	return nil
}

// fileError returns why a file of a batch was not stored.
func (a *api) fileError(r *http.Request, err error) string {
	if errors.Is(err, engine.ErrTooLarge) {
		return fileTooLarge
	}
	status, body := describe(r, err)
	if status >= 500 {
		a.Log.ErrorContext(r.Context(), "a file of a batch was not stored", "err", err)
	}
	return body.Error
}

// receive stores the files of a form in a session of their own, and returns the
// session's id.
func (a *api) receive(r *http.Request) (*batch, string, error) {
	caller, err := a.caller(r)
	if err != nil {
		return nil, "", err
	}
	form, err := newForm(r)
	if err != nil {
		return nil, "", err
	}
	b := &batch{api: a, caller: caller, ctx: r.Context(), slots: make(chan struct{}, storers)}
	err = b.readAll(form)
	b.work.Wait()
	if err != nil {
		b.discard()
		return nil, "", err
	}
	s := fieldScope(form.fields)
	s.user = cmp.Or(r.Header.Get(userHeader), s.user)
	if err := cmp.Or(s.check(), a.checkUser(caller, s.user)); err != nil {
		b.discard()
		return nil, "", err
	}
	session, err := b.attach(s, form.fields["read_only"] == "true")
	if err != nil {
		b.discard()
		return nil, "", err
	}
	return b, session, nil
}

// fieldScope is the scope that the fields of a form name.
func fieldScope(fields map[string]string) scope {
	s := scope{kind: fields["kind"], id: fields["id"], version: fields["version"]}
	switch {
	case s.kind == kindUser:
		s.user = s.id
	case s.kind == "" && fields["entity_id"] != "":
		s.kind, s.id, s.version = kindAgent, fields["entity_id"], "" // an older name for the same field
	case s.kind == "":
		s.id, s.version = "", ""
	}
	return s
}

func (b *batch) readAll(form *form) error {
	for {
		name, content, err := form.next()
		switch {
		case errors.Is(err, io.EOF) && len(b.files) == 0:
			return bad("No files provided")
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return err
		case len(b.files) == maxBatch:
			b.more = true
			continue
		}
		f := &stored{name: plainName(name)}
		b.files = append(b.files, f)
		owner := b.caller
		if s := fieldScope(form.fields); s.check() == nil { // otherwise later fields may complete it
			owner = s.uploader(owner)
		}
		if err := b.storeFile(f, owner, content); err != nil {
			return err
		}
	}
}

// storeFile stores a file: a small one while the next is read, a large one as it arrives.
func (b *batch) storeFile(f *stored, owner engine.Caller, content io.Reader) error {
	var beginning bytes.Buffer
	_, err := io.CopyN(&beginning, content, smallFile)
	switch {
	case err == nil:
		b.put(f, owner, io.MultiReader(&beginning, content))
		return nil
	case !errors.Is(err, io.EOF):
		return broken(err)
	}
	b.slots <- struct{}{}
	b.work.Go(func() {
		defer func() { <-b.slots }()
		b.put(f, owner, &beginning)
	})
	return nil
}

func (b *batch) put(f *stored, owner engine.Caller, content io.Reader) {
	f.file, f.err = b.api.engine.PutFile(b.ctx, owner,
		engine.Upload{Name: f.name, Origin: engine.OriginLibreChat, TTL: b.api.FileTTL, Max: b.api.MaxUpload}, content)
}

// attach puts the files into a session. If a field behind the files names another owner, they are
// handed over first.
func (b *batch) attach(s scope, readOnly bool) (string, error) {
	owner := s.uploader(b.caller)
	var refs []engine.FileRef
	for _, f := range b.files {
		if f.err != nil {
			continue
		}
		if f.file.Owner != owner.Owner {
			if err := b.handOver(f, owner); err != nil {
				return "", err
			}
		}
		clean, err := engine.CleanPath(f.name)
		if err != nil {
			return "", err
		}
		refs = append(refs, engine.FileRef{ID: f.file.ID, Path: f.file.ID.String() + "/" + clean, ReadOnly: readOnly})
	}
	if len(refs) == 0 {
		return engine.NewID().String(), nil
	}
	session, err := b.api.engine.CreateSession(b.ctx, owner, engine.SessionRequest{
		Origin: engine.OriginLibreChat, TTL: b.api.FileTTL, Files: refs, Implicit: true, Scope: s.mark(b.caller),
	})
	return session.ID.String(), err
}

// handOver gives a file to another owner.
func (b *batch) handOver(f *stored, to engine.Caller) error {
	from := b.caller
	from.Owner = f.file.Owner
	_, content, err := b.api.engine.OpenFile(b.ctx, from, f.file.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	before := f.file
	b.put(f, to, content)
	if f.err != nil {
		return f.err
	}
	return b.api.engine.DeleteFile(b.ctx, from, before.ID)
}

// discardTime bounds the clean-up after a failed request.
const discardTime = 10 * time.Second

// discard deletes the files of a failed upload.
func (b *batch) discard() {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(b.ctx), discardTime)
	defer cancel()
	for _, f := range b.files {
		if f.err != nil || f.file.ID.IsZero() {
			continue
		}
		owner := b.caller
		owner.Owner = f.file.Owner
		if err := b.api.engine.DeleteFile(ctx, owner, f.file.ID); err != nil && !errors.Is(err, engine.ErrNotFound) {
			b.api.Log.ErrorContext(ctx, "a file of a failed upload stays until it expires", "file", f.file.ID, "err", err)
		}
	}
}

const (
	maxField  = 64 << 10 // bytes of a part that is not a file
	maxFields = 64
)

// form reads a multipart body, part by part. Fields may be before, between and after the
// files.
type form struct {
	parts  *wire.Parts
	fields map[string]string
}

func newForm(r *http.Request) (*form, error) {
	mediaType, params, _ := mime.ParseMediaType(r.Header.Get("Content-Type"))
	if mediaType != "multipart/form-data" || params["boundary"] == "" {
		return nil, bad("the body must be multipart/form-data with a boundary")
	}
	return &form{parts: wire.NewParts(r.Body, params["boundary"]), fields: map[string]string{}}, nil
}

// next returns the next file of the form, and records the fields before it. It returns
// io.EOF only at the complete end of the form, not for a truncated one.
func (f *form) next() (name string, content io.Reader, err error) {
	for {
		part, err := f.parts.Next()
		if err == io.EOF { //nolint:errorlint // bare it is the closing boundary, wrapped an end without it
			if err := f.parts.Drain(); err != nil {
				return "", nil, broken(err)
			}
			return "", nil, io.EOF
		}
		if err != nil {
			return "", nil, broken(err)
		}
		field, file, isFile := partName(part.Header.Get("Content-Disposition"))
		if isFile {
			return file, part, nil
		}
		text, err := io.ReadAll(io.LimitReader(part, maxField+1))
		switch {
		case err != nil:
			return "", nil, broken(err)
		case len(text) > maxField || len(f.fields) == maxFields:
			return "", nil, bad("the form has too many or too long fields")
		}
		f.fields[field] = string(text)
	}
}

// broken returns the error of the body limit unchanged.
func broken(err error) error {
	if wire.IsTooLarge(err) {
		return err
	}
	return bad("the form did not arrive whole")
}

// partName reads a part's Content-Disposition.
func partName(header string) (field, file string, isFile bool) {
	params, _ := wire.Disposition(header)
	field, file, isFile = wire.PartName(header)
	if file == params["filename"] {
		file = formEscapes.Replace(file)
	}
	return field, file, isFile
}

// formEscapes decodes the three characters that a form escapes. Any other percent sign
// belongs to the name.
var formEscapes = strings.NewReplacer("%22", `"`, "%0D", "\r", "%0A", "\n")

// plainName returns the stored name of an upload: the path if it stays below the workspace, else
// its last element. Control characters of ASCII become underscores, as in LibreChat's own names.
func plainName(name string) string {
	safe := strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f {
			return '_'
		}
		return r
	}, strings.ToValidUTF8(name, "_"))
	if _, ok := wantedPath(safe); ok {
		return safe
	}
	base := path.Base(strings.ReplaceAll(safe, `\`, "/"))
	base = wire.ShortName(base)
	if _, err := engine.CleanPath(base); err != nil {
		return "unnamed"
	}
	return base
}
