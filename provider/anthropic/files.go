package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/airlock-run/airlock/provider"
)

// files is the Files API.
type files struct{ p *Client }

// request prepares a call that does not go through the SDK.
func (f files) request(ctx context.Context, method, path string, body io.Reader) (*http.Request, error) {
	r, err := http.NewRequestWithContext(ctx, method, f.p.base+path, body)
	if err != nil {
		return nil, err
	}
	r.Header.Set("Authorization", "Bearer "+f.p.key)
	r.Header.Set("anthropic-version", apiVersion)
	return r, nil
}

// Upload implements provider.FileStore.
func (f files) Upload(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	op := "upload " + u.Name
	var fields []provider.Field
	if u.TTL > 0 {
		fields = append(fields, provider.Field{Name: "expires_in_seconds",
			Value: strconv.FormatInt(int64(u.TTL.Seconds()), 10)})
	}
	body, kind, length, err := provider.Form(fields, "file", u)
	if err != nil {
		return provider.FileInfo{}, provider.Failed(f.p.Name(), op, err)
	}
	r, err := f.request(ctx, http.MethodPost, "/v1/files", body)
	if err != nil {
		return provider.FileInfo{}, provider.Failed(f.p.Name(), op, err)
	}
	r.ContentLength = length
	r.Header.Set("Content-Type", kind)
	resp, err := f.p.http.Do(r)
	if err != nil {
		return provider.FileInfo{}, provider.Failed(f.p.Name(), op, err)
	}
	defer resp.Body.Close()
	answer, err := io.ReadAll(io.LimitReader(resp.Body, mostError))
	if err != nil {
		return provider.FileInfo{}, provider.Failed(f.p.Name(), op, err)
	}
	var m sdk.FileMetadata
	if resp.StatusCode/100 != 2 || json.Unmarshal(answer, &m) != nil || m.ID == "" {
		return provider.FileInfo{}, f.p.refused(op, resp.StatusCode, resp.Header, answer)
	}
	return describe(&m), nil
}

func describe(m *sdk.FileMetadata) provider.FileInfo {
	info := provider.FileInfo{
		Ref:  provider.FileRef{Provider: provider.Anthropic, Scope: provider.ScopeFile, ID: m.ID},
		Name: m.Filename, MIME: m.MimeType, Size: m.SizeBytes, Created: m.CreatedAt, Expires: m.ExpiresAt,
		Origin: provider.OriginUser, State: provider.StateReady,
	}
	if m.Downloadable { // only what a tool has made is
		info.Readable, info.Origin = true, provider.OriginModel
	}
	return info
}

// Stat implements provider.FileStore.
func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	m, err := f.p.files.GetMetadata(ctx, r.ID, sdk.FileGetMetadataParams{})
	if err != nil {
		return provider.FileInfo{}, f.p.failed("look for "+r.ID, err)
	}
	return describe(m), nil
}

// List implements provider.FileStore. The service has no filter and no order that
// could be relied on: all pages are gone through.
func (f files) List(ctx context.Context, filter provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		pages := f.p.files.ListAutoPaging(ctx, sdk.FileListParams{Limit: sdk.Int(1000)})
		for seen := map[string]bool{}; pages.Next(); {
			m := pages.Current()
			if seen[m.ID] {
				yield(provider.FileInfo{}, provider.Repeats(f.p.Name(), "list files"))
				return
			}
			seen[m.ID] = true
			if filter.Name != "" && m.Filename != filter.Name || m.CreatedAt.Before(filter.CreatedAfter) {
				continue
			}
			if !yield(describe(&m), nil) {
				return
			}
		}
		if err := pages.Err(); err != nil {
			yield(provider.FileInfo{}, f.p.failed("list files", err))
		}
	}
}

// Open implements provider.FileStore.
func (f files) Open(ctx context.Context, ref provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	info := provider.FileInfo{Ref: ref, Size: -1}
	op := "fetch " + cmp.Or(ref.Path, ref.ID)
	r, err := f.request(ctx, http.MethodGet, "/v1/files/"+url.PathEscape(ref.ID)+"/content", nil)
	if err != nil {
		return nil, info, provider.Failed(f.p.Name(), op, err)
	}
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := f.p.http.Do(r)
	if err != nil {
		return nil, info, provider.Failed(f.p.Name(), op, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		answer, _ := io.ReadAll(io.LimitReader(resp.Body, mostError)) // half an error is one too
		return nil, info, f.p.refused(op, resp.StatusCode, resp.Header, answer)
	}
	body, size, err := provider.Body(resp, offset)
	info.Size, info.MIME, info.Readable = size, resp.Header.Get("Content-Type"), true
	return body, info, err
}

// Delete implements provider.FileStore.
func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	_, err := f.p.files.Delete(ctx, r.ID, sdk.FileDeleteParams{})
	err = f.p.failed("delete "+r.ID, err)
	return provider.Gone(ctx, f, r, err)
}
