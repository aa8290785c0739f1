package provider

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"
	"strings"

	"github.com/gabriel-vasile/mimetype"

	"github.com/airlock-run/airlock/internal/idle"
	"github.com/airlock-run/airlock/internal/modelhttp"
)

// fetch downloads an artifact into the quarantine and returns the number of tries.
func (c *Collector) fetch(ctx context.Context, p Provider, a Artifact) (_ Artifact, tries int64, _ error) {
	most := cmp.Or(max(c.MaxBytes, 0), 100<<20)
	if a.Size > most {
		return a, 0, tooLarge(p.Name(), a.Name, most)
	}
	if a.Name == "" && a.Ref.Scope == ScopeFile { // a Stat failed before; without a name the file gets a number
		_ = c.Retry.Do(ctx, func(ctx context.Context) error {
			info, err := p.Files().Stat(ctx, a.Ref)
			if err == nil {
				a.learn(artifactOf(info))
			}
			return err
		})
		if a.Size > most {
			return a, 0, tooLarge(p.Name(), a.Name, most)
		}
	}
	d, err := c.Quarantine.draft()
	if err != nil {
		return a, 0, err
	}
	err = c.Retry.counting(c.Counters, p.Name()).Do(ctx, func(ctx context.Context) error {
		tries++
		return c.fetchOnce(ctx, p, &a, d, most)
	})
	if err != nil {
		return a, tries, errors.Join(err, d.drop())
	}
	sum := mimetype.Detect(d.head)
	if a.MIME == "" || baseType(a.MIME) == "application/octet-stream" {
		a.MIME = sum.String()
	}
	a.Size = d.size
	want := a.SHA256
	if a.SHA256, err = d.keep(); err != nil {
		return a, tries, err
	}
	if want != "" && !strings.EqualFold(want, a.SHA256) {
		return a, tries, errors.Join(&Error{Kind: Transient, Provider: p.Name(), Op: "fetch " + a.Name,
			Message: "the bytes are not those that the provider's hash is of"}, c.Quarantine.Remove(a.SHA256))
	}
	return a, tries, nil
}

// fetchOnce is one attempt. It continues where the last one stopped.
func (c *Collector) fetchOnce(ctx context.Context, p Provider, a *Artifact, d *draft, most int64) (err error) {
	if a.Ref.Scope == ScopeInline {
		if int64(len(a.Ref.Inline)) > most {
			return tooLarge(p.Name(), a.Name, most)
		}
		_, err := d.Write(a.Ref.Inline)
		return err
	}
	from := d.size
	body, info, err := p.Files().Open(ctx, a.Ref, from)
	if e, ok := errors.AsType[*Error](err); ok && e.Status == http.StatusRequestedRangeNotSatisfiable {
		// The draft is not a beginning of the file: start again.
		return join(&Error{Kind: Transient, Provider: p.Name(), Op: "fetch " + a.Name,
			Message: "the rest of the file is not where it was", Err: err}, d.reset())
	}
	if err != nil {
		return err
	}
	body = idle.Body(body, modelhttp.Options{Idle: c.Idle}.Filled().Idle)
	defer body.Close()
	size := a.Size // the size in this answer does not count for the next attempt
	if size < 0 {
		size = info.Size
	}
	a.Name = cmp.Or(a.Name, info.Name)
	a.MIME = cmp.Or(a.MIME, info.MIME)
	if size > most {
		return tooLarge(p.Name(), a.Name, most)
	}
	_, err = io.CopyBuffer(progress{d, func() {
		if c.Progress != nil {
			c.Progress(*a, d.size)
		}
	}}, io.LimitReader(body, most-from+1), make([]byte, 64<<10))
	switch {
	case err != nil && ctx.Err() != nil:
		return ctx.Err()
	case err != nil && errors.Is(err, idle.Err):
		return &Error{Kind: Transient, Provider: p.Name(), Op: "fetch " + a.Name, Message: "the download stalled",
			Err: err}
	case errors.Is(err, errWriting):
		return err
	case err != nil && size >= 0 && d.size >= size: // the file was complete when the connection broke
		return c.whole(p, a, d, size)
	case err != nil: // the next attempt continues from here
		return &Error{Kind: Transient, Provider: p.Name(), Op: "fetch " + a.Name, Message: "the download broke off", Err: err}
	case d.size > most:
		return tooLarge(p.Name(), a.Name, most)
	}
	return c.whole(p, a, d, size)
}

// whole checks whether the draft can be the file. If not, the next attempt starts again:
// the rest from such a server would be useless.
func (c *Collector) whole(p Provider, a *Artifact, d *draft, size int64) error {
	wrong := size >= 0 && d.size != size
	if !wrong && (a.Size >= 0 || !looksLikeError(a.Name, d)) {
		return nil
	}
	e := &Error{Kind: Transient, Provider: p.Name(), Op: "fetch " + a.Name}
	if looksLikeError(a.Name, d) {
		e.Message = "an error came in place of the file: " + string(d.head)
	} else {
		e.Message = fmt.Sprintf("%d bytes came, %d were announced", d.size, size)
	}
	if err := d.reset(); err != nil {
		return err
	}
	return e
}

// looksLikeError recognises a short JSON error that was sent as a file's content: some
// gateways pass on a 404 as a 200 (LiteLLM PR 37737). Code also writes files with an
// "error", so that only the exact forms of providers count.
func looksLikeError(name string, d *draft) bool {
	if d.size == 0 || d.size > 2048 {
		return false
	}
	var body struct {
		Type  string          `json:"type"`
		Error json.RawMessage `json:"error"`
	}
	var fields, inner map[string]json.RawMessage
	if json.Unmarshal(bytes.TrimSpace(d.head), &body) != nil || json.Unmarshal(d.head, &fields) != nil ||
		len(body.Error) == 0 {
		return false
	}
	if json.Unmarshal(body.Error, &inner) != nil { // {"code": ..., "error": "text"}: xAI
		return len(fields) == 2 && fields["code"] != nil && !strings.EqualFold(path.Ext(name), ".json")
	}
	if inner["message"] == nil || inner["type"] == nil && inner["code"] == nil && inner["status"] == nil {
		return false
	}
	// {"error": {...}}: OpenAI, Gemini; {"type": "error", "error": {...}, "request_id": ...}: Anthropic.
	return len(fields) == 1 || body.Type == "error"
}

func tooLarge(name, file string, most int64) error {
	return &Error{Kind: TooLarge, Provider: name, Op: "fetch " + file,
		Message: fmt.Sprintf("it is over the limit of %d bytes", most),
		Hint: "Raise the limit for downloads (--max-download), or ask the model for a smaller file. It is still at the " +
			"provider."}
}

// errWriting marks errors of the local disk, which are not retryable.
var errWriting = errors.New("cannot keep the file")

type progress struct {
	w    io.Writer
	tell func()
}

func (p progress) Write(b []byte) (int, error) {
	n, err := p.w.Write(b)
	if err != nil {
		return n, fmt.Errorf("%w: %w", errWriting, err)
	}
	p.tell()
	return n, nil
}
