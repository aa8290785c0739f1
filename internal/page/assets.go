package page

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"strconv"
	"strings"
	"sync"
)

// assets are the style sheets, the scripts and the icon. Their directory is named by a hash
// of all of them, so that browsers can cache them forever, and that scripts import each
// other by their names.
type assets struct {
	base    string // "/ui/static/"
	version string
	files   map[string]asset // by name, without .gz
}

type asset struct {
	kind   string
	packed func() []byte // the content, compressed by gzip
}

var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func loadAssets(base string, files []fs.FS) (*assets, error) {
	a := &assets{base: base, files: map[string]asset{}}
	all := sha256.New()
	for _, from := range files {
		if err := a.add(from, all); err != nil {
			return nil, err
		}
	}
	a.version = hex.EncodeToString(all.Sum(nil)[:6])
	return a, nil
}

// add adds the files of one part, and their contents to a hash.
func (a *assets) add(files fs.FS, all io.Writer) error {
	entries, err := fs.ReadDir(files, "static")
	if err != nil {
		return err
	}
	for _, e := range entries {
		content, err := fs.ReadFile(files, "static/"+e.Name())
		if err != nil {
			return err
		}
		fmt.Fprintf(all, "%s %d\n%s", e.Name(), len(content), content)
		packed := sync.OnceValue(func() []byte { return pack(content) })
		name, compressed := strings.CutSuffix(e.Name(), ".gz")
		if compressed {
			packed = func() []byte { return content }
		}
		a.files[name] = asset{assetTypes[path.Ext(name)], packed}
	}
	return nil
}

func pack(content []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid one
	_, _ = z.Write(content)
	_ = z.Close() // a buffer takes everything
	return out.Bytes()
}

// URL returns the address of a file. A wrong name in a template fails when the template
// is first executed.
func (a *assets) URL(name string) (string, error) {
	if _, ok := a.files[name]; !ok {
		return "", fmt.Errorf("there is no static/%s", name)
	}
	return a.base + a.version + "/" + name, nil
}

// ServeHTTP serves the files to any caller: they have no secrets.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.files[r.PathValue("name")]
	if !ok {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("Vary", "Accept-Encoding")
	if r.PathValue("version") == a.version { // else it is of a node with another version
		h.Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	if strings.HasPrefix(r.PathValue("name"), "viewer-") { // for frames, whose origin is opaque
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	content := file.packed()
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		h.Set("Content-Length", strconv.Itoa(len(content)))
		_, _ = w.Write(content)
		return
	}
	if plain, err := gzip.NewReader(bytes.NewReader(content)); err == nil {
		_, _ = io.Copy(w, plain)
	}
}
