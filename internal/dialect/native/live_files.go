package native

import (
	"net/http"
	"path"
	"strconv"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

// Paths are in the query, where they may be any bytes.

// entryBody is an entry of a workspace. A path that is not UTF-8 has U+FFFD in it, and its
// bytes in another field.
type entryBody struct {
	Path       string           `json:"path"`
	PathBytes  []byte           `json:"path_base64,omitempty"`
	Kind       engine.EntryKind `json:"kind"`
	Size       int64            `json:"size"`
	Mode       string           `json:"mode"` // octal, as for chmod
	ModifiedAt string           `json:"modified_at"`
	Target     string           `json:"target,omitempty"`
}

func entryOf(e engine.Entry) entryBody {
	return entryBody{
		Path: e.Path, PathBytes: oddBytes(e.Path), Kind: e.Kind, Size: e.Size,
		Mode: strconv.FormatUint(uint64(e.Mode.Perm()), 8), ModifiedAt: rest.TimeOf(e.Modified), Target: e.Target,
	}
}

// oddBytes returns the bytes of a path that JSON cannot hold, or nil.
func oddBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}

func (q *request) statFile(on live.Sessions) (any, error) {
	entry, err := on.StatFile(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"))
	return entryOf(entry), err
}

func (q *request) listLiveFiles(on live.Sessions) (any, error) {
	depth := 1
	if s := q.URL.Query().Get("depth"); s != "" {
		var err error
		if depth, err = strconv.Atoi(s); err != nil || depth < 1 {
			return nil, rest.Invalid("depth must be a whole number above 0")
		}
	}
	entries, more, err := on.ListFiles(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"), depth)
	if err != nil {
		return nil, err
	}
	return struct {
		Entries []entryBody `json:"entries"`
		More    bool        `json:"more"`
	}{rest.Each(entries, entryOf), more}, nil
}

// readFile sends the bytes of a file. A program that changes the file meanwhile changes the answer.
func (q *request) readFile(on live.Sessions) (any, error) {
	entry, content, err := on.OpenFile(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"))
	if err != nil {
		return nil, err
	}
	defer content.Close()
	rest.AsDownload(q.W.Header(), path.Base(entry.Path), "application/octet-stream")
	q.W.Header().Set("Cache-Control", "no-store")
	http.ServeContent(q.W, q.Request.Request, "", entry.Modified, content)
	return rest.Answer{}, nil
}

// writeFile creates or replaces a file with the bytes of the body.
func (q *request) writeFile(on live.Sessions) (any, error) {
	body := http.MaxBytesReader(q.W, q.Body, q.api.MaxUpload)
	entry, err := on.WriteFile(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"), body)
	return entryOf(entry), err
}

func (q *request) makeFolder(on live.Sessions) (any, error) {
	entry, err := on.MakeFolder(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"))
	return entryOf(entry), err
}

func (q *request) moveFile(on live.Sessions) (any, error) {
	replace, err := rest.ReadFlag(q.Request.Request, "replace")
	if err != nil {
		return nil, err
	}
	query := q.URL.Query()
	entry, err := on.MoveFile(q.Context(), q.Caller, q.id, query.Get("from"), query.Get("to"), replace)
	return entryOf(entry), err
}

func (q *request) removeFile(on live.Sessions) (any, error) {
	recursive, err := rest.ReadFlag(q.Request.Request, "recursive")
	if err != nil {
		return nil, err
	}
	return nil, on.RemoveFile(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"), recursive)
}

type fileEventBody struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_base64,omitempty"`
	From      string `json:"from,omitempty"`
	FromBytes []byte `json:"from_base64,omitempty"`
	Folder    bool   `json:"folder"`
}

// watchFiles sends the changes from now on. The events have no ids: a client that reconnects lists
// the folder again.
func (q *request) watchFiles(on live.Sessions) (any, error) {
	recursive, err := rest.ReadFlag(q.Request.Request, "recursive")
	if err != nil {
		return nil, err
	}
	events, err := on.WatchFiles(q.Context(), q.Caller, q.id, q.URL.Query().Get("path"), recursive)
	if err != nil {
		return nil, err
	}
	return sendStream(q, events, func(b []byte, e engine.FileEvent) ([]byte, bool) {
		return appendFrame(b, "", string(e.Kind), fileEventBody{
			e.Path, oddBytes(e.Path), e.From, oddBytes(e.From), e.Folder}), false
	})
}
