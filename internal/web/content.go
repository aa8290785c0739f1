package web

import (
	"archive/zip"
	"cmp"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/archive"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
	"github.com/airlock-run/airlock/workspace"
)

// shownImages are the types that a browser may show as a picture. SVG is not one of them:
// it is a document, and can have scripts.
var shownImages = map[string]bool{
	"image/png": true, "image/jpeg": true, "image/gif": true, "image/webp": true, "image/bmp": true,
}

// filePolicy disables scripts, gives an opaque origin and blocks loading for a file that is
// opened by itself.
const filePolicy = "sandbox; default-src 'none'; frame-ancestors 'none'"

// content serves a file. Pages can show pictures. Other files are only downloaded, and
// never with a type that runs, such as HTML, SVG or scripts.
func (p *filesPage) content(w http.ResponseWriter, v *webRequest) error {
	id, err := v.id()
	if err != nil {
		return err
	}
	file, content, err := p.Engine.OpenFile(v.Context(), v.caller, id)
	if err != nil {
		return err
	}
	defer content.Close()
	serveFile(w, v, file, file.SHA256.String(), content)
	return nil
}

// serveFile serves the content of a file with its hash as ETag.
func serveFile(w http.ResponseWriter, v *webRequest, file engine.File, hash string, content io.ReadSeeker) {
	kind, name := safeType(file.MIME), fileName(file)
	if shownImages[kind] && !v.URL.Query().Has("download") {
		name = ""
	}
	untrusted(w, kind, name)
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("ETag", `"`+hash+`"`)
	http.ServeContent(w, v.Request, "", file.CreatedAt, content)
}

// safeType returns the type of a file for browsers: a picture, plain text, or bytes.
func safeType(given string) string {
	base, _, err := mime.ParseMediaType(given)
	switch {
	case err != nil:
	case shownImages[base]:
		return base
	case strings.HasPrefix(base, "text/"), base == "application/json":
		return "text/plain; charset=utf-8"
	}
	return "application/octet-stream"
}

// untrusted sets the headers of content that this package did not make. A browser saves it
// under its name, or shows it without one.
func untrusted(w http.ResponseWriter, kind, name string) {
	h := w.Header()
	h.Set("Content-Security-Policy", filePolicy)
	h.Set("Content-Type", kind)
	if name != "" {
		h.Set("Content-Disposition", wire.Attachment(name))
	}
}

// fileName returns a file's path in its session, else its name.
func fileName(f engine.File) string {
	return cmp.Or(f.Path, f.Name)
}

// maxArchive bounds the content of one archive in bytes.
const maxArchive = 8 << 30

// archive sends files as a zip while it makes it, so that it needs little memory and no
// disk.
func (p *filesPage) archive(w http.ResponseWriter, v *webRequest, name string, files []engine.File) error {
	var total int64
	for _, f := range files {
		total += f.Size
	}
	if total > maxArchive {
		return refuse(http.StatusRequestEntityTooLarge, "These files have "+byteCount(total)+", an archive at most "+
			byteCount(maxArchive)+".", "Download them one by one.")
	}
	untrusted(w, "application/zip", name)
	w.WriteHeader(http.StatusOK)
	out := zip.NewWriter(w)
	paths := make([]string, len(files))
	for i, f := range files {
		paths[i] = fileName(f)
	}
	left, note := workspace.LeftOut(paths, v.URL.Query().Get("held") == "true")
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
		entry, err := out.CreateHeader(&zip.FileHeader{Name: workspace.NoteName(paths), Method: zip.Deflate,
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
	_, note := workspace.LeftOut(names, false)
	return note != ""
}

func (p *filesPage) pack(v *webRequest, out *zip.Writer, names *archive.Names, f engine.File) error {
	name, err := engine.CleanPath(fileName(f))
	if err != nil {
		return engine.ErrNotFound // the engine has checked every path
	}
	_, content, err := p.Engine.OpenFile(v.Context(), v.caller, f.ID)
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
