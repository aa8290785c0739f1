package engine

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
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
	if err := s.RoomFor(op); err != nil {
		return File{}, err
	}
	if err := s.CheckMonth(ctx, op, caller); err != nil {
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
	s.Count(caller, Consumption{Stored: file.Size})
	return file, nil
}

// source records the error of the reader below it.
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

// uploadFailure returns why bytes were not stored: the caller left, sent too
// much, stopped early, or the store failed.
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

// GetFile returns the description of a file.
func (s *Service) GetFile(ctx context.Context, caller Caller, id ID) (File, error) {
	return s.file(ctx, "get file", id.String(), caller.Owner, id)
}

// OpenFile returns a file and its bytes, which the caller closes. It is a use
// of the file: its lifetime restarts. If the bytes are lost or damaged, the
// file is not found.
func (s *Service) OpenFile(ctx context.Context, caller Caller, id ID) (File, Content, error) {
	const op = "open file"
	file, err := s.file(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return File{}, nil, err
	}
	content, err := s.blobs.Read(ctx, file.SHA256, file.Size)
	if errors.Is(err, ErrNotFound) {
		s.log.ErrorContext(ctx, "the bytes of a file are lost or damaged", "file", id)
	}
	if err != nil {
		return File{}, nil, missing(op, id.String(), err)
	}
	s.use(ctx, s.now(), file.life())
	file.ExpiresAt = s.touches.expiry(file.life())
	return file, content, nil
}

// OpenShared opens a file for whoever knows its id, if it has an origin that is for that.
func (s *Service) OpenShared(ctx context.Context, origin Origin, id ID) (File, Content, error) {
	var owner Owner
	err := s.find(ctx, func() (err error) {
		owner, err = s.index.OwnerOf(ctx, origin, id)
		return err
	}, id)
	if err != nil {
		return File{}, nil, missing("open file", id.String(), err)
	}
	return s.OpenFile(ctx, Caller{Owner: owner}, id)
}

// HasContent reports whether the bytes of a file are there. It does not extend its lifetime.
func (s *Service) HasContent(ctx context.Context, file *File) bool {
	return s.blobs.Has(ctx, file.SHA256, file.Size)
}

// file finds a file that has not expired. An error names it as called. A file of
// another owner is not found.
func (s *Service) file(ctx context.Context, op, called string, owner Owner, id ID) (File, error) {
	var file File
	err := s.find(ctx, func() (err error) {
		file, err = s.index.File(ctx, owner, id)
		return err
	}, id)
	if file.ExpiresAt = s.touches.expiry(file.life()); err == nil && !file.ExpiresAt.After(s.now()) {
		err = ErrNotFound
	}
	if err != nil {
		return File{}, missing(op, called, err)
	}
	return file, nil
}

// ListFiles returns the caller's files, newest first.
func (s *Service) ListFiles(ctx context.Context, caller Caller, query FileQuery) ([]File, error) {
	query.Owner = caller.Owner
	if err := query.Page.check(); err != nil {
		return nil, err
	}
	files, err := s.index.Files(ctx, query)
	if err != nil {
		return nil, failure("list files", "", err)
	}
	for i := range files {
		files[i].ExpiresAt = s.touches.expiry(files[i].life())
	}
	return files, nil
}

// DeleteFile deletes a file. Runs that have it open keep its bytes until they
// end.
func (s *Service) DeleteFile(ctx context.Context, caller Caller, id ID) error {
	const op = "delete file"
	file, err := s.file(ctx, op, id.String(), caller.Owner, id)
	if err != nil {
		return err
	}
	if err := s.index.DeleteFile(ctx, caller.Owner, id); err != nil {
		return missing(op, id.String(), err)
	}
	s.janitor.enqueueOrphans(file.SHA256)
	return nil
}

// The sizes of a page of a list.
const (
	defaultPage = 100
	maxPage     = 1000
)

// check fills in the default limit and refuses a limit out of range.
func (p *Page) check() error {
	if p.Limit < 0 || p.Limit > maxPage {
		return Invalid("limit", "must be from 1 to %d", maxPage)
	}
	p.Limit = cmp.Or(p.Limit, defaultPage)
	return nil
}
