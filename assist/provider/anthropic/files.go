package anthropic

import (
	"cmp"
	"context"
	"encoding/json"
	"io"
	"iter"
	"net/url"
	"strconv"
	"time"

	sdk "github.com/anthropics/anthropic-sdk-go/v2"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// files is the Files API.
type files struct{ p *Client }

func (f files) Upload(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	op := "upload " + u.Name
	u, err := exchange.Upload(f.p, u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	var fields []provider.Field
	if u.TTL > 0 {
		fields = append(fields, provider.Field{Name: "expires_in_seconds",
			Value: strconv.FormatInt(int64(u.TTL/time.Second), 10)})
	}
	a, err := f.p.rest.Upload(ctx, op, "/v1/files", fields, "file", u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	var m sdk.FileMetadata
	if json.Unmarshal(a.Data, &m) != nil || m.ID == "" {
		return provider.FileInfo{}, f.p.refused(op, a.Status, a.Header, a.Data)
	}
	return describe(&m), nil
}

func describe(m *sdk.FileMetadata) provider.FileInfo {
	info := provider.FileInfo{
		Ref:  provider.FileRef{Provider: provider.Anthropic, Scope: provider.ScopeFile, ID: m.ID},
		Name: m.Filename, MIME: m.MimeType, Size: m.SizeBytes, Created: m.CreatedAt, Expires: m.ExpiresAt,
		Origin: provider.OriginUser, State: provider.StateReady,
	}
	if m.Downloadable { // only files that a tool created
		info.Readable, info.Origin = true, provider.OriginModel
	}
	return info
}

func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	m, err := f.p.files.GetMetadata(ctx, r.ID, sdk.FileGetMetadataParams{})
	if err != nil {
		return provider.FileInfo{}, f.p.failed("look for "+r.ID, err)
	}
	return describe(m), nil
}

// List implements provider.FileStore. It reads all pages: the service has no filter and no
// documented order.
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

func (f files) Open(ctx context.Context, ref provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	op := "fetch " + cmp.Or(ref.Path, ref.ID)
	return f.p.rest.Open(ctx, op, "/v1/files/"+url.PathEscape(ref.ID)+"/content", ref, offset)
}

func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	_, err := f.p.files.Delete(ctx, r.ID, sdk.FileDeleteParams{})
	err = f.p.failed("delete "+r.ID, err)
	return provider.Gone(ctx, f, r, err)
}
