package local

import (
	"cmp"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"iter"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/internal/exchange"
	"github.com/airlock-run/airlock/pytool"
)

// sessions are sets of files: each run gets the files of its session and adds those that it
// made. They are in memory; the runner has the content.
type sessions struct {
	c    *Client
	mu   sync.Mutex
	open map[string]*session
}

type session struct {
	info  provider.Session
	files []provider.FileInfo // Ref.Path is the name in the working directory
}

func expired(id string) error {
	return &provider.Error{Kind: provider.ContainerExpired, Provider: provider.Local, Op: "session",
		Message: "there is no session " + id + " (any more)"}
}

func (s *sessions) Create(ctx context.Context, spec provider.SessionSpec) (provider.Session, error) {
	now := s.c.options.Clock.Now()
	ttl, err := exchange.Lifetime(s.c, "make a session", cmp.Or(spec.IdleTTL, s.c.options.IdleTTL), 1)
	if err != nil {
		return provider.Session{}, err
	}
	n := &session{info: provider.Session{ID: "local-" + strings.ToLower(rand.Text()), Name: spec.Name, Created: now,
		LastUsed: now, Expires: now.Add(ttl), IdleTTL: ttl, Active: true}}
	for _, f := range spec.Files {
		n.add(f)
	}
	var left []string // nobody has deleted them with their files
	s.mu.Lock()
	for id, other := range s.open {
		if now.After(other.info.Expires.Add(24 * time.Hour)) {
			left = append(left, id)
		}
	}
	s.open[n.info.ID] = n
	s.mu.Unlock()
	for _, id := range left {
		_ = s.Delete(ctx, id) // if it fails, the next call tries again
	}
	return n.info, nil
}

// add adds a file to the session under a unique name.
func (n *session) add(f provider.FileInfo) provider.FileInfo {
	name := pytool.SafeName(f.Name)
	stem, ending := strings.TrimSuffix(name, path.Ext(name)), path.Ext(name)
	for i := 2; ; i++ {
		at := slices.IndexFunc(n.files, func(k provider.FileInfo) bool { return k.Ref.Path == name })
		if at < 0 {
			break
		}
		if n.files[at].Ref.ID == f.Ref.ID {
			return n.files[at]
		}
		name = fmt.Sprintf("%s-%d%s", stem, i, ending)
	}
	f.Ref.Scope, f.Ref.Session, f.Ref.Path, f.Origin = provider.ScopeSession, n.info.ID, name, provider.OriginUser
	n.files = append(n.files, f)
	return f
}

// get returns a session that has not expired. A use restarts its clock. The caller holds mu.
func (s *sessions) get(id string, use bool) (*session, error) {
	n, ok := s.open[id]
	now := s.c.options.Clock.Now()
	if !ok || !now.Before(n.info.Expires) {
		return nil, expired(id)
	}
	if use {
		n.info.LastUsed, n.info.Expires = now, now.Add(n.info.IdleTTL)
	}
	return n, nil
}

func (s *sessions) Get(_ context.Context, id string) (provider.Session, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.get(id, false)
	if err != nil {
		return provider.Session{}, err
	}
	return n.info, nil
}

func (s *sessions) List(_ context.Context, f provider.Filter) iter.Seq2[provider.Session, error] {
	s.mu.Lock()
	var all []provider.Session
	for _, n := range s.open {
		if f.Name == "" || n.info.Name == f.Name {
			info := n.info
			info.Active = s.c.options.Clock.Now().Before(info.Expires)
			all = append(all, info)
		}
	}
	s.mu.Unlock()
	slices.SortFunc(all, func(a, b provider.Session) int { return b.Created.Compare(a.Created) })
	return func(yield func(provider.Session, error) bool) {
		for _, info := range all {
			if !yield(info, nil) {
				return
			}
		}
	}
}

func (s *sessions) Touch(_ context.Context, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	_, err := s.get(id, true)
	return err
}

func (s *sessions) Files(_ context.Context, id string) iter.Seq2[provider.FileInfo, error] {
	all, err := s.files(id)
	return func(yield func(provider.FileInfo, error) bool) {
		if err != nil {
			yield(provider.FileInfo{}, err)
			return
		}
		for _, f := range all {
			if !yield(f, nil) {
				return
			}
		}
	}
}

// files returns the files of a session. It counts as a use.
func (s *sessions) files(id string) ([]provider.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.get(id, true)
	if err != nil {
		return nil, err
	}
	return slices.Clone(n.files), nil
}

func (s *sessions) Add(_ context.Context, id string, f provider.FileInfo) (provider.FileInfo, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := s.get(id, true)
	if err != nil {
		return provider.FileInfo{}, err
	}
	return n.add(f), nil
}

// made adds files that code made to the session in place of files with the same names, and
// returns the ids of made files without a reference.
func (s *sessions) made(id string, left []provider.FileInfo) (gone []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, ok := s.open[id] // it may have expired while the code ran
	if !ok {
		for _, f := range left {
			gone = append(gone, f.Ref.ID)
		}
		return gone
	}
	for _, f := range left {
		n.files = slices.DeleteFunc(n.files, func(k provider.FileInfo) bool {
			if k.Ref.Path == f.Ref.Path && k.Origin == provider.OriginModel && k.Ref.ID != f.Ref.ID {
				gone = append(gone, k.Ref.ID)
			}
			return k.Ref.Path == f.Ref.Path
		})
		n.files = append(n.files, f)
	}
	return gone
}

// find returns a file of a session.
func (s *sessions) find(r provider.FileRef) (provider.FileInfo, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, ok := s.open[r.Session]; ok {
		for _, f := range n.files {
			if f.Ref.ID == r.ID {
				return f, true
			}
		}
	}
	return provider.FileInfo{}, false
}

// cleanTime bounds the clean-up after the caller has left.
const cleanTime = 30 * time.Second

// Delete implements provider.SessionStore. It deletes the files that code made, not inputs.
func (s *sessions) Delete(ctx context.Context, id string) error {
	s.mu.Lock()
	n := s.open[id]
	s.mu.Unlock()
	if n == nil {
		return nil
	}
	var failed error
	for _, f := range n.files {
		if f.Origin == provider.OriginModel {
			failed = errors.Join(failed, s.c.Files().Delete(ctx, f.Ref))
		}
	}
	if failed != nil {
		return failed
	}
	s.mu.Lock()
	delete(s.open, id)
	s.mu.Unlock()
	return nil
}
