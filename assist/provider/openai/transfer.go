package openai

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"mime"
	"net/url"
	"path"
	"strconv"
	"time"

	sdk "github.com/openai/openai-go/v3"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// This file transfers content. The SDK would build each multipart body in memory.

// singleLimit is the largest file that POST /files accepts.
const singleLimit = 512 << 20

func (f files) Upload(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	u, err := exchange.Upload(f.c, u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	if u.Purpose == "" {
		u.Purpose = string(sdk.FilePurposeUserData)
	}
	if u.MIME == "" {
		if u.MIME = mime.TypeByExtension(path.Ext(u.Name)); u.MIME == "" {
			u.MIME = "application/octet-stream"
		}
	}
	if u.Size >= 0 && (u.Size > f.c.options.PartsOver || u.Size > singleLimit) {
		return f.parts(ctx, u)
	}
	fields := []provider.Field{{Name: "purpose", Value: u.Purpose}}
	if u.TTL > 0 {
		fields = append(fields, provider.Field{Name: "expires_after[anchor]", Value: "created_at"},
			provider.Field{Name: "expires_after[seconds]", Value: strconv.FormatInt(int64(u.TTL/time.Second), 10)})
	}
	var o sdk.FileObject
	if err := f.c.post(ctx, "upload "+u.Name, "/files", fields, "file", u, &o); err != nil {
		return provider.FileInfo{}, err
	}
	return f.info(&o), nil
}

// post sends a form, whose file it streams, and decodes the answer.
func (c *Client) post(
	ctx context.Context, op, where string, fields []provider.Field, field string, u provider.Upload, into any,
) error {
	a, err := c.rest.Upload(ctx, op, where, fields, field, u)
	if err != nil {
		return err
	}
	err = json.Unmarshal(a.Data, into)
	var made struct{ ID string }
	if err == nil && (json.Unmarshal(a.Data, &made) != nil || made.ID == "") {
		err = fmt.Errorf("an answer without an id: %.200s", a.Data)
	}
	if err != nil {
		return provider.Failed(provider.OpenAI, op, err)
	}
	return nil
}

// parts sends a large file in parts, each of which is retried if it can be read again. A
// failed upload is cancelled; the service deletes it after an hour anyhow.
func (f files) parts(ctx context.Context, u provider.Upload) (info provider.FileInfo, err error) {
	op := "upload " + u.Name
	p := sdk.UploadNewParams{Bytes: u.Size, Filename: u.Name, MimeType: u.MIME, Purpose: sdk.FilePurpose(u.Purpose)}
	if u.TTL > 0 {
		p.ExpiresAfter = sdk.UploadNewParamsExpiresAfter{Seconds: int64(u.TTL / time.Second)}
	}
	up, err := f.c.sdk.Uploads.New(ctx, p)
	if err != nil {
		return info, f.c.failed(op, err)
	}
	var ids []string
	for at := int64(0); at < u.Size; at += f.c.options.PartSize {
		id, err := f.part(ctx, u, up.ID, at)
		if err != nil {
			_, _ = f.c.sdk.Uploads.Cancel(context.WithoutCancel(ctx), up.ID)
			return info, err
		}
		ids = append(ids, id)
	}
	done, err := f.c.sdk.Uploads.Complete(ctx, up.ID, sdk.UploadCompleteParams{PartIDs: ids})
	if err != nil {
		return info, f.c.failed(op, err)
	}
	return f.info(&done.File), nil
}

func (f files) part(ctx context.Context, u provider.Upload, upload string, at int64) (id string, err error) {
	size := min(f.c.options.PartSize, u.Size-at)
	var begin int64
	seeker, again := u.Body.(io.Seeker)
	if again {
		if begin, err = seeker.Seek(0, io.SeekCurrent); err != nil {
			again = false
		}
	}
	once := func(ctx context.Context) error {
		if again {
			if _, err := seeker.Seek(begin, io.SeekStart); err != nil {
				return err
			}
		}
		body := provider.NewAttemptReader(u.Body)
		defer body.Revoke()
		var made struct{ ID string }
		piece := provider.Upload{Name: u.Name, MIME: u.MIME, Size: size,
			Body: io.LimitReader(body, size)}
		if u.Progress != nil {
			piece.Progress = func(sent int64) { u.Progress(at + sent) }
		}
		err := f.c.post(ctx, "upload "+u.Name, "/uploads/"+upload+"/parts", nil, "data", piece, &made)
		id = made.ID
		return err
	}
	if !again {
		err = once(ctx)
		return id, err
	}
	err = f.c.options.Retry.Do(ctx, once)
	return id, err
}

func (f files) Open(ctx context.Context, r provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	where := "/files/" + url.PathEscape(r.ID) + "/content"
	if r.Scope == provider.ScopeSession {
		where = "/containers/" + url.PathEscape(r.Session) + where
	}
	body, info, err := f.c.rest.Open(ctx, "fetch "+r.ID, where, r, offset)
	info.Name, info.Origin = path.Base(r.Path), provider.OriginModel
	return body, info, err
}
