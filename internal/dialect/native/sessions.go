package native

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/archive"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/outputrules"
	"github.com/airlock-run/airlock/internal/rest"
)

func (q *request) createSession() (any, error) {
	body := q.Object()
	if snapshot := body.Text("snapshot"); snapshot != "" {
		req := live.CopyRequest{Count: 1, Origin: engine.OriginNative, TTL: body.Seconds("ttl_seconds"),
			Secrets: readSecrets(body), Wall: engine.Wall(body.Text("wall"))}
		if err := body.Done(); err != nil {
			return nil, err
		}
		return q.restoreSession(snapshot, req)
	}
	kind := engine.SessionKind(body.Text("kind"))
	if kind == engine.SessionLive {
		return q.createLive(body)
	}
	if _, has := body.Members["language"]; has {
		body.Fail("kind", `must be "live" for a session with a language`)
	}
	req := engine.SessionRequest{
		Origin: engine.OriginNative,
		Kind:   kind,
		Wall:   engine.Wall(body.Text("wall")),
		TTL:    body.Seconds("ttl_seconds"),
		Files:  readFileRefs(body),
		Limits: readLimits(body.Object("limits")),
	}
	if err := body.Done(); err != nil {
		return nil, err
	}
	session, err := q.api.engine.CreateSession(q.Context(), q.Caller, req)
	if err != nil {
		return nil, err
	}
	return rest.Created("/sessions/"+session.ID.String(), sessionOf(session)), nil
}

func (q *request) listSessions() (any, error) {
	id := func(s sessionBody) engine.ID { return s.ID }
	return listPage(q, "sessions", sessionOf, id, func(page engine.Page) ([]engine.Session, error) {
		return q.api.engine.ListSessions(q.Context(), q.Caller, engine.SessionQuery{Origin: engine.OriginNative, Page: page})
	})
}

func (q *request) getSession(core *engine.Service) (any, error) {
	session, err := core.GetSession(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	b := sessionOf(session)
	if session.Kind == engine.SessionLive && q.api.Live != nil {
		info, err := q.api.Live.Info(q.Context(), q.Caller, q.id)
		if err != nil {
			return nil, err
		}
		b.Live = liveOf(info)
	}
	return b, nil
}

func (q *request) sessionFiles(core *engine.Service) (any, error) {
	files, places, err := core.SessionFiles(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	list := make([]sessionFileBody, 0, len(files))
	for i, f := range files {
		f.Path = places[i].Path
		list = append(list, sessionFileBody{fileBody: fileOf(f), Role: places[i].Role, ReadOnly: places[i].ReadOnly})
	}
	return map[string]any{"files": list}, nil
}

// errNoLive reports that the service keeps no interpreters.
var errNoLive = &engine.Error{Kind: engine.ErrUnavailable, Hint: "This service has no live sessions."}

// createLive creates a live session from the other fields of a request.
func (q *request) createLive(body *rest.Object) (any, error) {
	req := live.Request{
		Origin:   engine.OriginNative,
		Language: body.Text("language"),
		Packages: body.Text("python_packages"),
		Image:    body.Text("image"),
		Wall:     engine.Wall(body.Text("wall")),
		Mounts:   readMounts(body),
		Volumes:  readVolumes(body),
		Network:  readNetwork(body),
		Secrets:  readSecrets(body),
		TTL:      body.Seconds("ttl_seconds"),
		Files:    readFileRefs(body),
		Limits:   readLimits(body.Object("limits")),
	}
	if err := body.Done(); err != nil {
		return nil, err
	}
	if q.api.Live == nil {
		return nil, errNoLive
	}
	session, err := q.api.Live.Create(q.Context(), q.Caller, req)
	return rest.Created("/sessions/"+session.ID.String(), sessionOf(session)), err
}

// answerInput answers the input() of the running cell.
func (q *request) answerInput(on live.Sessions) (any, error) {
	body := q.Object()
	text := body.NeedText("text")
	if err := body.Done(); err != nil {
		return nil, err
	}
	return nil, on.Answer(q.Context(), q.Caller, q.id, text)
}

func (q *request) complete(on live.Sessions) (any, error) {
	body := q.Object()
	code, cursor := readCursor(body)
	if err := body.Done(); err != nil {
		return nil, err
	}
	c, err := on.Complete(q.Context(), q.Caller, q.id, code, cursor)
	return client.Completion{Matches: append([]string{}, c.Matches...), Start: c.Start, End: c.End}, err
}

// readCursor reads code and a position in it. The default is its end.
func readCursor(body *rest.Object) (code string, cursor int) {
	code = body.NeedText("code")
	end := utf8.RuneCountInString(code)
	return code, int(body.UpTo("cursor", int64(end), int64(end)))
}

func (q *request) inspect(on live.Sessions) (any, error) {
	body := q.Object()
	code, cursor := readCursor(body)
	detail := body.UpTo("detail", 1, 0)
	if err := body.Done(); err != nil {
		return nil, err
	}
	found, err := on.Inspect(q.Context(), q.Caller, q.id, code, cursor, int(detail))
	if err != nil {
		return nil, err
	}
	if found.Data == nil {
		found.Data = mimeBody{}
	}
	return client.Inspection(found), nil
}

func (q *request) isComplete(on live.Sessions) (any, error) {
	body := q.Object()
	code := body.NeedText("code")
	if err := body.Done(); err != nil {
		return nil, err
	}
	status, indent, err := on.IsComplete(q.Context(), q.Caller, q.id, code)
	return map[string]string{"status": status, "indent": indent}, err
}

func variableOf(v live.Variable) client.Variable { return client.Variable(v) }

// maxArchive limits the content of an archive, in bytes. The files of a larger session have to be
// downloaded one by one.
const maxArchive = 8 << 30

// sessionArchive sends the files of a session as a zip while it is made, so
// it costs neither memory nor disk, whatever its size.
func (q *request) sessionArchive(core *engine.Service) (any, error) {
	files, places, err := core.SessionFiles(q.Context(), q.Caller, q.id)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if total > maxArchive {
		return nil, rest.Refuse(http.StatusRequestEntityTooLarge, string(engine.ErrTooLarge),
			"the session has %d bytes, an archive at most %d", total, int64(maxArchive))
	}
	rest.AsDownload(q.W.Header(), "session-"+q.id.String()+".zip", "application/zip")
	q.W.Header().Set("Cache-Control", "no-store")
	q.W.WriteHeader(http.StatusOK)
	if q.Method == http.MethodHead {
		return rest.Answer{}, nil
	}
	out := zip.NewWriter(q.W)
	var names archive.Names
	var lost []string
	paths := make([]string, len(files))
	for i := range files {
		paths[i] = places[i].Path
	}
	left, note := outputrules.LeftOut(paths, q.URL.Query().Get("held") == "true")
	for i, f := range files {
		if left[i] {
			continue
		}
		f.Path = paths[i]
		err := q.api.pack(q.Context(), out, &names, q.Caller, f)
		if engine.KindOf(err) == engine.ErrNotFound {
			lost = append(lost, f.Path)
			continue
		}
		if err != nil {
			// The status was sent. Only a connection that is cut can report now that the archive is
			// incomplete.
			q.api.Log.WarnContext(q.Context(), "archive not finished", "session", q.id, "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	if note != "" {
		if err := packNote(out, outputrules.NoteName(paths), note); err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if len(lost) > 0 {
		comment := fmt.Sprintf("%d files are lost: %s", len(lost), strings.Join(lost, ", "))
		_ = out.SetComment(strings.ToValidUTF8(comment[:min(len(comment), 60_000)], ""))
	}
	if err := out.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return rest.Answer{}, nil
}

func (a *api) pack(
	ctx context.Context, out *zip.Writer, names *archive.Names, caller engine.Caller, f engine.File,
) error {
	if clean, err := engine.CleanPath(f.Path); err != nil || clean != f.Path {
		return engine.ErrNotFound // the engine has checked every path; the archive must not have an unsafe one
	}
	_, content, err := a.engine.OpenFile(ctx, caller, f.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	entry, err := out.CreateHeader(&zip.FileHeader{Name: names.Name(f.Path), Method: zip.Deflate,
		Modified: f.CreatedAt.UTC()})
	if err != nil {
		return err
	}
	n, err := io.Copy(entry, content)
	if err == nil && n != f.Size {
		err = io.ErrUnexpectedEOF
	}
	return err
}

// packNote adds a file that lists what the archive leaves out, and why.
func packNote(out *zip.Writer, name, note string) error {
	entry, err := out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Now().UTC()})
	if err != nil {
		return err
	}
	_, err = io.WriteString(entry, note)
	return err
}
