package client

import (
	"context"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/sse"
)

// LiveEntry is something in the workspace of a live session.
type LiveEntry struct {
	Path       string    `json:"path"`                  // relative to the workspace
	PathBytes  []byte    `json:"path_base64,omitempty"` // of a path that is not UTF-8
	Kind       string    `json:"kind"`                  // "file", "folder", "link", "other"
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"` // octal
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty"` // of a link
}

// ListLiveFiles returns what is in a folder of a live session's workspace, down to a
// depth, and whether there is more. An empty path is the workspace.
func (c *Client) ListLiveFiles(
	ctx context.Context, session, path string, depth int,
) (entries []LiveEntry, more bool, err error) {
	var out struct {
		Entries []LiveEntry `json:"entries"`
		More    bool        `json:"more"`
	}
	query := url.Values{"path": {path}, "depth": {strconv.Itoa(max(depth, 1))}}
	err = c.call(ctx, get(sessionPath(session, "/fs/list"), query), &out)
	return out.Entries, out.More, err
}

// StatLiveFile returns what is known of a path.
func (c *Client) StatLiveFile(ctx context.Context, session, path string) (*LiveEntry, error) {
	return fetch[LiveEntry](ctx, c, get(sessionPath(session, "/fs/stat"), url.Values{"path": {path}}))
}

// ReadLiveFile writes the bytes of a file to w, as they are now.
func (c *Client) ReadLiveFile(ctx context.Context, session, path string, w io.Writer) error {
	return c.save(ctx, get(sessionPath(session, "/fs/read"), url.Values{"path": {path}}), w)
}

// WriteLiveFile makes or replaces a file: all of it at once, or nothing.
func (c *Client) WriteLiveFile(ctx context.Context, session, path string, content io.Reader) (*LiveEntry, error) {
	return c.changeFiles(ctx, session, "write", url.Values{"path": {path}}, content)
}

// MakeLiveFolder makes a folder and those above it.
func (c *Client) MakeLiveFolder(ctx context.Context, session, path string) (*LiveEntry, error) {
	return c.changeFiles(ctx, session, "mkdir", url.Values{"path": {path}}, nil)
}

// MoveLiveFile renames a file or a folder. What has the new name is in the way,
// unless it is to be replaced.
func (c *Client) MoveLiveFile(ctx context.Context, session, from, to string, replace bool) (*LiveEntry, error) {
	return c.changeFiles(ctx, session, "move", url.Values{"from": {from}, "to": {to},
		"replace": {strconv.FormatBool(replace)}}, nil)
}

func (c *Client) changeFiles(
	ctx context.Context, session, what string, query url.Values, content io.Reader,
) (*LiveEntry, error) {
	r := request{method: http.MethodPost, path: sessionPath(session, "/fs/"+what), query: query, raw: content}
	return fetch[LiveEntry](ctx, c, r)
}

// RemoveLiveFile removes a file, or a folder; one that is not empty only if it is
// recursive.
func (c *Client) RemoveLiveFile(ctx context.Context, session, path string, recursive bool) error {
	query := url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}
	return c.call(ctx, request{method: http.MethodPost, path: sessionPath(session, "/fs/remove"), query: query}, nil)
}

// FileEvent is a change in the workspace of a live session.
type FileEvent struct {
	Type   string `json:"-"` // "created", "modified", "deleted", "moved"; "overflow": some are missing, list again
	Path   string `json:"path"`
	From   string `json:"from,omitempty"` // of moved
	Folder bool   `json:"folder"`
}

// WatchLiveFiles yields what changes in a folder from now on, until ctx ends or the
// loop is left. What happens while there is no connection is not told.
func (c *Client) WatchLiveFiles(ctx context.Context, session, path string, recursive bool) iter.Seq2[FileEvent, error] {
	query := url.Values{"path": {path}, "recursive": {strconv.FormatBool(recursive)}}
	return stream(ctx, c, get(sessionPath(session, "/fs/watch"), query), func(f sse.Event) (FileEvent, bool, error) {
		e := FileEvent{Type: f.Type}
		return e, false, decode(f, &e)
	})
}
