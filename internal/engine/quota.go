package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"sync"
)

// A Quota bounds the stored objects of one owner, so that no owner fills the disk. Zero
// fields are no bound. The index enforces it, in the transaction that would exceed it.
// The engine checks beforehand to spare the work.
type Quota struct {
	Files    int   // uploads and outputs
	Bytes    int64 // of all files; equal bytes count each time, or a quota would reveal other owners' files
	Sessions int   // requested ones; sessions made for a single run do not count

	// Results is how many bytes of large outputs of runs are kept. It refuses
	// nothing: beyond it the owner's oldest runs are deleted early.
	Results int64
}

// Usage counts the stored objects of an owner.
type Usage struct {
	Files    int
	Bytes    int64
	Sessions int
	Results  int64
}

// room returns how many files and bytes an owner may still add.
func (q Quota) room(u Usage) (files int, bytes int64) {
	files, bytes = math.MaxInt, int64(math.MaxInt64)
	if q.Files > 0 {
		files = max(q.Files-u.Files, 0)
	}
	if q.Bytes > 0 {
		bytes = max(q.Bytes-u.Bytes, 0)
	}
	return files, bytes
}

// Check returns ErrFull, with a hint, when a usage is over the quota.
func (q Quota) Check(op string, u Usage) error {
	switch {
	case q.Files > 0 && u.Files > q.Files:
		return overQuota(op, fmt.Sprintf("%d files, as many as one owner may keep here", q.Files), "files", "owner_files")
	case q.Bytes > 0 && u.Bytes > q.Bytes:
		return overQuota(op, byteCount(q.Bytes)+" of files, as much as one owner may keep here", "files", "owner_disk")
	case q.Sessions > 0 && u.Sessions > q.Sessions:
		return overQuota(op, fmt.Sprintf("%d sessions, as many as one owner may keep here", q.Sessions), "sessions",
			"owner_sessions")
	}
	return nil
}

func overQuota(op, have, things, setting string) error {
	return &Error{
		Op: op, Kind: ErrFull, ID: setting, Err: ErrQuota,
		Hint: fmt.Sprintf("You have %s: delete %s, wait until some expire, or ask the operator to raise %s.", have, things,
			setting),
	}
}

// ErrQuota is the cause of an ErrFull that is about an owner's quota, and so no
// fault of the service.
var ErrQuota = errors.New("over the owner's quota")

// usage looks up the usage of an owner, if there is a quota.
func (s *Service) usage(ctx context.Context, op string, owner Owner) (Usage, error) {
	if s.cfg.Quota == (Quota{}) {
		return Usage{}, nil
	}
	u, err := s.index.Usage(ctx, owner)
	return u, failure(op, "", err)
}

// Kept returns the usage of the caller, and its quota.
func (s *Service) Kept(ctx context.Context, caller Caller) (Usage, Quota, error) {
	u, err := s.index.Usage(ctx, caller.Owner)
	return u, s.cfg.Quota, failure("look what is kept", "", err)
}

// budget counts bytes by owner, in memory only. The counted bytes do not outlive the
// process.
type budget struct {
	mu     sync.Mutex
	all    int64
	owners map[Owner]int64
}

// add counts n more bytes of an owner, unless the owner had more than most then, or all
// together more than total: what does not fit takes nothing from what does. It returns
// what the owner would have.
func (b *budget) add(owner Owner, n, most, total int64) (sum int64, ok bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	sum = b.owners[owner] + n
	if sum > most || b.all+n > total {
		return sum, false
	}
	if b.owners == nil {
		b.owners = map[Owner]int64{}
	}
	b.all += n
	b.owners[owner] = sum
	return sum, true
}

// remove counts n bytes less.
func (b *budget) remove(owner Owner, n int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.all -= n
	if left := b.owners[owner] - n; left > 0 {
		b.owners[owner] = left
	} else {
		delete(b.owners, owner)
	}
}

// upload is the upload of an owner with a quota.
type upload struct {
	from    io.Reader
	owner   Owner
	service *Service
	usage   Usage // at the start of the upload
	read    int64
}

// metered returns a reader that fails once an upload exceeds the owner's quota. The
// caller calls done when the upload has ended.
func (s *Service) metered(
	ctx context.Context, op string, owner Owner, from io.Reader,
) (_ io.Reader, done func(), err error) {
	if s.cfg.Quota == (Quota{}) {
		return from, func() {}, nil
	}
	u, err := s.usage(ctx, op, owner)
	if err != nil {
		return nil, nil, err
	}
	u.Files++ // this one
	u.Sessions, u.Results = 0, 0
	if err := s.cfg.Quota.Check(op, u); err != nil {
		return nil, nil, err
	}
	m := &upload{from: from, owner: owner, service: s, usage: u}
	return m, func() { s.arrivals.remove(owner, m.read) }, nil
}

// Read reads the upload. It returns ErrFull above the quota.
func (m *upload) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	quota := m.service.cfg.Quota
	_, room := quota.room(m.usage)
	all, ok := m.service.arrivals.add(m.owner, int64(n), room, math.MaxInt64)
	if !ok {
		whole := m.usage
		whole.Bytes += all
		return n, quota.Check("put file", whole)
	}
	m.read += int64(n)
	return n, err
}
