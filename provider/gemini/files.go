package gemini

import (
	"cmp"
	"context"
	"encoding/hex"
	"fmt"
	"io"
	"iter"
	"net/http"
	"strconv"
	"strings"
	"time"

	"google.golang.org/genai"

	"github.com/airlock-run/airlock/provider"
)

// files is the Files API.
type files struct{ c *Client }

func describe(f *genai.File) provider.FileInfo {
	info := provider.FileInfo{
		Ref:  provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeFile, ID: f.Name, URI: f.URI},
		Name: cmp.Or(f.DisplayName, f.Name), MIME: f.MIMEType, Size: -1, Created: f.CreateTime, Expires: f.ExpirationTime,
		Origin: provider.OriginUser, State: provider.StateReady,
	}
	if f.SizeBytes != nil {
		info.Size = *f.SizeBytes
	}
	if f.Source == genai.FileSourceGenerated { // only these are handed out
		info.Origin, info.Readable = provider.OriginModel, true
	}
	if sum, err := hex.DecodeString(f.Sha256Hash); err == nil && len(sum) == 32 {
		info.SHA256 = f.Sha256Hash
	}
	switch f.State {
	case genai.FileStateProcessing:
		info.State = provider.StatePending
	case genai.FileStateFailed:
		info.State = provider.StateFailed
	}
	return info
}

// Stat implements provider.FileStore.
func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	if id, where, ok := uploaded(r); ok {
		return f.statInside(ctx, r, id, where)
	}
	got, err := f.c.sdk.Files.Get(ctx, r.ID, nil)
	if err != nil {
		return provider.FileInfo{}, f.c.failed("look for "+r.ID, err)
	}
	return describe(got), nil
}

// How long a file may take to become usable, and how often we look.
const (
	readyWithin = 3 * time.Minute
	readyEvery  = time.Second
)

// ready waits until a file can be used. The file exists whatever comes of it: its
// description is returned with any error.
func (f files) ready(ctx context.Context, info provider.FileInfo) (provider.FileInfo, error) {
	op := "upload " + info.Name
	end := f.c.options.Clock.Now().Add(readyWithin)
	for info.State == provider.StatePending {
		if !f.c.options.Clock.Now().Before(end) {
			return info, &provider.Error{Kind: provider.NotReady, Provider: provider.Gemini, Op: op, Message: "the service is still looking at it", Unsure: true, Attempts: 1}
		}
		if err := f.c.options.Clock.Wait(ctx, readyEvery); err != nil {
			return info, provider.Failed(provider.Gemini, op, err)
		}
		now, err := f.Stat(ctx, info.Ref)
		if kind := provider.KindOf(err); err != nil && !kind.Retryable() {
			return info, err
		} else if err == nil {
			info = now
		}
	}
	if info.State == provider.StateFailed {
		_ = f.Delete(ctx, info.Ref)
		return info, &provider.Error{Kind: provider.Invalid, Provider: provider.Gemini, Op: op, Message: "the service could not read the file", Hint: "Check that its content is of the type " + info.MIME + "."}
	}
	return info, nil
}

// List implements provider.FileStore.
func (f files) List(ctx context.Context, filter provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		if f.c.options.Environments {
			f.listAlone(ctx, filter, yield)
			return
		}
		seen := map[string]bool{}
		for got, err := range f.c.sdk.Files.All(ctx) {
			if err == nil && seen[got.Name] {
				yield(provider.FileInfo{}, provider.Repeats(f.c.Name(), "list files"))
				return
			}
			if err != nil {
				yield(provider.FileInfo{}, f.c.failed("list files", err))
				return
			}
			seen[got.Name] = true
			info := describe(got)
			if filter.Name != "" && info.Name != filter.Name || info.Created.Before(filter.CreatedAfter) {
				continue
			}
			if !yield(info, nil) {
				return
			}
		}
	}
}

// Open implements provider.FileStore.
func (f files) Open(ctx context.Context, ref provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	if _, _, ok := uploaded(ref); ok {
		return f.c.openInside(ctx, ref, offset)
	}
	return f.c.fetch(ctx, ref, "/"+ref.ID+":download?alt=media", offset)
}

func (c *Client) fetch(ctx context.Context, ref provider.FileRef, where string, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	info := provider.FileInfo{Ref: ref, Size: -1}
	op := "fetch " + cmp.Or(ref.ID, ref.Path)
	r, err := c.request(ctx, http.MethodGet, "/"+apiVersion+where, nil)
	if err != nil {
		return nil, info, err
	}
	if offset > 0 {
		r.Header.Set("Range", fmt.Sprintf("bytes=%d-", offset))
	}
	resp, err := c.options.HTTP.Do(r)
	if err != nil {
		return nil, info, provider.Failed(provider.Gemini, op, err)
	}
	if resp.StatusCode/100 != 2 {
		defer resp.Body.Close()
		said, _ := io.ReadAll(io.LimitReader(resp.Body, mostError)) // half an error is one too
		return nil, info, c.refused(op, resp.StatusCode, resp.Header, said)
	}
	body, size, err := provider.Body(resp, offset)
	info.Size, info.MIME, info.Readable = size, resp.Header.Get("Content-Type"), true
	return body, info, err
}

// Delete implements provider.FileStore.
func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	if id, _, ok := uploaded(r); ok && r.Scope == provider.ScopeFile { // nothing else is in it
		return environments(f).Delete(ctx, id)
	}
	_, err := f.c.sdk.Files.Delete(ctx, r.ID, nil)
	err = f.c.failed("delete "+r.ID, err)
	return provider.Gone(ctx, f, r, err)
}

// uploadAlone sends a file into an environment of its own, which sessions are made
// from: there is nothing between an account and an environment that holds files
// for code.
func (f files) uploadAlone(ctx context.Context, u provider.Upload) (provider.FileInfo, error) {
	op := "upload " + u.Name
	e := environments(f)
	made, err := e.create(ctx, op, "", mark("upload", fmt.Sprintf("%d-%s", u.Size, u.Name)), provider.Network{})
	if err != nil {
		return provider.FileInfo{}, err
	}
	where := inputs + cmp.Or(provider.CleanName(u.Name), "input")
	ref := provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeFile, ID: "environments/" + made.id() + "/files/" + where}
	if err := f.c.uploadInside(ctx, made.id(), where, u); err != nil {
		_ = e.Delete(context.WithoutCancel(ctx), made.id())
		failed := *provider.Failed(provider.Gemini, op, err)
		failed.Unsure = true // whether it is gone
		return provider.FileInfo{}, &failed
	}
	return provider.FileInfo{Ref: ref, Name: u.Name, MIME: u.MIME, Size: u.Size, Created: made.Created, Origin: provider.OriginUser, Readable: true, State: provider.StateReady}, nil
}

// statInside looks for a file of an environment.
func (f files) statInside(ctx context.Context, r provider.FileRef, id, where string) (provider.FileInfo, error) {
	for got, err := range environments(f).Files(ctx, id) {
		if provider.KindOf(err) == provider.ContainerExpired {
			break
		}
		if err != nil {
			return provider.FileInfo{}, err
		}
		if got.Ref.Path == where {
			got.Ref = r
			return got, nil
		}
	}
	return provider.FileInfo{}, &provider.Error{Kind: provider.FileNotFound, Provider: provider.Gemini, Op: "look for " + where, Message: "it is not in environment " + id + " (any more)"}
}

// listAlone lists what uploadAlone has sent.
func (f files) listAlone(ctx context.Context, filter provider.Filter, yield func(provider.FileInfo, error) bool) {
	for one, err := range environments(f).all(ctx) {
		if err != nil {
			yield(provider.FileInfo{}, err)
			return
		}
		about, ok := one.marker("upload")
		size, name, ok2 := strings.Cut(about, "-")
		if !ok || !ok2 {
			continue
		}
		if strings.HasPrefix(about, "-1-") {
			size, name = "-1", about[len("-1-"):]
		}
		info := provider.FileInfo{Name: name, Size: -1, Created: one.Created, Origin: provider.OriginUser, Readable: true, State: provider.StateReady,
			Ref: provider.FileRef{Provider: provider.Gemini, Scope: provider.ScopeFile, ID: "environments/" + one.id() + "/files/" + inputs + cmp.Or(provider.CleanName(name), "input")}}
		if n, err := strconv.ParseInt(size, 10, 64); err == nil {
			info.Size = n
		}
		if filter.Name != "" && name != filter.Name || info.Created.Before(filter.CreatedAfter) {
			continue
		}
		if !yield(info, nil) {
			return
		}
	}
}
