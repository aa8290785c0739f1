package web

import (
	"archive/zip"
	"cmp"
	"errors"
	"io"
	"net/http"

	"github.com/airlock-run/airlock/internal/archive"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/outputrules"
	"github.com/airlock-run/airlock/internal/page"
)

// content serves a file.
func (p *filesPage) content(w http.ResponseWriter, v *page.Request) error {
	id, err := v.ID()
	if err != nil {
		return err
	}
	file, content, err := p.Engine.OpenFile(v.Context(), v.Caller, id)
	if err != nil {
		return err
	}
	defer content.Close()
	page.ServeContent(w, v, infoOf(file), file.SHA256.String(), file.CreatedAt, content)
	return nil
}

// infoOf returns what the page shows of a file.
func infoOf(f engine.File) page.File { return page.File{Name: fileName(f), MIME: f.MIME, Size: f.Size} }

// fileName returns a file's path in its session, else its name.
func fileName(f engine.File) string {
	return cmp.Or(f.Path, f.Name)
}

// maxArchive bounds the content of one archive in bytes.
const maxArchive = 8 << 30

// archive sends files as a zip while it makes it, so that it needs little memory and no
// disk.
func (p *filesPage) archive(w http.ResponseWriter, v *page.Request, name string, files []engine.File) error {
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if total > maxArchive {
		return page.Refuse(http.StatusRequestEntityTooLarge,
			"These files have "+page.ByteCount(total)+", an archive at most "+
				page.ByteCount(maxArchive)+".", "Download them one by one.")
	}
	page.Untrusted(w, "application/zip", name)
	w.WriteHeader(http.StatusOK)
	out := zip.NewWriter(w)
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = fileName(f)
	}
	left, note := outputrules.LeftOut(paths, v.URL.Query().Get("held") == "true")
	var names archive.Names
	for i, f := range files {
		if left[i] {
			continue
		}
		err := p.pack(v, out, &names, f)
		if err != nil && !errors.Is(err, engine.ErrNotFound) {
			// The status was sent. Only a cut connection can still say that the archive is
			// incomplete.
			p.Log.WarnContext(v.Context(), "archive not finished", "err", err)
			panic(http.ErrAbortHandler)
		}
	}
	if note != "" {
		entry, err := out.CreateHeader(&zip.FileHeader{Name: outputrules.NoteName(paths), Method: zip.Deflate,
			Modified: p.Now().UTC()})
		if err == nil {
			_, err = io.WriteString(entry, note)
		}
		if err != nil {
			panic(http.ErrAbortHandler)
		}
	}
	if err := out.Close(); err != nil {
		panic(http.ErrAbortHandler)
	}
	return nil
}

// leavesOut reports whether the archive of files leaves some of them out.
func leavesOut(files []fileView) bool {
	names := make([]string, len(files))
	for i, f := range files {
		names[i] = fileName(f.File)
	}
	_, note := outputrules.LeftOut(names, false)
	return note != ""
}

func (p *filesPage) pack(v *page.Request, out *zip.Writer, names *archive.Names, f engine.File) error {
	name, err := engine.CleanPath(fileName(f))
	if err != nil {
		return engine.ErrNotFound // the engine has checked every path
	}
	_, content, err := p.Engine.OpenFile(v.Context(), v.Caller, f.ID)
	if err != nil {
		return err
	}
	defer content.Close()
	entry, err := out.CreateHeader(&zip.FileHeader{Name: names.Name(name), Method: zip.Deflate,
		Modified: f.CreatedAt.UTC()})
	if err != nil {
		return err
	}
	_, err = io.Copy(entry, content)
	return err
}
