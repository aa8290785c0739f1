package native

import (
	"archive/zip"
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
	"github.com/airlock-run/airlock/workspace"
)

// maxArchive bounds one archive's content in bytes: what more there is has to
// be fetched file by file.
const maxArchive = 8 << 30

// sessionArchive sends the files of a session as a zip while it is made, so
// it costs neither memory nor disk, whatever its size.
func (q *request) sessionArchive(core *engine.Service) (any, error) {
	files, places, err := core.SessionFiles(q.Context(), q.caller, q.id)
	if err != nil {
		return nil, err
	}
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if total > maxArchive {
		return nil, refuse(http.StatusRequestEntityTooLarge, string(engine.ErrTooLarge),
			"the session has %d bytes, an archive at most %d", total, int64(maxArchive))
	}
	asDownload(q.w.Header(), "session-"+q.id.String()+".zip", "application/zip")
	q.w.Header().Set("Cache-Control", "no-store")
	q.w.WriteHeader(http.StatusOK)
	if q.Method == http.MethodHead {
		return answer{}, nil
	}
	out := zip.NewWriter(q.w)
	var names wire.ArchiveNames
	var lost []string
	paths := make([]string, len(files))
	for i := range files {
		paths[i] = places[i].Path
	}
	left, note := workspace.LeftOut(paths, q.URL.Query().Get("held") == "true")
	for i, f := range files {
		if left[i] {
			continue
		}
		f.Path = paths[i]
		err := q.pack(q.Context(), out, &names, q.caller, f)
		if engine.KindOf(err) == engine.ErrNotFound {
			lost = append(lost, f.Path)
			continue
		}
		if err != nil {
			// The status is out. A connection that is cut is the only way left
			// to say that this is not the whole.
			q.Log.WarnContext(q.Context(), "archive not finished", "session", q.id, "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	if note != "" {
		if err := packNote(out, workspace.NoteName(paths), note); err != nil {
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
	return answer{}, nil
}

func (a *api) pack(
	ctx context.Context, out *zip.Writer, names *wire.ArchiveNames, caller engine.Caller, f engine.File,
) error {
	if clean, err := engine.CleanPath(f.Path); err != nil || clean != f.Path {
		return engine.ErrNotFound // the engine has checked every path; nobody unpacks one that slipped through
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

// packNote adds what the archive leaves out, and why.
func packNote(out *zip.Writer, name, note string) error {
	entry, err := out.CreateHeader(&zip.FileHeader{Name: name, Method: zip.Deflate, Modified: time.Now().UTC()})
	if err != nil {
		return err
	}
	_, err = io.WriteString(entry, note)
	return err
}
