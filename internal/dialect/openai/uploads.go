package openai

import (
	"bytes"
	"crypto/md5"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// An upload in parts is a file that describes it. Its parts are files with its id as their
// name. All of them are deleted when it is completed or cancelled, or an hour after their
// last use.
const (
	uploadPrefix = "upload_"
	partPrefix   = "part_"
	uploadName   = "upload.json"
	uploadTTL    = time.Hour
	maxPart      = 64 << 20
)

type upload struct {
	Bytes        int64           `json:"bytes"`
	Filename     string          `json:"filename"`
	Purpose      string          `json:"purpose"`
	MIME         string          `json:"mime_type"` // unused: the engine detects it
	ExpiresAfter json.RawMessage `json:"expires_after,omitempty"`
}

func (u *upload) body(kept engine.File, status string, file any) map[string]any {
	return map[string]any{
		"id": uploadPrefix + kept.ID.String(), "object": "upload", "bytes": u.Bytes, "filename": u.Filename,
		"purpose": u.Purpose, "created_at": kept.CreatedAt.Unix(), "expires_at": kept.CreatedAt.Add(uploadTTL).Unix(),
		"status": status, "file": file,
	}
}

func (q *request) createUpload() (any, error) {
	var u upload
	err := q.readJSON(&u)
	switch {
	case err != nil:
		return nil, err
	case u.Filename == "":
		return nil, required("filename")
	case u.Bytes < 1 || u.Bytes > q.MaxUpload:
		return nil, invalid("bytes", "invalid_value", "Invalid 'bytes': it must be between 1 and %d.", q.MaxUpload)
	case len(u.ExpiresAfter) > 0:
		return nil, errExpiry
	}
	if err := checkPurpose(u.Purpose); err != nil {
		return nil, err
	}
	kept, err := q.Engine.PutFile(q.Context(), q.caller,
		engine.Upload{Name: uploadName, Origin: engine.OriginUpload, TTL: uploadTTL}, bytes.NewReader(encode(u)))
	return u.body(kept, "pending", nil), err
}

// uploadHere returns the upload that the request names.
func (q *request) uploadHere() (kept engine.File, u upload, err error) {
	notThere := notFound("Upload '%.80s' not found: it was completed or cancelled, or is over.", q.PathValue("id"))
	id, err := parseID(uploadPrefix, q.PathValue("id"))
	if err == nil {
		kept, err = q.readStored(id, engine.OriginUpload, uploadName, &u)
	}
	return kept, u, missing(err, notThere)
}

func (q *request) addPart() (any, error) {
	kept, _, err := q.uploadHere()
	if err != nil {
		return nil, err
	}
	var part engine.File
	_, err = q.readForm("data", func(_ string, content io.Reader) (err error) {
		up := engine.Upload{Name: kept.ID.String(), Origin: engine.OriginUpload, TTL: uploadTTL}
		up.Max = min(maxPart, q.MaxUpload)
		part, err = q.Engine.PutFile(q.Context(), q.caller, up, content)
		return err
	})
	switch {
	case err != nil:
		return nil, err
	case part.ID.IsZero():
		return nil, required("data")
	}
	return map[string]any{
		"id": partPrefix + part.ID.String(), "object": "upload.part", "created_at": part.CreatedAt.Unix(),
		"upload_id": q.PathValue("id"),
	}, nil
}

func (q *request) completeUpload() (any, error) {
	kept, u, err := q.uploadHere()
	if err != nil {
		return nil, err
	}
	var body struct {
		Parts []string `json:"part_ids"`
		MD5   string   `json:"md5"`
	}
	if err := q.readJSON(&body); err != nil {
		return nil, err
	}
	whole, err := q.join(kept, u, body.Parts)
	if err != nil {
		return nil, err
	}
	defer whole.Close()
	sum := md5.New()
	made, err := q.Engine.PutFile(q.Context(), q.caller,
		engine.Upload{Name: cleanName(u.Filename), Origin: engine.OriginOpenAI, Max: q.MaxUpload}, io.TeeReader(whole, sum))
	if err != nil {
		return nil, err
	}
	if body.MD5 != "" && !strings.EqualFold(body.MD5, hex.EncodeToString(sum.Sum(nil))) {
		_ = q.Engine.DeleteFile(q.Context(), q.caller, made.ID) // else it expires
		return nil, invalid("md5", "invalid_value", "The uploaded parts do not have this MD5 sum.")
	}
	return u.body(kept, "completed", fileBody(made)), q.discard(kept.ID)
}

// join returns a reader of all parts of an upload.
func (q *request) join(kept engine.File, u upload, names []string) (*parts, error) {
	p, size := &parts{request: q}, int64(0)
	for _, name := range names {
		id, err := parseID(partPrefix, name)
		var part engine.File
		if err == nil {
			part, err = q.Engine.GetFile(q.Context(), q.caller, id)
		}
		if err == nil && (part.Origin != engine.OriginUpload || part.Name != kept.ID.String()) {
			err = &engine.Error{Op: "find part", Kind: engine.ErrNotFound, ID: name}
		}
		if err != nil {
			return nil, missing(err, invalid("part_ids", "invalid_value", "There is no part '%.80s' of this upload.", name))
		}
		p.ids, size = append(p.ids, id), size+part.Size
	}
	if size != u.Bytes {
		return nil, invalid("part_ids", "invalid_value", "The parts have %d bytes, and the upload was to have %d.", size,
			u.Bytes)
	}
	return p, nil
}

// parts reads files one after the other. One is open at a time.
type parts struct {
	*request
	ids []engine.ID
	now engine.Content
}

func (p *parts) Read(b []byte) (n int, err error) {
	for {
		if p.now == nil {
			if len(p.ids) == 0 {
				return 0, io.EOF
			}
			if _, p.now, err = p.Engine.OpenFile(p.Context(), p.caller, p.ids[0]); err != nil {
				p.now = nil
				return 0, err
			}
			p.ids = p.ids[1:]
		}
		if n, err = p.now.Read(b); n > 0 || err != io.EOF { //nolint:errorlint // as io.Reader has it
			return n, err
		}
		p.Close()
	}
}

func (p *parts) Close() error {
	if p.now != nil {
		p.now.Close()
	}
	p.now = nil
	return nil
}

func (q *request) cancelUpload() (any, error) {
	kept, u, err := q.uploadHere()
	if err == nil {
		err = q.discard(kept.ID)
	}
	return u.body(kept, "cancelled", nil), err
}

// discard deletes an upload and its parts.
func (q *request) discard(id engine.ID) error {
	files, err := q.filesOf(engine.OriginUpload)
	for _, f := range files {
		if f.ID == id || f.Name == id.String() {
			err = errors.Join(err, missing(q.Engine.DeleteFile(q.Context(), q.caller, f.ID), nil))
		}
	}
	return err
}
