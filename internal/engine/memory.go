package engine

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"slices"

	"github.com/klauspost/compress/zstd"
)

// MemoryMark is the place, among the files of a live session, of what the session goes on with: its memory, and its
// files outside of the workspace. It is no path that a caller or a program can name, so that nobody but the service
// writes what a kernel is made of.
const MemoryMark = "/memory"

// NoMemory is the ID in the error of a sandbox that cannot go on as it was stored, and never will.
const NoMemory = "memory"

// mostMemory bounds what is stored beside the memory limit of a session: what it has in /tmp and elsewhere.
const mostMemory = 4 << 30

// SaveMemory stores a live session with its memory, while its interpreter waits for an order, and then all changes in
// its workspace. The interpreter has ended then, unless it goes on, as it does if anything cannot be stored.
func (s *Service) SaveMemory(
	ctx context.Context, session Session, controls Controls, goOn bool,
) (saved Saved, err error) {
	const op = "store the memory of a session"
	if controls.Store == nil {
		return Saved{}, RefuseMemory(op)
	}
	from, to, err := os.Pipe()
	if err != nil {
		return Saved{}, err
	}
	defer from.Close()
	stored := make(chan error, 1)
	go func() {
		err := controls.Store(to)
		to.Close()
		stored <- err
	}()
	packed, pack := io.Pipe()
	go func() {
		w, err := zstd.NewWriter(pack, zstd.WithEncoderLevel(zstd.SpeedFastest))
		if err == nil {
			_, err = w.ReadFrom(from)
			err = errors.Join(err, w.Close())
		}
		pack.CloseWithError(err)
	}()
	blob, err := s.blobs.Put(ctx, packed, mostMemory)
	packed.CloseWithError(err) // the other goroutines end
	if err != nil {
		from.Close()
	}
	if failed := <-stored; failed != nil { // it goes on
		if err == nil {
			s.discardBlob(blob.SHA256)
		}
		return Saved{}, failure(op, session.ID.String(), cmp.Or(err, failed)) // without room it had no reader
	}
	defer func() { err = cmp.Or(err, controls.Settle(goOn || err != nil)) }()
	if err != nil {
		return Saved{}, failure(op, session.ID.String(), err)
	}
	defer s.reclaim.unpin(blob.SHA256)
	saved, err = s.SaveAll(ctx, session)
	if err != nil {
		s.janitor.enqueueOrphans(blob.SHA256)
		return saved, err
	}
	now, ttl := s.now(), max(s.cfg.FileTTL, session.TTL)
	run := &Run{ID: NewID(), Owner: session.Owner, Session: session.ID, Generation: session.Place.Generation}
	run.Files = []File{{ID: NewID(), Owner: session.Owner, Origin: OriginHeld, Name: MemoryMark[1:], Path: MemoryMark,
		Size: blob.Size, MIME: "application/zstd", SHA256: blob.SHA256, Run: run.ID, CreatedAt: now, ExpiresAt: now.Add(ttl),
		TTL: ttl}}
	if err := s.index.SaveFiles(ctx, run, nil, now); err != nil {
		s.janitor.enqueueOrphans(blob.SHA256)
		return saved, failure(op, session.ID.String(), err)
	}
	s.Count(Caller{Owner: session.Owner, Key: s.keyOf(session.ID)}, Consumption{Stored: blob.Size})
	return saved, nil
}

// ForgetMemory removes the stored memory of a session, which has gone on since.
func (s *Service) ForgetMemory(ctx context.Context, session Session) error {
	run := &Run{ID: NewID(), Owner: session.Owner, Session: session.ID, Generation: session.Place.Generation}
	err := s.index.SaveFiles(ctx, run, []string{MemoryMark}, s.now())
	return failure("forget the memory of a session", session.ID.String(), err)
}

// HasMemory reports whether a session that does not run goes on with its memory.
func (s *Service) HasMemory(ctx context.Context, session Session) (bool, error) {
	_, places, err := s.index.SessionFiles(ctx, session.Owner, session.ID)
	return slices.ContainsFunc(places, func(f SessionFile) bool { return f.Path == MemoryMark }),
		failure("find the memory of a session", session.ID.String(), err)
}

// openMemory opens the stored memory of a session, to be read by its sandbox; nil: there is none.
func (s *Service) openMemory(ctx context.Context, file *File) (*os.File, error) {
	if file == nil {
		return nil, nil
	}
	content, err := s.blobs.Open(ctx, file.SHA256, file.Size)
	if err != nil {
		return nil, err
	}
	from, to, err := os.Pipe()
	if err != nil {
		content.Close()
		return nil, err
	}
	go func() {
		defer content.Close()
		defer to.Close()
		r, err := zstd.NewReader(content)
		if err != nil {
			return
		}
		defer r.Close()
		_, _ = r.WriteTo(to) // the sandbox finds out that it ends too early, and may have ended itself
	}()
	return from, nil
}
