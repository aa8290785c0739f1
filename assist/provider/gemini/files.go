package gemini

import (
	"cmp"
	"context"
	"encoding/hex"
	"io"
	"iter"
	"time"

	"google.golang.org/genai"

	"github.com/airlock-run/airlock/assist/provider"
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
	if f.Source == genai.FileSourceGenerated { // only these can be downloaded
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

func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	got, err := f.c.sdk.Files.Get(ctx, r.ID, nil)
	if err != nil {
		return provider.FileInfo{}, f.c.failed("look for "+r.ID, err)
	}
	return describe(got), nil
}

// The time for a file to become usable, and the interval of looking.
const (
	readyWithin = 3 * time.Minute
	readyEvery  = time.Second
)

// ready waits until a file can be used. It returns the description with any error, since the
// file exists.
func (f files) ready(ctx context.Context, info provider.FileInfo) (provider.FileInfo, error) {
	op := "upload " + info.Name
	end := f.c.options.Clock.Now().Add(readyWithin)
	for info.State == provider.StatePending {
		if !f.c.options.Clock.Now().Before(end) {
			return info, &provider.Error{Kind: provider.NotReady, Provider: provider.Gemini, Op: op,
				Message: "the service is still looking at it", Ambiguous: true, Attempts: 1}
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
		return info, &provider.Error{Kind: provider.Invalid, Provider: provider.Gemini, Op: op,
			Message: "the service could not read the file", Hint: "Check that its content is of the type " + info.MIME + "."}
	}
	return info, nil
}

func (f files) List(ctx context.Context, filter provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
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

func (f files) Open(ctx context.Context, ref provider.FileRef, offset int64) (io.ReadCloser, provider.FileInfo, error) {
	return f.c.rest.Open(ctx, "fetch "+ref.ID, "/"+apiVersion+"/"+ref.ID+":download?alt=media", ref, offset)
}

func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	_, err := f.c.sdk.Files.Delete(ctx, r.ID, nil)
	err = f.c.failed("delete "+r.ID, err)
	return provider.Gone(ctx, f, r, err)
}
