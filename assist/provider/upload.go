package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"net/http"
	"time"

	"github.com/gabriel-vasile/mimetype"
)

// Source is a local file to be sent to a provider.
type Source struct {
	Path string // relative to the project
	Name string // that the model sees
	MIME string
	Size int64
	// Open opens it; each call starts at its beginning.
	Open func() (io.ReadSeekCloser, error)
}

func (s Source) open() (io.ReadSeekCloser, error) {
	if s.Open == nil {
		return nil, &Error{Kind: Invalid, Op: "open " + s.Name, Message: "the Source has no Open, which opens its content"}
	}
	return s.Open()
}

// Staged is a local file at a provider. An output replaces Path only if the file still has
// this SHA256.
type Staged struct {
	Path   string   `json:"path"`
	SHA256 string   `json:"sha256"` // of the sent bytes, hex
	File   FileInfo `json:"file"`
	Cached bool     `json:"cached,omitempty"` // it had been sent before
	// Inline says that it is part of the request because its upload failed. Why is the
	// error.
	Inline bool   `json:"inline,omitempty"`
	Why    string `json:"why,omitempty"`
}

// Uploader sends files, each once.
type Uploader struct {
	Provider Provider
	Cache    *UploadCache // may be nil
	Counters *Counters    // may be nil
	TTL      time.Duration
	Progress func(s Source, sent int64) // may be nil
	// Inline reports whether to send a file within the request if the store of files is
	// down or missing and the provider accepts such a file; nil: no. The function tells
	// the user.
	Inline func(s Source, why error) bool

	inlined int64 // bytes sent within the request
}

// Refused is a file that was not sent.
type Refused struct {
	Source Source
	Err    error
}

// Stage sends files and returns those that failed. A failure does not stop the others; the
// caller decides whether to continue.
func (u *Uploader) Stage(ctx context.Context, sources []Source) (staged []Staged, refused []Refused) {
	if u.Provider == nil {
		for _, s := range sources {
			refused = append(refused, Refused{s, &Error{Kind: Invalid, Op: "upload " + s.Name,
				Message: "the Uploader has no Provider to send it to"}})
		}
		return nil, refused
	}
	wanted := make([]Wanted, len(sources))
	for i, s := range sources {
		wanted[i] = Wanted{s.Name, s.MIME, s.Size}
	}
	no := u.Provider.Caps().Limits.Check(u.Provider.Name(), wanted)
	for i, s := range sources {
		err := no[i]
		if err == nil {
			err = no[-1]
		}
		var done Staged
		if err == nil {
			done, err = u.stage(ctx, s)
		}
		if err != nil && u.Inline != nil && u.Inlinable(s, err) && u.Inline(s, err) {
			done, err = u.Embed(s, err)
		}
		if err != nil {
			refused = append(refused, Refused{s, err})
			continue
		}
		staged = append(staged, done)
	}
	return staged, refused
}

func (u *Uploader) stage(ctx context.Context, s Source) (Staged, error) {
	f, err := s.open()
	if err != nil {
		return Staged{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return Staged{}, fmt.Errorf("read %s: %w", s.Path, err)
	}
	// The file may have grown since its size was checked.
	if no := u.Provider.Caps().Limits.Check(u.Provider.Name(), []Wanted{{s.Name, s.MIME, size}}); len(no) > 0 {
		return Staged{}, errors.Join(no[0], no[-1])
	}
	sha := hex.EncodeToString(sum.Sum(nil))
	key := UploadKey{Provider: u.Provider.Name(), Account: u.Provider.Account(), SHA256: sha, Name: s.Name}
	if info, ok := u.Cache.get(ctx, u.Provider, key); ok {
		return Staged{Path: s.Path, SHA256: sha, File: info, Cached: true}, nil
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return Staged{}, err
	}
	body, begun := &hashing{ReadSeeker: f, sum: sha256.New()}, time.Now()
	info, err := u.Provider.Files().Upload(ctx, Upload{Name: s.Name, MIME: s.MIME, Size: size, Body: body, TTL: u.TTL,
		SHA256: sha,
		Progress: func(sent int64) {
			if u.Progress != nil {
				u.Progress(s, sent)
			}
		}})
	if err != nil {
		return Staged{}, err
	}
	// The file may have changed between the hash and the upload.
	if sent := hex.EncodeToString(body.sum.Sum(nil)); sent != sha {
		err := &Error{Kind: Invalid, Provider: u.Provider.Name(), Op: "upload " + s.Name,
			Message: "the file changed while it was sent", Hint: "Let whatever writes to it finish, then try again."}
		return Staged{}, join(err, u.Provider.Files().Delete(context.WithoutCancel(ctx), info.Ref))
	}
	u.Counters.Count(u.Provider.Name(), "", func(c *Counts) {
		c.Uploads++
		c.UploadTime += time.Since(begun)
	})
	return Staged{Path: s.Path, SHA256: sha, File: info}, u.Cache.put(ctx, key, info)
}

// Inlinable reports whether a file whose upload failed may be sent within the request: the
// store of files is down or missing, the provider accepts such files, and there is room. A
// file that was refused may not.
func (u *Uploader) Inlinable(s Source, why error) bool {
	caps := u.Provider.Caps()
	e, ok := errors.AsType[*Error](why)
	if !caps.InlineUpload || !ok || s.Size < 0 || u.inlined+s.Size > caps.Limits.Inline {
		return false
	}
	notOffered := e.Status == http.StatusNotFound || e.Status == http.StatusMethodNotAllowed ||
		e.Status == http.StatusNotImplemented
	return e.Kind == Transient || notOffered
}

// Embed reads a file that is sent within the request. Stage calls it if Inline agrees;
// callers that ask about several files at once call it directly.
func (u *Uploader) Embed(s Source, why error) (Staged, error) {
	f, err := s.open()
	if err != nil {
		return Staged{}, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, s.Size+1))
	if err != nil {
		return Staged{}, fmt.Errorf("read %s: %w", s.Path, err)
	}
	if int64(len(data)) != s.Size {
		return Staged{}, &Error{Kind: Invalid, Provider: u.Provider.Name(), Op: "send " + s.Name,
			Message: "the file changed while it was read", Hint: "Let whatever writes to it finish, then try again."}
	}
	u.inlined += s.Size
	sum := sha256.Sum256(data)
	sha := hex.EncodeToString(sum[:])
	kind := s.MIME
	if kind == "" {
		kind = baseType(mimetype.Detect(data).String())
	}
	return Staged{Path: s.Path, SHA256: sha, Inline: true, Why: why.Error(), File: FileInfo{
		Ref:  FileRef{Provider: u.Provider.Name(), Scope: ScopeInline, Inline: data},
		Name: s.Name, MIME: kind, Size: s.Size, Origin: OriginUser, Readable: true, State: StateReady, SHA256: sha,
	}}, nil
}

// hashing hashes the bytes read since the last seek to the start.
type hashing struct {
	io.ReadSeeker
	sum hash.Hash
}

func (h *hashing) Read(p []byte) (int, error) {
	n, err := h.ReadSeeker.Read(p)
	_, _ = h.sum.Write(p[:n]) // a hash never fails
	return n, err
}

func (h *hashing) Seek(offset int64, whence int) (int64, error) {
	at, err := h.ReadSeeker.Seek(offset, whence)
	if at == 0 && whence == io.SeekStart {
		h.sum.Reset()
	}
	return at, err
}

// UploadKey identifies equal uploads. The name is part of it because the model sees it.
type UploadKey struct {
	Provider, Account, SHA256, Purpose, Name string
}

// CachedUpload is a file that was sent before.
type CachedUpload struct {
	Key          UploadKey
	Conversation string // that it belongs to; "": all conversations may use it
	File         FileInfo
}

// UploadStore stores the entries of an [UploadCache]. The id of an upload is that of its File.Ref.
// [Memory] is one; package assist/store has a durable one.
type UploadStore interface {
	Uploads(ctx context.Context, key UploadKey) ([]CachedUpload, error)
	PutUpload(ctx context.Context, u CachedUpload) error              // replaces one with the same key and id
	RemoveUpload(ctx context.Context, key UploadKey, id string) error // succeeds if there is none
}

// UploadCache sends the same bytes once within a conversation. Other conversations use
// only files that are kept and have an expiry. A nil cache is empty.
type UploadCache struct {
	Store        UploadStore
	Conversation string
	Kept         bool // uploads of this conversation stay at the provider
	Clock        Clock
}

// soon is the least remaining lifetime of a file that is used again.
const soon = 5 * time.Minute

// get returns a file that the provider still has.
func (c *UploadCache) get(ctx context.Context, p Provider, key UploadKey) (FileInfo, bool) {
	if c == nil {
		return FileInfo{}, false
	}
	known, err := c.Store.Uploads(ctx, key)
	if err != nil {
		return FileInfo{}, false // it is sent again
	}
	for _, k := range known {
		if k.Conversation != c.Conversation && k.Conversation != "" {
			continue
		}
		expires := k.File.Expires
		if !expires.IsZero() && expires.Before(c.Clock.Now().Add(soon)) {
			_ = c.Store.RemoveUpload(ctx, key, k.File.Ref.ID)
			continue
		}
		info, err := p.Files().Stat(ctx, k.File.Ref)
		if err == nil && (info.State == "" || info.State == StateReady) {
			return k.File, true
		}
		if err == nil || isMissing(err) {
			_ = c.Store.RemoveUpload(ctx, key, k.File.Ref.ID)
		}
	}
	return FileInfo{}, false
}

func (c *UploadCache) put(ctx context.Context, key UploadKey, info FileInfo) error {
	if c == nil {
		return nil
	}
	conversation := c.Conversation
	if c.Kept && !info.Expires.IsZero() {
		conversation = ""
	}
	return c.Store.PutUpload(ctx, CachedUpload{Key: key, Conversation: conversation, File: info})
}
