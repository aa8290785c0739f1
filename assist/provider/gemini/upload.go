package gemini

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"path"
	"strconv"
	"strings"

	"google.golang.org/genai"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// upload is a resumable upload under way: a start, parts with their offsets, the last with
// "finalize", and after a failure a query for the received size.
type upload struct {
	c   *Client
	op  string
	url string
}

// Upload implements provider.FileStore. It holds one part in memory.
func (f files) Upload(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	u, err := exchange.Upload(f.c, u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	if u.MIME == "" {
		if u.MIME, _, _ = strings.Cut(mime.TypeByExtension(path.Ext(u.Name)), ";"); u.MIME == "" {
			u.MIME = "application/octet-stream"
		}
	}
	up := &upload{c: f.c, op: "upload " + u.Name}
	if err := up.start(ctx, u); err != nil {
		return provider.FileInfo{}, err
	}
	file, err := up.content(ctx, u)
	if err != nil {
		return provider.FileInfo{}, err
	}
	return f.ready(ctx, describe(file))
}

// content sends the parts. The answer to the last one has the file.
func (u *upload) content(ctx context.Context, in provider.Upload) (*genai.File, error) {
	content := in.Reader()
	part, next := make([]byte, u.c.options.PartSize), make([]byte, 1)
	n, err := io.ReadFull(content, part)
	for offset := int64(0); ; {
		// One more byte tells whether this part is the last.
		more := 0
		if err == nil {
			more, err = io.ReadFull(content, next)
		}
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, &provider.Error{Kind: provider.Invalid, Provider: provider.Gemini, Op: u.op,
				Message: "the file cannot be read", Err: err}
		}
		file, failed := u.part(ctx, part[:n], offset, more == 0)
		if failed != nil || more == 0 {
			return file, failed
		}
		offset += int64(n)
		part[0] = next[0]
		n, err = io.ReadFull(content, part[1:])
		n++
	}
}

// start gets the address for the parts.
func (u *upload) start(ctx context.Context, in provider.Upload) error {
	about, err := json.Marshal(map[string]any{"file": map[string]string{"displayName": in.Name, "mimeType": in.MIME}})
	if err != nil {
		return provider.Failed(provider.Gemini, u.op, err)
	}
	header := map[string]string{"Content-Type": "application/json", "X-Goog-Upload-Protocol": "resumable",
		"X-Goog-Upload-Header-Content-Type": in.MIME}
	if in.Size >= 0 {
		header["X-Goog-Upload-Header-Content-Length"] = strconv.FormatInt(in.Size, 10)
	}
	u.url = "/upload/" + apiVersion + "/files"
	a, err := u.send(ctx, "start", about, header)
	if err != nil {
		return err
	}
	if u.url, err = u.c.beside(a.Header.Get("X-Goog-Upload-URL")); err != nil {
		return &provider.Error{Kind: provider.Transient, Provider: provider.Gemini, Op: u.op,
			Message: "the service did not say where to upload to", Err: err}
	}
	return nil
}

// beside returns an address of the service with the host of the client's URL: a proxy may be
// the only way, and the key must not go to another host.
func (c *Client) beside(address string) (string, error) {
	given, err := url.Parse(address)
	if err != nil {
		return "", err
	}
	base, err := url.Parse(c.options.URL)
	if err != nil {
		return "", err
	}
	if address == "" || given.Path == "" {
		return "", errors.New("no address")
	}
	given.Scheme, given.Host = base.Scheme, base.Host
	return given.String(), nil
}

// part sends a part, and after a failure the missing rest of it.
func (u *upload) part(ctx context.Context, data []byte, offset int64, last bool) (file *genai.File, err error) {
	failed := false
	err = u.c.options.Retry.Do(ctx, func(ctx context.Context) error {
		from := int64(0)
		if failed {
			received, done, err := u.received(ctx)
			if err != nil {
				return err
			}
			if done != nil {
				file = done
				return nil
			}
			from = received - offset
			if from < 0 || from > int64(len(data)) {
				return &provider.Error{Kind: provider.Invalid, Provider: provider.Gemini, Op: u.op,
					Message: "the service lost what was sent before"}
			}
			if from == int64(len(data)) && !last {
				return nil
			}
		}
		var err error
		file, err = u.sendPart(ctx, data[from:], offset+from, last)
		failed = err != nil
		return err
	})
	if err != nil && last { // it may have arrived
		if e, ok := errors.AsType[*provider.Error](err); ok {
			e.Ambiguous = true
		}
	}
	return file, err
}

func (u *upload) sendPart(ctx context.Context, data []byte, offset int64, last bool) (*genai.File, error) {
	command := "upload"
	if last {
		command = "upload, finalize"
	}
	a, err := u.send(ctx, command, data, map[string]string{"X-Goog-Upload-Offset": strconv.FormatInt(offset, 10)})
	if err != nil || !last {
		return nil, err
	}
	return u.file(a.Data)
}

// received returns the received size, or the file if the upload is complete.
func (u *upload) received(ctx context.Context) (int64, *genai.File, error) {
	a, err := u.send(ctx, "query", nil, nil)
	if err != nil {
		return 0, nil, err
	}
	if a.Header.Get("X-Goog-Upload-Status") == "final" {
		file, err := u.file(a.Data)
		return 0, file, err
	}
	n, err := strconv.ParseInt(a.Header.Get("X-Goog-Upload-Size-Received"), 10, 64)
	if err != nil {
		return 0, nil, provider.Failed(provider.Gemini, u.op, err)
	}
	return n, nil, nil
}

// file decodes the answer to a complete upload.
func (u *upload) file(body []byte) (*genai.File, error) {
	var w struct {
		File *genai.File `json:"file"`
	}
	if err := json.Unmarshal(body, &w); err != nil || w.File == nil || w.File.Name == "" {
		return nil, &provider.Error{Kind: provider.Transient, Provider: provider.Gemini, Op: u.op,
			Message: "the answer to the upload has no file in it", Err: err, Ambiguous: true}
	}
	return w.File, nil
}

func (u *upload) send(
	ctx context.Context, command string, body []byte, header map[string]string,
) (*exchange.Answer, error) {
	r, err := u.c.rest.Request(ctx, u.op, http.MethodPost, u.url, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("X-Goog-Upload-Command", command)
	for name, value := range header {
		r.Header.Set(name, value)
	}
	return u.c.rest.Fetch(u.op, r)
}
