package openai

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"iter"
	"mime"
	"path"
	"time"

	sdk "github.com/openai/openai-go/v3"
	"github.com/openai/openai-go/v3/responses"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
)

// files is the provider.FileStore: the account's files and those of containers.
type files struct{ c *Client }

func (f files) Stat(ctx context.Context, r provider.FileRef) (provider.FileInfo, error) {
	if r.Scope == provider.ScopeSession {
		got, err := f.c.sdk.Containers.Files.Get(ctx, r.Session, r.ID)
		if err != nil {
			return provider.FileInfo{}, f.c.failed("stat "+r.ID, err)
		}
		return containerFile(got.RawJSON())
	}
	got, err := f.c.sdk.Files.Get(ctx, r.ID)
	if err != nil {
		return provider.FileInfo{}, f.c.failed("stat "+r.ID, err)
	}
	return f.info(got), nil
}

func (f files) info(o *sdk.FileObject) provider.FileInfo {
	info := provider.FileInfo{
		Ref:  provider.FileRef{Provider: provider.OpenAI, Scope: provider.ScopeFile, ID: o.ID},
		Name: o.Filename, MIME: mime.TypeByExtension(path.Ext(o.Filename)), Size: o.Bytes, Created: unix(o.CreatedAt),
		Expires: unix(o.ExpiresAt),
		Origin:  provider.OriginUser, State: provider.StateReady,
		// Uploads for these two purposes are refused (ogx PR 3946, forum thread 1357013).
		Readable: o.Purpose != "user_data" && o.Purpose != "assistants",
	}
	if !info.Expires.IsZero() && !info.Expires.After(f.c.options.Clock.Now()) {
		info.State = provider.StateExpired
	}
	return info
}

func unix(seconds int64) time.Time {
	if seconds == 0 {
		return time.Time{}
	}
	return time.Unix(seconds, 0).UTC()
}

// List implements provider.FileStore. It is sorted newest first, so that a filter on the
// time ends it early.
func (f files) List(ctx context.Context, q provider.Filter) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		pages := f.c.sdk.Files.ListAutoPaging(ctx, sdk.FileListParams{
			Limit: sdk.Int(1000), Order: sdk.FileListParamsOrderDesc})
		for seen := map[string]bool{}; pages.Next(); {
			o := pages.Current()
			if seen[o.ID] {
				yield(provider.FileInfo{}, provider.Repeats(provider.OpenAI, "list files"))
				return
			}
			seen[o.ID] = true
			info := f.info(&o)
			// The service counts in seconds.
			if !q.CreatedAfter.IsZero() && info.Created.Before(q.CreatedAfter.Truncate(time.Second)) {
				return
			}
			if q.Name != "" && info.Name != q.Name {
				continue
			}
			if !yield(info, nil) {
				return
			}
		}
		if err := pages.Err(); err != nil {
			yield(provider.FileInfo{}, f.c.failed("list files", err))
		}
	}
}

func (f files) Delete(ctx context.Context, r provider.FileRef) error {
	var err error
	if r.Scope == provider.ScopeSession {
		err = f.c.sdk.Containers.Files.Delete(ctx, r.Session, r.ID)
	} else {
		_, err = f.c.sdk.Files.Delete(ctx, r.ID)
	}
	err = f.c.failed("delete "+r.ID, err)
	if provider.KindOf(err) == provider.ContainerExpired {
		return nil
	}
	return provider.Gone(ctx, f, r, err)
}

// gone ignores the error of deleting an object that does not exist.
func gone(err error) error {
	switch provider.KindOf(err) {
	case provider.FileNotFound, provider.FileExpired, provider.ContainerExpired:
		return nil
	}
	return err
}

// containers is the provider.SessionStore.
type containers struct{ c *Client }

// container has the fields of all three types of the SDK for it.
type container struct {
	ID           string `json:"id"`
	Name         string `json:"name"`
	CreatedAt    int64  `json:"created_at"`
	LastActiveAt int64  `json:"last_active_at"`
	Status       string `json:"status"`
	ExpiresAfter struct {
		Minutes int64 `json:"minutes"`
	} `json:"expires_after"`
}

func session(raw string) (provider.Session, error) {
	var k container
	if err := json.Unmarshal([]byte(raw), &k); err != nil {
		return provider.Session{}, provider.Failed(provider.OpenAI, "read a container", err)
	}
	s := provider.Session{ID: k.ID, Name: k.Name, Created: unix(k.CreatedAt), LastUsed: unix(k.LastActiveAt),
		IdleTTL: time.Duration(k.ExpiresAfter.Minutes) * time.Minute, Active: k.Status != "expired" && k.Status != "deleted"}
	if s.IdleTTL > 0 && !s.LastUsed.IsZero() {
		s.Expires = s.LastUsed.Add(s.IdleTTL)
	}
	return s, nil
}

func (s containers) Create(ctx context.Context, spec provider.SessionSpec) (provider.Session, error) {
	p := sdk.ContainerNewParams{Name: spec.Name, MemoryLimit: sdk.ContainerNewParamsMemoryLimit(spec.Memory),
		NetworkPolicy: containerNetwork(spec.Network)}
	p.Name = cmp.Or(p.Name, "airlock")
	var inline []provider.FileInfo
	for _, f := range spec.Files {
		if f.Ref.Scope == provider.ScopeInline {
			inline = append(inline, f)
			continue
		}
		p.FileIDs = append(p.FileIDs, f.Ref.ID)
	}
	idle, err := exchange.Lifetime(s.c, "make a container", spec.IdleTTL, time.Minute)
	if err != nil {
		return provider.Session{}, err
	}
	if idle > 0 {
		p.ExpiresAfter = sdk.ContainerNewParamsExpiresAfter{Anchor: "last_active_at", Minutes: int64(idle / time.Minute)}
	}
	got, err := s.c.sdk.Containers.New(ctx, p)
	if err != nil {
		return provider.Session{}, s.c.failed("make a container", err)
	}
	made, err := session(got.RawJSON())
	if err != nil {
		return made, err
	}
	for _, f := range inline {
		if _, err := s.Add(ctx, made.ID, f); err != nil {
			_ = s.Delete(context.WithoutCancel(ctx), made.ID)
			e := *provider.Failed(provider.OpenAI, "make a container", err)
			e.Ambiguous = true // Delete may have failed
			return provider.Session{}, &e
		}
	}
	return made, nil
}

// containerNetwork returns the policy of a new container. Allowed without domains uses the
// service's default: no network unless the organization allows some.
func containerNetwork(n provider.Network) (p sdk.ContainerNewParamsNetworkPolicyUnion) {
	switch {
	case !n.Allowed:
		p.OfDisabled = &responses.ContainerNetworkPolicyDisabledParam{}
	case len(n.Domains) > 0:
		p.OfAllowlist = &responses.ContainerNetworkPolicyAllowlistParam{AllowedDomains: n.Domains}
	}
	return p
}

func (s containers) Get(ctx context.Context, id string) (provider.Session, error) {
	got, err := s.c.sdk.Containers.Get(ctx, id)
	if err != nil {
		return provider.Session{}, lost(s.c.failed("look at container "+id, err))
	}
	return session(got.RawJSON())
}

// lost returns ContainerExpired for a container that is not found.
func lost(err error) error {
	if e, ok := errors.AsType[*provider.Error](err); ok && e.Kind == provider.FileNotFound {
		expired := *e
		expired.Kind = provider.ContainerExpired
		return &expired
	}
	return err
}

func (s containers) List(ctx context.Context, q provider.Filter) iter.Seq2[provider.Session, error] {
	return func(yield func(provider.Session, error) bool) {
		p := sdk.ContainerListParams{Limit: sdk.Int(100), Order: sdk.ContainerListParamsOrderDesc}
		if q.Name != "" {
			p.Name = sdk.String(q.Name)
		}
		pages := s.c.sdk.Containers.ListAutoPaging(ctx, p)
		for seen := map[string]bool{}; pages.Next(); {
			k := pages.Current()
			if seen[k.ID] {
				yield(provider.Session{}, provider.Repeats(provider.OpenAI, "list containers"))
				return
			}
			seen[k.ID] = true
			found, err := session(k.RawJSON())
			if err == nil && (q.Name != "" && found.Name != q.Name ||
				!q.CreatedAfter.IsZero() && found.Created.Before(q.CreatedAfter.Truncate(time.Second))) {
				continue
			}
			if !yield(found, err) || err != nil {
				return
			}
		}
		if err := pages.Err(); err != nil {
			yield(provider.Session{}, s.c.failed("list containers", err))
		}
	}
}

// Touch implements provider.SessionStore. Get counts as a use of a container. An expired
// container is still found.
func (s containers) Touch(ctx context.Context, id string) error {
	found, err := s.Get(ctx, id)
	if err == nil && !found.Active {
		return &provider.Error{Kind: provider.ContainerExpired, Provider: provider.OpenAI, Op: "touch " + id,
			Message: "Container is expired."}
	}
	return err
}

func (s containers) Files(ctx context.Context, id string) iter.Seq2[provider.FileInfo, error] {
	return func(yield func(provider.FileInfo, error) bool) {
		pages := s.c.sdk.Containers.Files.ListAutoPaging(ctx, id,
			sdk.ContainerFileListParams{Limit: sdk.Int(100), Order: sdk.ContainerFileListParamsOrderAsc})
		for seen := map[string]bool{}; pages.Next(); {
			f := pages.Current()
			if seen[f.ID] {
				yield(provider.FileInfo{}, provider.Repeats(provider.OpenAI, "list the files of container "+id))
				return
			}
			seen[f.ID] = true
			info, err := containerFile(f.RawJSON())
			if !yield(info, err) || err != nil {
				return
			}
		}
		if err := pages.Err(); err != nil {
			yield(provider.FileInfo{}, lost(s.c.failed("list the files of container "+id, err)))
		}
	}
}

// containerFile decodes a file of a container. The path of an input has its id before the
// name (/mnt/data/file-MDLq…-data.csv, recorded).
func containerFile(raw string) (provider.FileInfo, error) {
	var f struct {
		ID          string `json:"id"`
		ContainerID string `json:"container_id"`
		CreatedAt   int64  `json:"created_at"`
		Bytes       *int64 `json:"bytes"` // recorded as null for files that the code has just made
		Path        string `json:"path"`
		Source      string `json:"source"`
	}
	if err := json.Unmarshal([]byte(raw), &f); err != nil {
		return provider.FileInfo{}, provider.Failed(provider.OpenAI, "read a container file", err)
	}
	info := provider.FileInfo{Ref: provider.FileRef{Provider: provider.OpenAI, Scope: provider.ScopeSession, ID: f.ID,
		Session: f.ContainerID, Path: f.Path},
		Name: path.Base(f.Path), Size: -1, Created: unix(f.CreatedAt), Origin: provider.OriginModel, Readable: true,
		State: provider.StateReady, MIME: mime.TypeByExtension(path.Ext(f.Path))}
	if f.Bytes != nil {
		info.Size = *f.Bytes
	}
	if f.Source == "user" {
		info.Origin, info.Name = provider.OriginUser, provider.StagedName(f.Path)
	}
	return info, nil
}

// Add implements provider.SessionStore. Containers also accept files without the
// Files API.
func (s containers) Add(ctx context.Context, id string, f provider.FileInfo) (provider.FileInfo, error) {
	if f.Ref.Scope == provider.ScopeInline {
		var raw json.RawMessage
		u := provider.Upload{Name: f.Name, MIME: f.MIME, Size: int64(len(f.Ref.Inline)), Body: bytes.NewReader(f.Ref.Inline)}
		if err := s.c.post(ctx, "put "+f.Name+" into container "+id, "/containers/"+id+"/files", nil, "file", u,
			&raw); err != nil {
			return provider.FileInfo{}, err
		}
		return containerFile(string(raw))
	}
	got, err := s.c.sdk.Containers.Files.New(ctx, id, sdk.ContainerFileNewParams{FileID: sdk.String(f.Ref.ID)})
	if err != nil {
		return provider.FileInfo{}, s.c.failed("put "+f.Name+" into container "+id, err)
	}
	return containerFile(got.RawJSON())
}

func (s containers) Delete(ctx context.Context, id string) error {
	return gone(s.c.failed("delete container "+id, s.c.sdk.Containers.Delete(ctx, id)))
}
