package provider

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/gabriel-vasile/mimetype"
)

// Source is a local file that shall go to a provider.
type Source struct {
	Path string // as the person knows it: relative to the project
	Name string // what the model shall know it as
	MIME string
	Size int64
	// Open reads it from its start; each call anew.
	Open func() (io.ReadSeekCloser, error)
}

// Staged is a local file at a provider. An output that would take the place of
// Path is only written where the file still has this SHA256.
type Staged struct {
	Path   string   `json:"path"`
	SHA256 string   `json:"sha256"` // of what was sent, hex
	File   FileInfo `json:"file"`
	Cached bool     `json:"cached,omitempty"` // it had been sent before
	// Inline says that it travels within the request, since it could not be sent
	// by itself, and Why.
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
	// Inline is asked when the store of files is down or not offered, and the
	// provider takes a file of that size within the request: whether to send it so.
	// nil says no. Who answers tells the person.
	Inline func(s Source, why error) bool

	inlined int64 // bytes that travel so
}

// Refused is a file that was not sent.
type Refused struct {
	Source Source
	Err    error
}

// Stage sends files. What fails is named and stops no other; whether to continue
// without it is for the person to say.
func (u *Uploader) Stage(ctx context.Context, sources []Source) (staged []Staged, refused []Refused) {
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
			done, err = u.one(ctx, s)
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

func (u *Uploader) one(ctx context.Context, s Source) (Staged, error) {
	f, err := s.Open()
	if err != nil {
		return Staged{}, err
	}
	defer f.Close()
	sum := sha256.New()
	size, err := io.Copy(sum, f)
	if err != nil {
		return Staged{}, fmt.Errorf("read %s: %w", s.Path, err)
	}
	// What is there now may be more than what was looked at.
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
	// What was sent is what counts, not what was there a moment before.
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

// Inlinable reports whether a file that could not be sent, and why, may travel
// within the request instead: the store of files is down or not offered, the
// provider takes it so, and there is room. One that was refused for what it is
// may not.
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

// Embed reads a file that is to travel within the request, for whoever has asked
// about several at once; Stage does it where Inline says so.
func (u *Uploader) Embed(s Source, why error) (Staged, error) {
	f, err := s.Open()
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

// hashing hashes what is read, from the last start on.
type hashing struct {
	io.ReadSeeker
	sum interface {
		io.Writer
		Sum([]byte) []byte
		Reset()
	}
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

// UploadKey says when two uploads are the same. The name is part of it, since
// the model sees it.
type UploadKey struct {
	Provider, Account, SHA256, Purpose, Name string
}

// CachedUpload is a file that was sent before.
type CachedUpload struct {
	Key          UploadKey
	Conversation string // that it belongs to; "": it is kept, and anybody may use it
	File         FileInfo
}

// UploadStore keeps what an [UploadCache] knows.
type UploadStore interface {
	Uploads(ctx context.Context, key UploadKey) ([]CachedUpload, error)
	PutUpload(ctx context.Context, u CachedUpload) error
	RemoveUpload(ctx context.Context, key UploadKey, id string) error
}

// UploadCache sends the same bytes once within a conversation. Beyond it only
// files are used again that are kept and have an expiry. A nil cache knows
// nothing.
type UploadCache struct {
	Store        UploadStore
	Conversation string
	Kept         bool // uploads of this conversation stay at the provider
	Clock        Clock
}

// soon is how much life a file must have left to be used again.
const soon = 5 * time.Minute

// get returns a file that is still there, asked for at the provider.
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
