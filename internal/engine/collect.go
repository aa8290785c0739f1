package engine

import (
	"cmp"
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"math"
	"path"
	"slices"
	"strings"

	"golang.org/x/sync/errgroup"
)

func reasonFor(err error) string {
	switch {
	case errors.Is(err, ErrQuota):
		return DropQuotaFull
	case errors.Is(err, ErrFull):
		return DropDiskFull
	case errors.Is(err, ErrTooLarge):
		return DropTooLarge
	case errors.Is(err, ErrConflict):
		return DropMoved
	case errors.Is(err, ErrCanceled), errors.Is(err, context.DeadlineExceeded):
		return DropSlow
	}
	return DropUnstored
}

// storers is how many files of one run are stored at once. A disk makes many
// files durable in little more time than one.
const storers = 16

// collector stores the files of one run.
type collector struct {
	service *Service
	job     *job
	stage   *stage
	left    FileLimit // remaining capacity; Bytes stays
	quota   FileLimit // remaining quota of the owner: Count and Total
	end     *completion
	chosen  []*keeping
	changed map[string]bool

	respelled []string // names that differ from the program's
}

// keeping is a file to store.
type keeping struct {
	name   string
	output Output
	input  bool  // it changes an input
	room   int64 // the size when it was chosen: of a file that a process still writes, so much is stored
	blob   Blob
	err    error
}

// collect stores the files that a program left and adds them to the completion,
// with the states of the inputs. It checks the sandbox's sizes, names and counts
// again.
func (s *Service) collect(ctx context.Context, j *job, st *stage, outcome *Outcome, end *completion) {
	c := &collector{
		service: s, job: j, stage: st, left: j.request.Profile.Limits.Files, end: end,
		changed: map[string]bool{},
	}
	run := end.run
	for _, d := range outcome.Dropped {
		run.Dropped = append(run.Dropped, DroppedFile{Path: strings.ToValidUTF8(d.Path, "\uFFFD"), Reason: d.Reason,
			More: max(d.More, 0)})
	}
	if len(outcome.Outputs) > 0 {
		c.choose(ctx, outcome.Outputs)
		c.store(ctx)
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
	run.Message = sentences(append([]string{run.Message, respelledMessage(c.respelled)}, st.notes...)...)
}

func (c *collector) drop(name, reason string) {
	c.end.run.Dropped = append(c.end.run.Dropped, DroppedFile{Path: name, Reason: reason})
}

// choose decides which files are kept, in order of arrival.
func (c *collector) choose(ctx context.Context, outputs []Output) {
	all, err := c.service.kept(ctx, opRun, c.job.owner)
	if err != nil { // the index decides anyway
		c.service.log.ErrorContext(ctx, "what an owner keeps is not known", "run", c.job.id, "error", err)
	}
	c.quota.Count, c.quota.Total = math.MaxInt, math.MaxInt64
	for _, k := range all {
		files, bytes := k.quota.room(k.usage)
		c.quota.Count, c.quota.Total = min(c.quota.Count, files), min(c.quota.Total, bytes)
	}
	seen := map[string]bool{}
	for _, output := range outputs {
		name, err := CleanPath(output.Path)
		if err != nil || seen[name] {
			c.drop(strings.ToValidUTF8(output.Path, "\uFFFD"), DropName)
			c.discard(output)
			continue
		}
		seen[name] = true
		if !c.accept(name, output) {
			c.discard(output)
		}
		if output.Respelled {
			c.respelled = append(c.respelled, name)
		}
	}
}

// discard unpins the bytes of a file that is not kept.
func (c *collector) discard(o Output) {
	if o.File == nil && o.Blob.SHA256 != (Digest{}) {
		c.service.discardBlob(o.Blob.SHA256)
	}
}

// discardBlob unpins a blob that no file has.
func (s *Service) discardBlob(digest Digest) {
	s.reclaim.unpin(digest)
	s.janitor.enqueueOrphans(digest)
}

// accept reports whether it has chosen a file. It does not choose an unchanged input.
func (c *collector) accept(name string, o Output) bool {
	size, regular := sizeOf(o)
	before, readOnly, input := c.stage.at(name)
	switch {
	case !regular:
		c.drop(name, DropNotRegular)
	case input && (readOnly || same(o, size, before)):
	case c.left.Count == 0:
		c.drop(name, DropTooMany)
	case size > min(c.left.Bytes, c.left.Total):
		c.drop(name, DropTooLarge)
	case c.quota.Count == 0 || size > c.quota.Total:
		c.drop(name, DropQuotaFull)
	default:
		for _, left := range []*FileLimit{&c.left, &c.quota} {
			left.Count--
			left.Total -= size
		}
		c.chosen = append(c.chosen, &keeping{name: name, output: o, input: input, room: size})
		return true
	}
	return false
}

// store stores the chosen files, several at once.
func (c *collector) store(ctx context.Context) {
	var group errgroup.Group
	group.SetLimit(storers)
	for _, k := range c.chosen {
		group.Go(func() error { // not in the run's own goroutine: a panic has to be caught here
			k.err = cmp.Or(c.service.guard(ctx, c.job, func() { c.put(ctx, k) }), k.err)
			return nil
		})
	}
	_ = group.Wait() // each file has its own error
	for _, k := range c.chosen {
		c.record(ctx, k)
	}
}

// put stores one file.
func (c *collector) put(ctx context.Context, k *keeping) {
	if k.output.File == nil {
		k.blob = k.output.Blob
		return
	}
	// One byte more than fits, and no more, however long the file is.
	k.blob, k.err = c.service.blobs.Put(ctx, io.NewSectionReader(k.output.File, 0, k.room), k.room)
}

// record records the result of storing a file.
func (c *collector) record(ctx context.Context, k *keeping) {
	if k.err != nil {
		if KindOf(k.err) == ErrInternal {
			c.service.log.ErrorContext(ctx, "a run's file could not be stored", "run", c.job.id, "error", k.err)
		}
		c.drop(k.name, reasonFor(k.err))
		return
	}
	c.end.pinned = append(c.end.pinned, k.blob.SHA256)
	c.changed[k.name] = k.input
	head := k.output.Head
	if k.output.File != nil {
		head = Head(k.output.File)
	}
	ttl, now, origin := c.job.request.Profile.Files.TTL, c.service.now(), c.job.request.Profile.Origin
	if k.name == TreeMark {
		origin = OriginHeld // of which there is no list
	}
	c.end.run.Files = append(c.end.run.Files, File{
		ID: NewID(), Owner: c.job.owner, Origin: origin,
		Name: path.Base(k.name), Path: k.name, Size: k.blob.Size, MIME: typeOf(k.name, head), SHA256: k.blob.SHA256,
		Run: c.job.id, CreatedAt: now, ExpiresAt: now.Add(ttl), TTL: ttl,
	})
}

// sizeOf guards against a sandbox that delivers anything else than a regular
// file.
func sizeOf(o Output) (size int64, regular bool) {
	if o.File == nil {
		return o.Blob.Size, o.Blob.SHA256 != Digest{} && o.Blob.Size >= 0
	}
	info, err := o.File.Stat()
	if err != nil || !info.Mode().IsRegular() {
		return 0, false
	}
	return info.Size(), true
}

// same reports whether a program's file has the bytes of a stored one.
func same(o Output, size int64, stored File) bool {
	if o.File == nil {
		return o.Blob.SHA256 == stored.SHA256
	}
	if size != stored.Size {
		return false
	}
	hash := sha256.New()
	if _, err := io.Copy(hash, io.NewSectionReader(o.File, 0, stored.Size+1)); err != nil {
		return false
	}
	return Digest(hash.Sum(nil)) == stored.SHA256
}
