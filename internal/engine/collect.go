package engine

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path"
	"slices"
	"strings"
)

// Why a file of a run was not kept, beside what the sandbox says.
const (
	reasonName       = "name"
	reasonTooMany    = "too many files"
	reasonTooLarge   = "too large"
	reasonNotRegular = "not a regular file"
	reasonUnreadable = "unreadable"
	reasonFull       = "disk full"
	reasonSlow       = "storing took too long"
)

func reasonFor(err error) string {
	switch {
	case errors.Is(err, ErrFull):
		return reasonFull
	case errors.Is(err, ErrTooLarge):
		return reasonTooLarge
	case errors.Is(err, ErrCanceled), errors.Is(err, context.DeadlineExceeded):
		return reasonSlow
	}
	return reasonUnreadable
}

// collector stores what one run left.
type collector struct {
	service *Service
	job     *job
	stage   *stage
	left    FileLimit // what may still be kept; Bytes stays
	end     *ending
	changed map[string]bool
}

// collect stores the files that a program left and fills them into the
// ending, with what became of the inputs. Whatever the sandbox says of sizes,
// names and counts is checked again.
func (s *Service) collect(ctx context.Context, j *job, st *stage, outcome *Outcome, end *ending) {
	c := &collector{
		service: s, job: j, stage: st, left: j.request.Profile.Limits.Files, end: end,
		changed: map[string]bool{},
	}
	run := end.run
	for _, d := range outcome.Dropped {
		run.Dropped = append(run.Dropped, DroppedFile{Path: strings.ToValidUTF8(d.Path, "\uFFFD"), Reason: d.Reason})
	}
	seen := map[string]bool{}
	for _, output := range outcome.Outputs {
		name, err := CleanPath(output.Path)
		if err != nil || seen[name] {
			c.drop(strings.ToValidUTF8(output.Path, "\uFFFD"), reasonName)
			continue
		}
		seen[name] = true
		c.take(ctx, name, output.File)
	}
	slices.SortFunc(run.Files, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	for _, gone := range outcome.Deleted {
		if _, readOnly, ok := st.at(gone); ok && !readOnly {
			end.deleted = append(end.deleted, gone)
		}
	}
	for _, e := range st.entries {
		run.Inputs = append(run.Inputs, InputState{
			ID: e.file.ID, Path: e.path, Changed: c.changed[e.path], Deleted: slices.Contains(end.deleted, e.path),
		})
	}
	run.Message = sentences(append([]string{run.Message}, st.notes...)...)
}

func (c *collector) drop(name, reason string) {
	c.end.run.Dropped = append(c.end.run.Dropped, DroppedFile{Path: name, Reason: reason})
}

// take stores one file, unless it is an input as it was.
func (c *collector) take(ctx context.Context, name string, f *os.File) {
	before, readOnly, input := c.stage.at(name)
	switch {
	case !isRegular(f):
		c.drop(name, reasonNotRegular)
		return
	case input && (readOnly || same(f, before)):
		return
	case c.left.Count == 0:
		c.drop(name, reasonTooMany)
		return
	}
	room := min(c.left.Bytes, c.left.Total)
	// One byte more than fits, and no more, however long the file is.
	blob, err := c.service.blobs.Put(ctx, io.NewSectionReader(f, 0, room+1), room)
	if err != nil {
		if KindOf(err) == ErrInternal {
			c.service.log.ErrorContext(ctx, "a run's file could not be stored", "run", c.job.id, "error", err)
		}
		c.drop(name, reasonFor(err))
		return
	}
	c.end.pinned = append(c.end.pinned, blob.SHA256)
	c.left.Count--
	c.left.Total -= blob.Size
	c.changed[name] = input
	ttl, now := c.job.request.Profile.FileTTL, c.service.now()
	c.end.run.Files = append(c.end.run.Files, File{
		ID: NewID(), Owner: c.job.owner, Origin: c.job.request.Profile.Origin,
		Name: path.Base(name), Path: name, Size: blob.Size, MIME: typeOf(name, headOf(f)), SHA256: blob.SHA256,
		Run: c.job.id, CreatedAt: now, ExpiresAt: now.Add(ttl), TTL: ttl,
	})
}

// isRegular guards against a sandbox that hands over something else.
func isRegular(f *os.File) bool {
	if f == nil {
		return false
	}
	info, err := f.Stat()
	return err == nil && info.Mode().IsRegular()
}

// same reports whether an open file has the bytes of a stored one.
func same(f *os.File, stored File) bool {
	info, err := f.Stat()
	if err != nil || info.Size() != stored.Size {
		return false
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(f, 0, stored.Size+1)); err != nil {
		return false
	}
	return Digest(hash.Sum(nil)) == stored.SHA256
}
