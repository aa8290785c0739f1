package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"time"
)

// PutFile stores a file. Its name must pass CleanPath and is kept as it was
// given. When PutFile returns, the file survives a power cut.
func (s *Service) PutFile(ctx context.Context, caller Caller, up Upload, content io.Reader) (File, error) {
	const op = "put file"
	if _, err := CleanPath(up.Name); err != nil {
		return File{}, Invalid("name", "%w", err)
	}
	if up.TTL < 0 {
		return File{}, Invalid("ttl", "must not be negative")
	}
	if up.MIME != "" {
		given, err := givenType(up.MIME)
		if err != nil {
			return File{}, Invalid("mime", "%w", err)
		}
		up.MIME = given
	}
	if err := s.roomFor(op); err != nil {
		return File{}, err
	}
	if up.Max <= 0 || up.Max > s.cfg.MaxUpload {
		up.Max = s.cfg.MaxUpload
	}
	var beginning head
	source := &source{from: io.TeeReader(content, &beginning)}
	within, done, err := s.metered(ctx, op, caller.Owner, source)
	if err != nil {
		return File{}, err
	}
	defer done()
	blob, err := s.blobs.Put(ctx, within, up.Max)
	if err != nil {
		return File{}, uploadFailure(ctx, op, up.Max, source.err, err)
	}
	defer s.reclaim.unpin(blob.SHA256)
	if up.MIME == "" {
		up.MIME = typeOf(up.Name, beginning.bytes)
	}
	up.TTL = cmp.Or(up.TTL, s.cfg.FileTTL)
	up.Origin = cmp.Or(up.Origin, OriginNative)
	if up.ID.IsZero() {
		up.ID = NewID()
	}
	now := s.now()
	file := File{
		ID: up.ID, Owner: caller.Owner, Origin: up.Origin, Name: up.Name, Size: blob.Size, MIME: up.MIME,
		SHA256: blob.SHA256, CreatedAt: now, ExpiresAt: now.Add(up.TTL), TTL: up.TTL,
	}
	if err := s.index.AddFile(ctx, file); err != nil {
		s.janitor.enqueueOrphans(blob.SHA256)
		return File{}, failure(op, "", err)
	}
	return file, nil
}

// source remembers what was wrong with what it read from.
type source struct {
	from io.Reader
	err  error
}

func (r *source) Read(p []byte) (int, error) {
	n, err := r.from.Read(p)
	if err != nil && err != io.EOF {
		r.err = err
	}
	return n, err
}

// uploadFailure says why bytes were not stored: the caller left, sent too
// much, broke off, or the store could not.
func uploadFailure(ctx context.Context, op string, most int64, read, err error) error {
	switch {
	case errors.Is(err, ErrTooLarge):
		return &Error{Op: op, Kind: ErrTooLarge, Hint: fmt.Sprintf("A file may have at most %s.", byteCount(most)), Err: err}
	case ctx.Err() != nil:
		return &Error{Op: op, Kind: ErrCanceled, Err: context.Cause(ctx)}
	case read != nil:
		return &Error{Op: op, Kind: ErrInvalid, Hint: "The file did not arrive whole.", Err: read}
	}
	return failure(op, "", err)
}

// GetFile returns what is known of a file.
func (s *Service) GetFile(ctx context.Context, caller Caller, id ID) (File, error) {
	return s.file(ctx, "get file", id.String(), caller.Owner, id)
}

// OpenFile returns a file and its bytes, which the caller closes. It is a use
// of the file: its lifetime begins anew. A file whose bytes are lost or
// damaged is not found.
func (s *Service) OpenFile(ctx context.Context, caller Caller, id ID) (File, Content, error) {
	const op = "open file"
	file, err := s.file(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return File{}, nil, err
	}
	content, err := s.blobs.Read(ctx, file.SHA256, file.Size)
	if errors.Is(err, ErrNotFound) {
		s.log.ErrorContext(ctx, "the bytes of a file are lost or damaged", "file", id)
		return File{}, nil, &Error{Op: op, Kind: ErrNotFound, ID: id.String()}
	}
	if err != nil {
		return File{}, nil, failure(op, id.String(), err)
	}
	s.use(ctx, file)
	file.ExpiresAt = s.touches.fileExpiry(file)
	return file, content, nil
}

// HasContent reports whether the bytes of a file are there. It is no use of it.
func (s *Service) HasContent(ctx context.Context, file *File) bool {
	return s.blobs.Has(ctx, file.SHA256, file.Size)
}

// use begins the lifetime of files anew. That is written down by the janitor,
// and at once only when it might come too late: the index does not know of uses
// that are not written down.
func (s *Service) use(ctx context.Context, files ...File) {
	now := s.now()
	var soon map[ID]time.Time
	for i := range files {
		s.touches.file(files[i], now)
		if files[i].ExpiresAt.Sub(now) > 2*cleanUpInterval {
			continue
		}
		if soon == nil {
			soon = map[ID]time.Time{}
		}
		soon[files[i].ID] = now
	}
	if len(soon) == 0 {
		return
	}
	if err := s.index.TouchFiles(ctx, soon); err != nil {
		s.touches.failed(true)
		s.logFailure(ctx, "write down a use", err)
	}
}

// useSession is use for a session.
func (s *Service) useSession(ctx context.Context, session Session, now time.Time) {
	left := s.touches.sessionExpiry(session).Sub(now)
	s.touches.session(session, now)
	if left > 2*cleanUpInterval {
		return
	}
	if err := s.index.TouchSession(ctx, session.ID, now); err != nil && !errors.Is(err, ErrNotFound) {
		s.touches.failed(true)
		s.logFailure(ctx, "write down a use", err)
	}
}

// file finds a file that has not expired. An error names it as called; one
// that belongs to somebody else is like one that is not there.
func (s *Service) file(ctx context.Context, op, called string, owner Owner, id ID) (File, error) {
	file, err := s.index.File(ctx, owner, id)
	if errors.Is(err, ErrNotFound) {
		again, failed := s.recall(ctx, id)
		if failed != nil {
			return File{}, failure(op, called, failed)
		}
		if again {
			file, err = s.index.File(ctx, owner, id)
		}
	}
	if err != nil && !errors.Is(err, ErrNotFound) {
		return File{}, failure(op, called, err)
	}
	file.ExpiresAt = s.touches.fileExpiry(file)
	if err != nil || !file.ExpiresAt.After(s.now()) {
		return File{}, &Error{Op: op, Kind: ErrNotFound, ID: called}
	}
	return file, nil
}

// ListFiles returns the caller's files, newest first.
func (s *Service) ListFiles(ctx context.Context, caller Caller, query FileQuery) ([]File, error) {
	query.Owner = caller.Owner
	page, err := checkPage(query.Page)
	if err != nil {
		return nil, err
	}
	query.Page = page
	files, err := s.index.Files(ctx, query)
	if err != nil {
		return nil, failure("list files", "", err)
	}
	for i := range files {
		files[i].ExpiresAt = s.touches.fileExpiry(files[i])
	}
	return files, nil
}

// DeleteFile forgets a file. Runs that have it open keep its bytes until they
// end.
func (s *Service) DeleteFile(ctx context.Context, caller Caller, id ID) error {
	const op = "delete file"
	file, err := s.file(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return err
	}
	if err := s.index.DeleteFile(ctx, caller.Owner, id); err != nil {
		if errors.Is(err, ErrNotFound) {
			return &Error{Op: op, Kind: ErrNotFound, ID: id.String()}
		}
		return failure(op, id.String(), err)
	}
	s.janitor.enqueueOrphans(file.SHA256)
	return nil
}

// The sizes of a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

func checkPage(p Page) (Page, error) {
	if p.Limit < 0 || p.Limit > maxPage {
		return p, Invalid("limit", "must be from 1 to %d", maxPage)
	}
	p.Limit = cmp.Or(p.Limit, defaultPage)
	return p, nil
}
