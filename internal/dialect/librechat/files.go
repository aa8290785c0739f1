package librechat

import (
	"cmp"
	"context"
	"encoding/hex"
	"errors"
	"net/http"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// objectBody is a file of a session with every name under which some client
// looks for a part of it.
type objectBody struct {
	Name         string    `json:"name"` // sid/fid.ext, or the real path
	ID           string    `json:"id"`
	FileID       string    `json:"fileId"`
	Filename     string    `json:"filename"`
	StorageID    string    `json:"storage_session_id"`
	SessionID    string    `json:"session_id"`
	Size         int64     `json:"size"`
	LastModified string    `json:"lastModified"`
	ETag         string    `json:"etag"`
	ContentType  string    `json:"contentType"`
	ReadOnly     bool      `json:"read_only,omitempty"`
	VersionID    *string   `json:"versionId"`
	Metadata     *metadata `json:"metadata,omitempty"`
}

type metadata struct {
	ContentType string `json:"content-type"`
	Name        string `json:"original-filename"`
	Encoding    string `json:"original-filename-encoded"`
}

// objectReply is a single object.
type objectReply struct {
	objectBody
	OriginalFilename string `json:"originalFilename"`
	ReadOnlyToo      bool   `json:"readOnly"`
}

// objectName returns the name of an object in the store of the first servers.
func objectName(sid string, id engine.ID, name string) string {
	return sid + "/" + id.String() + path.Ext(path.Base(name))
}

// describeObject describes a file. Clients take the time of the last use for the age of a file, so
// that used files are not too old.
func describeObject(sid string, f engine.File, at engine.SessionFile) objectBody {
	name := nameAt(f, at)
	return objectBody{
		Name: objectName(sid, f.ID, name), ID: f.ID.String(), FileID: f.ID.String(), Filename: name,
		StorageID: sid, SessionID: sid, Size: f.Size, ETag: hex.EncodeToString(f.SHA256[:16]), ContentType: f.MIME,
		LastModified: f.ExpiresAt.Add(-f.TTL).UTC().Format("2006-01-02T15:04:05.000Z"), ReadOnly: at.ReadOnly,
		Metadata: &metadata{ContentType: f.MIME, Name: name, Encoding: "none"},
	}
}

// oldClient ends the connection with the answer. LibreChat gives these requests
// up after seconds, and versions of it then leave a connection behind on which
// a later program is thought to hang.
func oldClient(w http.ResponseWriter) { w.Header().Set("Connection", "close") }

func (a *api) listFiles(w http.ResponseWriter, r *http.Request) error {
	oldClient(w)
	caller, err := a.caller(r)
	if err != nil {
		return err
	}
	s, err := queryScope(r)
	if err := cmp.Or(err, a.checkUser(caller, s.user)); err != nil {
		return err
	}
	detail := r.URL.Query().Get("detail")
	sid, known, err := parseID(r.PathValue("sid"))
	switch {
	case err != nil:
		return err
	case !known:
		return a.unknownSession(w, detail)
	}
	for _, holder := range s.holders(caller) {
		session, files, places, err := a.engine.UseSession(r.Context(), holder, sid)
		switch {
		case errors.Is(err, engine.ErrNotFound):
			continue
		case err != nil:
			return err
		case !s.admits(caller, session) && sharedOwner(caller.Owner) != "":
			return errForbidden()
		case !s.admits(caller, session):
			return a.unknownSession(w, detail)
		}
		files, places = a.whole(r.Context(), files, places)
		writeJSON(w, http.StatusOK, listing(detail, r.PathValue("sid"), files, places))
		return nil
	}
	return a.unknownSession(w, detail)
}

// whole removes the files whose bytes are lost, so that clients upload them again. It
// overwrites the lists.
func (a *api) whole(
	ctx context.Context, files []engine.File, places []engine.SessionFile,
) ([]engine.File, []engine.SessionFile) {
	kept := 0
	for i := range files {
		if !a.engine.HasContent(ctx, &files[i]) {
			continue
		}
		if kept < i {
			files[kept], places[kept] = files[i], places[i]
		}
		kept++
	}
	return files[:kept], places[:kept]
}

// unknownSession answers for a session that does not exist. Current clients upload again after 404,
// older ones fail.
func (a *api) unknownSession(w http.ResponseWriter, detail string) error {
	answer := a.UnknownSession
	if answer == UnknownAuto && detail == "summary" {
		answer = UnknownNotFound
	}
	switch answer {
	case UnknownNotFound:
		return refuse(http.StatusNotFound, "Session not found")
	case UnknownForbidden:
		return errForbidden()
	}
	writeJSON(w, http.StatusOK, []objectBody{})
	return nil
}

// listing returns the list of a session in one of its levels of detail, in order of name.
func listing(detail, sid string, files []engine.File, places []engine.SessionFile) any {
	objects := make([]objectBody, 0, len(files))
	aliases := make(map[engine.ID][]string, len(files))
	for i, f := range files {
		aliases[f.ID] = append(aliases[f.ID], places[i].Path)
	}
	for i, f := range files {
		object := describeObject(sid, f, places[i])
		if hidden(object.Filename, nil) && places[i].Role != engine.RoleInput || isAlias(places[i].Path, aliases[f.ID]) {
			continue
		}
		if detail == "normalized" {
			object.Name = object.Filename
		}
		objects = append(objects, object)
	}
	slices.SortFunc(objects, func(a, b objectBody) int {
		return cmp.Or(strings.Compare(a.Filename, b.Filename), strings.Compare(a.ID, b.ID))
	})
	switch detail {
	case "summary", "full", "normalized":
		return objects
	}
	names := []string{}
	for _, object := range objects {
		names = append(names, object.Name)
	}
	return names
}

// isAlias reports whether a path is the base64 of another path of the file.
func isAlias(path string, all []string) bool {
	return slices.ContainsFunc(all, func(other string) bool { return isBase64Of(path, other) })
}

// named finds the file that an address names.
func (a *api) named(r *http.Request) (engine.Caller, *place, error) {
	caller, err := a.caller(r)
	if err != nil {
		return caller, nil, err
	}
	s, err := queryScope(r)
	if err := cmp.Or(err, a.checkUser(caller, s.user)); err != nil {
		return caller, nil, err
	}
	sid, knownSession, err := parseID(r.PathValue("sid"))
	if err != nil {
		return caller, nil, err
	}
	fid, knownFile, err := parseFileID(r.PathValue("fid"))
	if err != nil {
		return caller, nil, err
	}
	if !knownSession || !knownFile {
		return caller, nil, errNoFile()
	}
	found, err := a.find(r.Context(), caller, s, sid, fid)
	return caller, found, err
}

func (p *place) holder(caller engine.Caller) engine.Caller {
	caller.Owner = p.file.Owner
	return caller
}

// noFile translates the engine's error for a file that does not exist.
func noFile(err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return errNoFile()
	}
	return err
}

// object describes a file. LibreChat asks before each turn, and uploads missing files again: so a
// file whose bytes are lost is missing.
func (a *api) object(w http.ResponseWriter, r *http.Request) error {
	oldClient(w)
	caller, found, err := a.named(r)
	if err != nil {
		return err
	}
	_, content, err := a.engine.OpenFile(r.Context(), found.holder(caller), found.file.ID)
	if err != nil {
		return noFile(err)
	}
	content.Close()
	body := describeObject(r.PathValue("sid"), found.file, found.at)
	writeJSON(w, http.StatusOK, objectReply{objectBody: body, OriginalFilename: body.Filename, ReadOnlyToo: body.ReadOnly})
	return nil
}

func (a *api) download(w http.ResponseWriter, r *http.Request) error {
	oldClient(w)
	caller, found, err := a.named(r)
	if err != nil {
		return err
	}
	file, content, err := a.engine.OpenFile(r.Context(), found.holder(caller), found.file.ID)
	if err != nil {
		return noFile(err)
	}
	defer content.Close()
	name := found.name()
	h := w.Header()
	asDownload(h, name, file.MIME)
	h.Set("X-Original-Filename", url.PathEscape(name))
	h.Set("Etag", `"`+hex.EncodeToString(file.SHA256[:16])+`"`)
	if found.at.ReadOnly {
		h.Set("X-Read-Only", strconv.FormatBool(true))
	}
	http.ServeContent(w, r, "", time.Time{}, content)
	return nil
}

func (a *api) deleteFile(w http.ResponseWriter, r *http.Request) error {
	oldClient(w)
	caller, found, err := a.named(r)
	if err != nil {
		return err
	}
	if err := a.engine.DeleteFile(r.Context(), found.holder(caller), found.file.ID); err != nil {
		return noFile(err)
	}
	writeJSON(w, http.StatusOK, struct {
		Message string `json:"message"`
		Session string `json:"session_id"`
		File    string `json:"fileId"`
	}{"File deleted successfully", r.PathValue("sid"), r.PathValue("fid")})
	return nil
}

// asDownload answers with a file. LibreChat looks at its bytes.
func asDownload(h http.Header, name, mimeType string) {
	wire.Download(h, "attachment; filename*="+wire.ExtendedValue(path.Base(name)), wire.SafeType(mimeType))
}
