package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
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

	Users  int  // of an account, that keep files or sessions
	shared bool // it bounds an account, and one of its users asks
}

// Usage counts the stored objects of an owner, those of its users included.
type Usage struct {
	Files    int
	Bytes    int64
	Sessions int
	Results  int64
	Users    int // that keep something
}

// For returns the quota of an account, of which user asks, with q for one owner.
func (q Quota) For(account, user Owner, a Allowance) Quota {
	q.Files, q.Sessions = int(a.times(int64(q.Files))), int(a.times(int64(q.Sessions)))
	q.Bytes, q.Results = a.times(q.Bytes), a.times(q.Results)
	q.Users, q.shared = a.Users, account != user
	return q
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
		return q.over(op, fmt.Sprintf("%d files", q.Files), "files", "owner_files")
	case q.Bytes > 0 && u.Bytes > q.Bytes:
		return q.over(op, byteCount(q.Bytes)+" of files", "files", "owner_disk")
	case q.Sessions > 0 && u.Sessions > q.Sessions:
		return q.over(op, fmt.Sprintf("%d sessions", q.Sessions), "sessions", "owner_sessions")
	case q.Users > 0 && u.Users > q.Users:
		return q.over(op, fmt.Sprintf("files or sessions of %d users", q.Users), "some users' files and sessions", "--users")
	}
	return nil
}

func (q Quota) over(op, have, things, setting string) error {
	hint := fmt.Sprintf("You have %s, as much as one owner may keep here: delete %s, wait until some expire, or ask the "+
		"operator to raise %s.", have, things, setting)
	if q.shared {
		hint = fmt.Sprintf("All users of this key together have %s, as much as they may keep here: delete %s, wait until "+
			"some expire, or ask the operator for a key for more of them (`airlock keys create --users`).", have, things)
	}
	return &Error{Op: op, Kind: ErrFull, ID: setting, Err: ErrQuota, Hint: hint}
}

// ErrQuota is the cause of an ErrFull that is about an owner's quota, and so no
// fault of the service.
var ErrQuota = errors.New("over the owner's quota")

// kept is what counts against one quota.
type kept struct {
	usage Usage
	quota Quota
}

// kept looks up what counts against each quota that holds for an owner: its own, and that of
// its account. There are none without a quota.
func (s *Service) kept(ctx context.Context, op string, owner Owner) ([]kept, error) {
	if s.cfg.Quota == (Quota{}) {
		return nil, nil
	}
	var all []kept
	for _, each := range owner.Accounts() {
		u, err := s.index.Usage(ctx, each)
		if err != nil {
			return nil, failure(op, "", err)
		}
		all = append(all, kept{u, s.cfg.Quota.For(each, owner, s.accounts.get(each))})
	}
	return all, nil
}

// checkMore returns ErrFull if an owner may not keep that many more files and sessions.
func (s *Service) checkMore(ctx context.Context, op string, owner Owner, more Usage) error {
	all, err := s.kept(ctx, op, owner)
	if err != nil {
		return err
	}
	for _, k := range all {
		if err := k.quota.Check(op, k.usage.with(more)); err != nil {
			return err
		}
	}
	return nil
}

// with returns a usage with more of what more has, and nothing else.
func (u Usage) with(more Usage) (sum Usage) {
	if more.Files > 0 {
		sum.Files, sum.Bytes = u.Files+more.Files, u.Bytes+more.Bytes
	}
	if more.Sessions > 0 {
		sum.Sessions = u.Sessions + more.Sessions
	}
	return sum
}

// Kept returns the usage of the caller, and its quota.
func (s *Service) Kept(ctx context.Context, caller Caller) (Usage, Quota, error) {
	u, err := s.index.Usage(ctx, caller.Owner)
	quota := s.cfg.Quota.For(caller.Owner, caller.Owner, s.accounts.get(caller.Owner))
	return u, quota, failure("look what is kept", "", err)
}

// upload is the upload of an owner with a quota.
type upload struct {
	from    io.Reader
	owner   Owner
	service *Service
	kept    []kept  // at the start of the upload
	bounds  []Bound // of what may arrive, by kept
	read    int64
}

// metered returns a reader that fails once an upload exceeds a quota of its owner. The
// caller calls done when the upload has ended.
func (s *Service) metered(
	ctx context.Context, op string, owner Owner, from io.Reader,
) (_ io.Reader, done func(), err error) {
	all, err := s.kept(ctx, op, owner)
	if err != nil {
		return nil, nil, err
	}
	if len(all) == 0 {
		return from, func() {}, nil
	}
	m := &upload{from: from, owner: owner, service: s, kept: all}
	for i, each := range owner.Accounts() {
		k := &all[i]
		k.usage = k.usage.with(Usage{Files: 1}) // this one
		if err := k.quota.Check(op, k.usage); err != nil {
			return nil, nil, err
		}
		_, room := k.quota.room(k.usage)
		m.bounds = append(m.bounds, Bound{each, room})
	}
	return m, func() { s.arrivals.Remove(owner, m.read) }, nil
}

// Read reads the upload. It returns ErrFull above a quota.
func (m *upload) Read(p []byte) (int, error) {
	n, err := m.from.Read(p)
	over, sum, ok := m.service.arrivals.Add(int64(n), math.MaxInt64, m.bounds)
	if !ok {
		for i, k := range m.kept {
			if &m.bounds[i] == over {
				k.usage.Bytes += sum
				return n, k.quota.Check("put file", k.usage)
			}
		}
	}
	m.read += int64(n)
	return n, err
}
