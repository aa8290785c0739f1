package web

import (
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed static
var staticFiles embed.FS

// assets are the style sheets, the scripts and the icon. Each is served under a name with a
// hash of its content, so that browsers can cache it forever. Scripts import each other by
// those names.
type assets struct {
	base   string            // "/ui/static/"
	names  map[string]string // run.js -> run.1a2b3c4d5e6f.js
	served map[string]asset  // by the name with the hash
}

type asset struct {
	kind   string
	plain  func() []byte
	packed func() []byte // made on first use; nil if gzip saves nothing
}

var assetTypes = map[string]string{
	".css": "text/css; charset=utf-8", ".js": "text/javascript; charset=utf-8", ".svg": "image/svg+xml",
}

func loadAssets(base string) (*assets, error) {
	a := &assets{base: base, names: map[string]string{}, served: map[string]asset{}}
	entries, err := fs.ReadDir(staticFiles, "static")
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		if err := a.add(e.Name(), nil); err != nil {
			return nil, err
		}
	}
	return a, nil
}

var imported = regexp.MustCompile(`(?:from|import)\s*"\./([a-z-]+\.js)"`)

// add adds a file. The files that it imports must be added first.
func (a *assets) add(name string, within []string) error {
	if a.names[name] != "" {
		return nil
	}
	if slices.Contains(within, name) {
		return fmt.Errorf("static/%s imports itself, by way of %s", name, strings.Join(within, ", "))
	}
	content, err := staticFiles.ReadFile("static/" + name)
	if err != nil {
		return err
	}
	name, compressed := strings.CutSuffix(name, ".gz")
	kind := assetTypes[path.Ext(name)]
	if kind == "" {
		return fmt.Errorf("static/%s has a type that is not known", name)
	}
	if path.Ext(name) == ".js" && !compressed {
		for _, m := range imported.FindAllSubmatch(content, -1) {
			if err := a.add(string(m[1]), append(within, name)); err != nil {
				return err
			}
		}
		content = imported.ReplaceAllFunc(content, func(statement []byte) []byte {
			file := string(imported.FindSubmatch(statement)[1])
			return bytes.Replace(statement, []byte(`"./`+file+`"`), []byte(`"./`+a.names[file]+`"`), 1)
		})
	}
	hash := sha256.Sum256(content)
	ext := path.Ext(name)
	hashed := strings.TrimSuffix(name, ext) + "." + hex.EncodeToString(hash[:6]) + ext
	a.names[name] = hashed
	whole, small := func() []byte { return content }, sync.OnceValue(func() []byte { return packed(content) })
	if compressed { // few browsers ask for it uncompressed
		whole, small = func() []byte { return unpacked(content) }, func() []byte { return content }
	}
	a.served[hashed] = asset{kind: kind, plain: whole, packed: small}
	return nil
}

// unpacked decompresses a file; nil if it is damaged.
func unpacked(content []byte) []byte {
	z, err := gzip.NewReader(bytes.NewReader(content))
	if err != nil {
		return nil
	}
	plain, err := io.ReadAll(z)
	if err != nil {
		return nil
	}
	return plain
}

func packed(content []byte) []byte {
	var out bytes.Buffer
	z, _ := gzip.NewWriterLevel(&out, gzip.BestCompression) // the level is a valid one
	if _, err := z.Write(content); err != nil || z.Close() != nil || out.Len() >= len(content) {
		return nil
	}
	return out.Bytes()
}

// address returns the address of a file. A wrong name in a template fails when the template
// is first executed.
func (a *assets) address(name string) (string, error) {
	hashed, ok := a.names[name]
	if !ok {
		return "", fmt.Errorf("there is no static/%s", name)
	}
	return a.base + hashed, nil
}

// ServeHTTP serves the files to any caller: they have no secrets.
func (a *assets) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	file, ok := a.served[r.PathValue("name")]
	if !ok {
		http.Error(w, "There is no such file.", http.StatusNotFound)
		return
	}
	h := w.Header()
	h.Set("Content-Type", file.kind)
	h.Set("Cache-Control", "public, max-age=31536000, immutable")
	h.Set("Vary", "Accept-Encoding")
	var body []byte
	if strings.HasPrefix(r.PathValue("name"), "viewer-") { // for frames, whose origin is opaque
		h.Set("Cross-Origin-Resource-Policy", "cross-origin")
	}
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		if small := file.packed(); small != nil {
			h.Set("Content-Encoding", "gzip")
			body = small
		}
	}
	if body == nil {
		body = file.plain()
	}
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method != http.MethodHead {
		_, _ = w.Write(body)
	}
}
