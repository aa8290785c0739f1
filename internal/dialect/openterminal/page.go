package openterminal

import (
	"archive/zip"
	"cmp"
	_ "embed"
	"errors"
	"io"
	"net/http"
	"net/http/httputil"
	"path"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/archive"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// Requests of the page.

var config = map[string]any{"features": map[string]bool{"terminal": true, "notebooks": false, "system": true}}

// systemPrompt precedes each turn of a chat.
const systemPrompt = `You have a computer: a Linux sandbox of your own, with bash, Python 3 and Node.js.
Your files are in ` + home + ` (also /home/user), which is kept between chats; /tmp is not, and the rest is read-only.
There is no network: downloads, pip install and npm install fail. Use what is installed.
Commands go on when an answer comes without an exit code: ask for their status again. Programs of the background end
when nobody has used the computer for half an hour; files stay.`

//go:embed openapi.json
var openAPI []byte

// description answers with the OpenAPI document, whose operations become tools of the model.
func description(q *request) (any, error) {
	q.w.Header().Set("Content-Type", "application/json")
	_, err := q.w.Write(openAPI)
	return answered{}, err
}

// maxFolders bounds the number of remembered working directories of an owner.
const maxFolders = 1000

func (q *request) workingFolder() (any, error) {
	return map[string]any{"cwd": q.cwd(), "home": home, "root": map[string]string{"path": home, "label": "Home"}}, nil
}

func (q *request) changeFolder(body struct{ Path string }) (any, error) {
	f, err := q.existing(q.absolute(body.Path, q.cwd()), "directory")
	if err != nil {
		return nil, err
	}
	q.folders.Put(q.caller.Owner, place{q.caller.Owner, q.chat}, f.Path)
	return map[string]string{"cwd": f.Path}, nil
}

func (q *request) viewFile() (any, error) { return q.serve(q.query.Get("path")) }

// serveFile serves relative links of a displayed page.
func (q *request) serveFile() (any, error) { return q.serve("/" + q.PathValue("path")) }

func (q *request) serve(name string) (any, error) {
	f, err := q.existing(q.absolute(name, home), "file")
	if err != nil {
		return nil, err
	}
	return q.send(f)
}

func (q *request) upload() (any, error) {
	folder := q.absolute(q.query.Get("directory"), home)
	form, err := q.MultipartReader()
	if err != nil {
		return nil, wrong("missing", "body", "file", "Field required", nil)
	}
	for {
		part, err := form.NextPart()
		switch {
		case err == io.EOF:
			return nil, wrong("missing", "body", "file", "Field required", nil)
		case err != nil:
			return nil, wire.Refuse(http.StatusBadRequest, "The form cannot be read to its end.")
		case part.FormName() != "file":
			continue
		}
		name := path.Base(strings.ReplaceAll(part.FileName(), `\`, "/"))
		if name == "." || name == "/" || name == ".." {
			return nil, wire.Refuse(http.StatusBadRequest, "The file has no name.")
		}
		return q.store(path.Join(folder, name), http.MaxBytesReader(q.w, io.NopCloser(part), q.MaxUpload))
	}
}

func (q *request) makeFolder(body struct{ Path string }) (any, error) {
	absolute := q.absolute(body.Path, home)
	_, err := q.live.MakeFolder(q.Context(), q.caller, q.workspace, absolute)
	return map[string]string{"path": absolute}, err
}

// named finds a file to move or remove: a link itself, not its target.
func (q *request) named(absolute string) (found, error) {
	e, err := q.live.StatFile(q.Context(), q.caller, q.workspace, absolute)
	if errors.Is(err, engine.ErrNotFound) || errors.Is(err, engine.ErrInvalid) {
		return found{}, wire.Refuse(http.StatusNotFound, "Path not found: %s", absolute)
	}
	if absolute == home {
		return found{}, wire.Refuse(http.StatusForbidden, "%s cannot be changed: only what is in it can.", absolute)
	}
	return found{e, true}, err
}

func (q *request) deleteFile() (any, error) {
	absolute := q.absolute(q.query.Get("path"), home)
	f, err := q.named(absolute)
	if err != nil {
		return nil, err
	}
	err = q.live.RemoveFile(q.Context(), q.caller, q.workspace, absolute, true)
	return map[string]string{"path": absolute, "type": f.kind()}, err
}

func (q *request) moveFile(body struct{ Source, Destination string }) (any, error) {
	from, to := q.absolute(body.Source, home), q.absolute(body.Destination, home)
	if _, err := q.named(from); err != nil {
		return nil, err
	}
	if f, err := q.locate(path.Dir(to)); err != nil || !f.exists {
		return nil, cmp.Or(err,
			wire.Refuse(http.StatusBadRequest, "Destination parent directory not found: %s", path.Dir(to)))
	}
	_, err := q.live.MoveFile(q.Context(), q.caller, q.workspace, from, to, false)
	if errors.Is(err, engine.ErrConflict) {
		return nil, wire.Refuse(http.StatusConflict, "Destination already exists: %s", to)
	}
	return map[string]string{"source": from, "destination": to}, err
}

// deepest bounds the depth of an archive.
const deepest = 64

func (q *request) archive(body struct{ Paths []string }) (any, error) {
	if len(body.Paths) == 0 {
		return nil, wire.Refuse(http.StatusBadRequest, "No paths provided")
	}
	var files []packed
	title := "download"
	for _, name := range body.Paths {
		f, err := q.existing(q.absolute(name, home), "")
		if err != nil {
			return nil, err
		}
		base := strings.Replace(path.Base(f.Path), "/", "dir", 1)
		if len(body.Paths) == 1 {
			title = base
		}
		if f.kind() == "file" {
			files = append(files, packed{f.Entry, base})
			continue
		}
		all, more, err := q.live.ListFiles(q.Context(), q.caller, q.workspace, f.Path, deepest)
		if err != nil {
			return nil, err
		}
		if more {
			return nil, wire.Refuse(http.StatusRequestEntityTooLarge, "%s has too many files for one archive.", f.Path)
		}
		for _, e := range all {
			if e.Kind == engine.EntryFile {
				files = append(files, packed{e, path.Join(base, strings.TrimPrefix(e.Path, f.Path))})
			}
		}
	}
	h := q.w.Header()
	h.Set("Content-Type", "application/zip")
	h.Set("Content-Disposition", wire.Attachment(title+".zip"))
	out, names := zip.NewWriter(q.w), archive.Names{}
	for _, f := range files {
		f.name = names.Name(f.name)
		if err := q.pack(out, &f); err != nil {
			panic(http.ErrAbortHandler) // a partial archive must not look complete
		}
	}
	if out.Close() != nil {
		panic(http.ErrAbortHandler)
	}
	return answered{}, nil
}

// packed is a file for an archive, by its name in it: relative to the folder of the path that was
// asked for.
type packed struct {
	engine.Entry
	name string
}

func (q *request) pack(out *zip.Writer, f *packed) error {
	_, file, err := q.live.OpenFile(q.Context(), q.caller, q.workspace, f.Path)
	if errors.Is(err, engine.ErrNotFound) {
		return nil // a program has removed it concurrently
	}
	if err != nil {
		return err
	}
	defer file.Close()
	header := &zip.FileHeader{Name: f.name, Method: zip.Deflate, Modified: f.Modified}
	header.SetMode(f.Mode.Perm())
	to, err := out.CreateHeader(header)
	if err == nil {
		_, err = io.Copy(to, file)
	}
	return err
}

func (q *request) ports() (any, error) {
	type row struct {
		Port    int     `json:"port"`
		PID     *int    `json:"pid"` // a program does not see processes of other programs
		Process *string `json:"process"`
	}
	open, err := q.live.Ports(q.Context(), q.caller, q.workspace)
	list := []row{}
	for _, port := range open {
		list = append(list, row{Port: port})
	}
	return map[string]any{"ports": list}, err
}

// proxy passes a request on to a server of the user's sandbox.
func (q *request) proxy() (any, error) {
	number, err := strconv.ParseUint(q.PathValue("port"), 10, 16)
	if err != nil || number == 0 {
		return nil, wire.Refuse(http.StatusUnprocessableEntity, "Port must be between 1 and 65535")
	}
	conn, err := q.live.DialPort(q.Context(), q.caller, q.workspace, int(number))
	if errors.Is(err, engine.ErrConflict) {
		return nil, wire.Refuse(http.StatusNotFound, "Port not found")
	}
	if err != nil {
		return nil, err
	}
	to := &wire.Port{Conn: conn, Number: int(number), Log: q.Log}
	to.Request = func(p *httputil.ProxyRequest) {
		below := "/proxy/" + q.PathValue("port")
		p.Out.URL.Path, p.Out.URL.RawPath = strings.TrimPrefix(p.In.URL.Path, below),
			strings.TrimPrefix(p.In.URL.RawPath, below)
	}
	to.Response = func(resp *http.Response) { wire.Confine(resp.Header) }
	to.Failed = func(http.ResponseWriter) {
		q.fail(q.w, q.Request, wire.Refuse(http.StatusBadGateway, "Connection refused: %s", to.Local()))
	}
	to.ServeHTTP(q.w, q.Request)
	return answered{}, nil
}
