package client

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"
)

// File is a name and a lifetime for bytes that the service keeps.
type File struct {
	ID        string    `json:"id"`
	Path      string    `json:"path"` // in the workspace; empty for an upload
	Name      string    `json:"name"`
	Size      int64     `json:"size"`
	MIME      string    `json:"mime"`
	SHA256    string    `json:"sha256"` // 64 hexadecimal digits
	CreatedAt time.Time `json:"created_at"`
	ExpiresAt time.Time `json:"expires_at"`
	Run       string    `json:"run,omitempty"` // that made it; empty: uploaded
}

// Upload stores content under a name for ttl (0: the service's default), and verifies what the
// service has stored. The service counts whole seconds; a fraction counts as a second.
func (c *Client) Upload(ctx context.Context, name string, content io.Reader, ttl time.Duration) (*File, error) {
	switch {
	case content == nil:
		return nil, fmt.Errorf("airlock: upload of %q: there is no content to send: the reader is nil", name)
	case ttl < 0:
		return nil, fmt.Errorf("airlock: upload of %q: the lifetime %v is negative; 0 is the service's default", name, ttl)
	}
	query := url.Values{"name": {name}}
	if ttl > 0 {
		query.Set("ttl_seconds", strconv.FormatInt(seconds(&ttl).count(), 10))
	}
	sent := &counter{hash: sha256.New()}
	r := request{
		method: http.MethodPost, path: "/files", query: query, raw: io.NopCloser(io.TeeReader(content, sent)),
		header: http.Header{"Content-Type": {"application/octet-stream"}},
	}
	if known, ok := content.(interface{ Len() int }); ok { // bytes and strings in memory
		r.length = int64(known.Len())
	}
	var file File
	if err := c.call(ctx, r, &file); err != nil {
		return nil, err
	}
	if file.Size != sent.size || file.SHA256 != sent.sum() {
		return nil, fmt.Errorf("airlock: upload of %q: %d bytes were sent, and the service stored %d others", name, sent.size,
			file.Size)
	}
	return &file, nil
}

// Download writes a file's bytes to w and makes sure that they are the ones
// that were stored. After an error w has some of them, or all.
func (c *Client) Download(ctx context.Context, id string, w io.Writer) (*File, error) {
	if w == nil {
		return nil, errNoWriter
	}
	file, err := c.GetFile(ctx, id)
	if err != nil {
		return nil, err
	}
	resp, err := c.do(ctx, request{method: http.MethodGet, path: "/files/" + segment(id) + "/content"})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	got := &counter{hash: sha256.New()}
	if _, err := io.Copy(io.MultiWriter(w, got), resp.Body); err != nil {
		return nil, fmt.Errorf("airlock: download of %q: %w", file.Name, err)
	}
	if got.size != file.Size || got.sum() != file.SHA256 {
		return nil, fmt.Errorf("airlock: download of %q: the bytes that came are not the ones that were stored", file.Name)
	}
	return file, nil
}

// GetFile returns a file without its content.
func (c *Client) GetFile(ctx context.Context, id string) (*File, error) {
	return fetch[File](ctx, c, get("/files/"+segment(id), nil))
}

// ListFiles returns files, and the After of the next page, which is empty
// after the last.
func (c *Client) ListFiles(ctx context.Context, page Page) (files []File, next string, err error) {
	return list[File](ctx, c, "/files", "files", page.query())
}

// AllFiles yields files as ListFiles returns them, over as many pages as necessary. An error ends the sequence.
func (c *Client) AllFiles(ctx context.Context) iter.Seq2[File, error] {
	return everyPage(func(page Page) ([]File, string, error) { return c.ListFiles(ctx, page) })
}

// DeleteFile forgets a file.
func (c *Client) DeleteFile(ctx context.Context, id string) error {
	return c.call(ctx, del("/files/"+segment(id)), nil)
}

// counter is a writer that counts and hashes.
type counter struct {
	hash interface {
		io.Writer
		Sum([]byte) []byte
	}
	size int64
}

func (c *counter) Write(p []byte) (int, error) {
	c.size += int64(len(p))
	return c.hash.Write(p)
}

func (c *counter) sum() string { return hex.EncodeToString(c.hash.Sum(nil)) }
