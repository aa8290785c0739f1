package enginetest

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Index remembers in memory. It survives the Service that uses it, so that a
// test can start a second one on it.
type Index struct {
	Quota engine.Quota // to be set before the first call
	// Now is the clock by which things expire, to be set before the first call. Nil
	// is an index in which nothing does, for a test whose clock leaps before the
	// janitor can write uses down.
	Now func() time.Time

	IsYoung bool // to be set before the first call
	faults  faults

	mu       sync.Mutex
	order    int
	files    map[engine.ID]*row[engine.File]
	sessions map[engine.ID]*row[engine.Session]
	runs     map[engine.ID]*row[recorded]
	places   map[engine.ID]map[string]engine.SessionFile // by session, by path
	shots    map[engine.ID]*row[snapshot]
	volumes  map[engine.ID]*volume
	keys     map[string]engine.Key
	repeats  map[repeat]engine.ID
	calls    map[string]int
	contacts []engine.Contact
	days     []engine.ConsumptionDay
	months   map[monthOf]engine.Consumption
	audit    []engine.AuditEntry
}

var _ engine.Index = (*Index)(nil)

// row is an object and its place in the order of creation.
type row[T any] struct {
	object T
	order  int
}

type recorded struct {
	run   engine.Run
	log   []engine.OutputChunk
	print engine.Digest
}

type repeat struct {
	owner engine.Owner
	key   string
}

// NewIndex returns an empty index.
func NewIndex() *Index {
	return &Index{
		Now:      time.Now,
		files:    map[engine.ID]*row[engine.File]{},
		sessions: map[engine.ID]*row[engine.Session]{},
		runs:     map[engine.ID]*row[recorded]{},
		places:   map[engine.ID]map[string]engine.SessionFile{},
		shots:    map[engine.ID]*row[snapshot]{},
		volumes:  map[engine.ID]*volume{},
		keys:     map[string]engine.Key{},
		repeats:  map[repeat]engine.ID{},
		calls:    map[string]int{},
		months:   map[monthOf]engine.Consumption{},
	}
}

// Fail has fault asked before every operation, by the name of its method: an
// error from it is the operation's answer. Nil ends that.
func (x *Index) Fail(fault func(method string) error) { x.faults.set(fault) }

// Calls returns how often a method was called.
func (x *Index) Calls(method string) int {
	x.mu.Lock()
	defer x.mu.Unlock()
	return x.calls[method]
}

// begin starts a method. Without an error the index is locked.
func (x *Index) called(ctx context.Context, method string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := x.faults.of(method); err != nil {
		return err
	}
	x.mu.Lock()
	x.calls[method]++
	return nil
}

func (x *Index) lasts(expiry time.Time) bool { return x.Now == nil || expiry.After(x.Now()) }

// file finds a file of an owner that has not expired.
func (x *Index) file(owner engine.Owner, id engine.ID) (*row[engine.File], error) {
	r, ok := x.files[id]
	if !ok || r.object.Owner != owner || !x.lasts(r.object.ExpiresAt) {
		return nil, engine.ErrNotFound
	}
	return r, nil
}

// session finds a session of an owner that has not expired.
func (x *Index) session(owner engine.Owner, id engine.ID) (*row[engine.Session], error) {
	r, ok := x.sessions[id]
	if !ok || r.object.Owner != owner || !x.lasts(r.object.ExpiresAt) {
		return nil, engine.ErrNotFound
	}
	return r, nil
}

// extend moves an expiry, never backwards.
func extend(expiry *time.Time, to time.Time) {
	if to.After(*expiry) {
		*expiry = to
	}
}

func (x *Index) next() int {
	x.order++
	return x.order
}

// page selects and orders the rows that match, newest first.
func page[T any](rows map[engine.ID]*row[T], p engine.Page, match func(T) bool) []T {
	last := int(^uint(0) >> 1)
	if after, ok := rows[p.After]; ok {
		last = after.order
	}
	var found []*row[T]
	for _, r := range rows {
		if r.order < last && match(r.object) {
			found = append(found, r)
		}
	}
	slices.SortFunc(found, func(a, b *row[T]) int { return cmp.Compare(b.order, a.order) })
	limit := cmp.Or(p.Limit, 100)
	var objects []T
	for _, r := range found[:min(limit, len(found))] {
		objects = append(objects, r.object)
	}
	return objects
}

// AddFile records a file.
func (x *Index) AddFile(ctx context.Context, file engine.File) error {
	if err := x.called(ctx, "AddFile"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	x.files[file.ID] = &row[engine.File]{file, x.next()}
	if err := x.checkQuota("AddFile", file.Owner); err != nil {
		delete(x.files, file.ID)
		return err
	}
	return nil
}

// Usage returns what an owner keeps.
func (x *Index) Usage(ctx context.Context, owner engine.Owner) (engine.Usage, error) {
	if err := x.called(ctx, "Usage"); err != nil {
		return engine.Usage{}, err
	}
	defer x.mu.Unlock()
	return x.usage(owner), nil
}

// checkQuota checks the quotas of an owner and of its account.
func (x *Index) checkQuota(op string, owner engine.Owner) error {
	for _, each := range owner.Accounts() {
		var allowed engine.Allowance
		for _, key := range x.keys {
			if key.Owner == each && key.RevokedAt.IsZero() {
				allowed = engine.Allowance{Users: max(allowed.Users, key.Allowance.Users),
					Shares: max(allowed.Shares, key.Allowance.Shares)}
			}
		}
		if err := x.Quota.For(each, owner, allowed).Check(op, x.usage(each)); err != nil {
			return err
		}
	}
	return nil
}

// usage returns what an owner keeps, or an account with its users.
func (x *Index) usage(owner engine.Owner) (u engine.Usage) {
	users := map[engine.Owner]bool{}
	counts := func(one engine.Owner) bool {
		users[one] = users[one] || one != owner && one.Account() == owner
		return one == owner || one.Account() == owner
	}
	defer func() {
		for _, is := range users {
			if is {
				u.Users++
			}
		}
	}()
	for _, r := range x.files {
		if counts(r.object.Owner) {
			u.Files++
			u.Bytes += r.object.Size
		}
	}
	for _, v := range x.volumes {
		if counts(v.Owner) {
			u.Files++
			u.Bytes += v.Bytes
		}
	}
	for _, r := range x.shots {
		if counts(r.object.Owner) {
			u.Files += r.object.Files
			u.Bytes += r.object.Bytes
		}
	}
	for _, r := range x.sessions {
		if !r.object.Implicit && counts(r.object.Owner) {
			u.Sessions++
		}
	}
	return u
}

// File returns a file of an owner.
func (x *Index) File(ctx context.Context, owner engine.Owner, id engine.ID) (engine.File, error) {
	if err := x.called(ctx, "File"); err != nil {
		return engine.File{}, err
	}
	defer x.mu.Unlock()
	r, err := x.file(owner, id)
	if err != nil {
		return engine.File{}, err
	}
	return r.object, nil
}

// OwnerOf returns the owner of a file.
func (x *Index) OwnerOf(ctx context.Context, origin engine.Origin, id engine.ID) (engine.Owner, error) {
	if err := x.called(ctx, "OwnerOf"); err != nil {
		return "", err
	}
	defer x.mu.Unlock()
	if r, ok := x.files[id]; ok && r.object.Origin == origin && x.lasts(r.object.ExpiresAt) {
		return r.object.Owner, nil
	}
	return "", engine.ErrNotFound
}

// Files lists files.
func (x *Index) Files(ctx context.Context, q engine.FileQuery) ([]engine.File, error) {
	if err := x.called(ctx, "Files"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	return page(x.files, q.Page, func(f engine.File) bool {
		return f.Owner == q.Owner && (q.Origin == "" || f.Origin == q.Origin) && x.lasts(f.ExpiresAt)
	}), nil
}

// DeleteFile deletes a file and its places.
func (x *Index) DeleteFile(ctx context.Context, owner engine.Owner, id engine.ID) error {
	if err := x.called(ctx, "DeleteFile"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	if _, err := x.file(owner, id); err != nil {
		return err
	}
	x.dropFile(id)
	return nil
}

func (x *Index) dropFile(id engine.ID) {
	delete(x.files, id)
	for _, places := range x.places {
		maps.DeleteFunc(places, func(_ string, p engine.SessionFile) bool { return p.File == id })
	}
}

// Touch moves the expiry of files and sessions.
func (x *Index) Touch(ctx context.Context, uses map[engine.ID]time.Time) error {
	if err := x.called(ctx, "Touch"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	for id, use := range uses {
		if r, ok := x.files[id]; ok {
			extend(&r.object.ExpiresAt, use.Add(r.object.TTL))
		}
		if r, ok := x.sessions[id]; ok {
			extend(&r.object.ExpiresAt, use.Add(r.object.TTL))
		}
	}
	return nil
}

// ExpireFiles deletes files that have expired by now.
func (x *Index) ExpireFiles(ctx context.Context, now time.Time, limit int) (int, error) {
	if err := x.called(ctx, "ExpireFiles"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	n := 0
	for id, r := range x.files {
		if n < limit && !r.object.ExpiresAt.After(now) {
			x.dropFile(id)
			n++
		}
	}
	return n, nil
}

// Unreferenced returns those of digests that no file has.
func (x *Index) Unreferenced(ctx context.Context, digests []engine.Digest) ([]engine.Digest, error) {
	known, err := x.Digests(ctx)
	if err != nil {
		return nil, err
	}
	return slices.DeleteFunc(slices.Clone(digests), func(d engine.Digest) bool { return known[d] }), nil
}

// Digests returns all that some file has.
func (x *Index) Digests(ctx context.Context) (map[engine.Digest]bool, error) {
	if err := x.called(ctx, "Digests"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	known := map[engine.Digest]bool{}
	for _, r := range x.files {
		known[r.object.SHA256] = true
	}
	for _, r := range x.shots {
		for i := range r.object.files {
			known[r.object.files[i].SHA256] = true
		}
	}
	return known, nil
}

// AddKey records a key.
func (x *Index) AddKey(ctx context.Context, key engine.Key, audit ...engine.AuditEntry) error {
	if err := x.called(ctx, "AddKey"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	x.keys[key.ID] = key
	x.audit = append(x.audit, audit...)
	return nil
}

// Key returns a key.
func (x *Index) Key(ctx context.Context, id string) (engine.Key, error) {
	if err := x.called(ctx, "Key"); err != nil {
		return engine.Key{}, err
	}
	defer x.mu.Unlock()
	key, ok := x.keys[id]
	if !ok {
		return engine.Key{}, engine.ErrNotFound
	}
	return key, nil
}

// Keys returns every key, in order of id.
func (x *Index) Keys(ctx context.Context) ([]engine.Key, error) {
	if err := x.called(ctx, "Keys"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	return slices.SortedFunc(maps.Values(x.keys), func(a, b engine.Key) int { return cmp.Compare(a.ID, b.ID) }), nil
}

// RevokeKey ends a key.
func (x *Index) RevokeKey(ctx context.Context, id string, now time.Time, audit ...engine.AuditEntry) error {
	if err := x.called(ctx, "RevokeKey"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	key, ok := x.keys[id]
	if !ok {
		return engine.ErrNotFound
	}
	x.audit = append(x.audit, audit...)
	if key.RevokedAt.IsZero() {
		key.RevokedAt = now
		x.keys[id] = key
	}
	return nil
}

// Young returns IsYoung.
func (x *Index) Young(context.Context) (bool, error) { return x.IsYoung, nil }

// Sweeping runs do.
func (x *Index) Sweeping(_ context.Context, do func() error) error { return do() }
