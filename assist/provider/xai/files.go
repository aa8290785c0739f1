package xai

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// files is the Files API.
type files struct{ c *Client }

// file is a file of the service.
type file struct {
	ID      string `json:"id"`
	Name    string `json:"filename"`
	Bytes   int64  `json:"bytes"`
	Created int64  `json:"created_at"`
	Expires *int64 `json:"expires_at"`
}

func (f file) describe() provider.FileInfo {
	info := provider.FileInfo{
		Ref:  provider.FileRef{Provider: provider.XAI, Scope: provider.ScopeFile, ID: f.ID},
		Name: f.Name, Size: f.Bytes, Created: time.Unix(f.Created, 0).UTC(),
		Origin: provider.OriginUser, Readable: true, State: provider.StateReady,
	}
	if f.Expires != nil && *f.Expires > 0 {
		info.Expires = time.Unix(*f.Expires, 0).UTC()
	}
	return info
}

// Upload implements provider.FileStore. The service requires the lifetime before the file.
func (f files) Upload(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	op := "upload " + u.Name
	u, err := exchange.Upload(f.c, u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	var fields []provider.Field
	if u.TTL > 0 {
		fields = append(fields, provider.Field{Name: "expires_after", Value: strconv.FormatInt(int64(u.TTL/time.Second), 10)})
	}
	a, err := f.c.rest.Upload(ctx, op, "/files", fields, "file", u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	var made file
	if err := f.c.decode(op, a, &made); err != nil {
		return provider.FileInfo{}, err
	}
	if made.ID == "" {
		return provider.FileInfo{}, &provider.Error{Kind: provider.Transient, Provider: provider.XAI, Op: op,
			Message: "the answer to the upload has no id", Ambiguous: true}
	}
	info := made.describe()
	info.MIME = u.MIME
	return info, nil
}

func (f files) path(id string) string { return "/files/" + url.PathEscape(id) }

func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	var got file
	if err := f.c.call(ctx, "look for "+r.ID, http.MethodGet, f.path(r.ID), nil, &got); err != nil {
		return provider.FileInfo{}, err
	}
	return got.describe(), nil
}

// pageSize is the service's largest page.
const pageSize = 100

// List implements provider.FileStore. Every page has a token: the end is a page that is not
// full, or a repeated token.
func (f files) List(ctx context.Context, filter provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		seen := map[string]bool{}
		for token := ""; ; {
			query := url.Values{"limit": {strconv.Itoa(pageSize)}, "order": {"desc"}, "sort_by": {"created_at"}}
			if token != "" {
				query.Set("pagination_token", token)
			}
			var page struct {
				Data  []file `json:"data"`
				Token string `json:"pagination_token"`
			}
			if err := f.c.call(ctx, "list files", http.MethodGet, "/files?"+query.Encode(), nil, &page); err != nil {
				yield(provider.FileInfo{}, err)
				return
			}
			for _, item := range page.Data {
				info := item.describe()
				// Times are whole seconds here.
				if filter.Name != "" && info.Name != filter.Name || info.Created.Before(filter.CreatedAfter.Truncate(time.Second)) {
					continue
				}
				if !yield(info, nil) {
					return
				}
			}
			token = page.Token
			if len(page.Data) < pageSize || token == "" || seen[token] {
				return
			}
			seen[token] = true
		}
	}
}

func (f files) Open(ctx context.Context, ref provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	return f.c.rest.Open(ctx, "fetch "+ref.ID, f.path(ref.ID)+"/content?format=original", ref, offset)
}

func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	err := f.c.call(ctx, "delete "+r.ID, http.MethodDelete, f.path(r.ID), nil, nil)
	return provider.Gone(ctx, f, r, err)
}
