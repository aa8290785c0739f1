package native

import (
	"net/http"
	"path"
	"strconv"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
)

// Paths are in the query, where they may be any bytes.

// entryBody is something in a workspace. A path that is not UTF-8 has U+FFFD in it,
// and its bytes beside it.
type entryBody struct {
	Path       string           `json:"path"`
	PathBytes  []byte           `json:"path_base64,omitempty"`
	Kind       engine.EntryKind `json:"kind"`
	Size       int64            `json:"size"`
	Mode       string           `json:"mode"` // octal, as chmod takes it
	ModifiedAt string           `json:"modified_at"`
	Target     string           `json:"target,omitempty"`
}

func entryOf(e engine.Entry) entryBody {
	return entryBody{
		Path: e.Path, PathBytes: oddBytes(e.Path), Kind: e.Kind, Size: e.Size,
		Mode: strconv.FormatUint(uint64(e.Mode.Perm()), 8), ModifiedAt: timeOf(e.Modified), Target: e.Target,
	}
}

// oddBytes returns the bytes of what JSON cannot hold.
func oddBytes(path string) []byte {
	if utf8.ValidString(path) {
		return nil
	}
	return []byte(path)
}

func (a *api) statFile(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	entry, err := on.StatFile(r.Context(), caller, session, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, entryOf(entry))
	return nil
}

func (a *api) listLiveFiles(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	depth := 1
	if s := r.URL.Query().Get("depth"); s != "" {
		if depth, err = strconv.Atoi(s); err != nil || depth < 1 {
			return invalid("depth must be a whole number above 0")
		}
	}
	entries, more, err := on.ListFiles(r.Context(), caller, session, r.URL.Query().Get("path"), depth)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Entries []entryBody `json:"entries"`
		More    bool        `json:"more"`
	}{each(entries, entryOf), more})
	return nil
}

// readFile sends a file's bytes as they are now. A program that changes it
// meanwhile changes what is sent.
func (a *api) readFile(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	entry, content, err := on.OpenFile(r.Context(), caller, session, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	defer content.Close()
	asDownload(w.Header(), path.Base(entry.Path), "application/octet-stream")
	w.Header().Set("Cache-Control", "no-store")
	http.ServeContent(w, r, "", entry.Modified, content)
	return nil
}

// writeFile makes or replaces a file of the body's bytes.
func (a *api) writeFile(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	body := http.MaxBytesReader(w, r.Body, a.MaxUpload)
	entry, err := on.WriteFile(r.Context(), caller, session, r.URL.Query().Get("path"), body)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, entryOf(entry))
	return nil
}

func (a *api) makeFolder(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	entry, err := on.MakeFolder(r.Context(), caller, session, r.URL.Query().Get("path"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, entryOf(entry))
	return nil
}

func (a *api) moveFile(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	replace, err := readFlag(r, "replace")
	if err != nil {
		return err
	}
	query := r.URL.Query()
	entry, err := on.MoveFile(r.Context(), caller, session, query.Get("from"), query.Get("to"), replace)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, entryOf(entry))
	return nil
}

func (a *api) removeFile(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	recursive, err := readFlag(r, "recursive")
	if err != nil {
		return err
	}
	if err := on.RemoveFile(r.Context(), caller, session, r.URL.Query().Get("path"), recursive); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

type fileEventBody struct {
	Path      string `json:"path"`
	PathBytes []byte `json:"path_base64,omitempty"`
	From      string `json:"from,omitempty"`
	FromBytes []byte `json:"from_base64,omitempty"`
	Folder    bool   `json:"folder"`
}

// watchFiles tells what changes from now on. The events have no ids: a client that
// was away lists again.
func (a *api) watchFiles(w http.ResponseWriter, r *http.Request) error {
	on, caller, session, err := a.inside(r)
	if err != nil {
		return err
	}
	recursive, err := readFlag(r, "recursive")
	if err != nil {
		return err
	}
	events, err := on.WatchFiles(r.Context(), caller, session, r.URL.Query().Get("path"), recursive)
	if err != nil {
		return err
	}
	_, err = sendFrames(w, r, events, func(b []byte, e engine.FileEvent) ([]byte, bool) {
		return appendFrame(b, "", string(e.Kind), fileEventBody{e.Path, oddBytes(e.Path), e.From, oddBytes(e.From), e.Folder}), false
	})
	return err
}
