package enginetest

import (
	"context"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// snapshot is a snapshot with its files, and their places.
type snapshot struct {
	engine.Snapshot
	files  []engine.File
	places []engine.SessionFile
}

// filesIn returns the files of a session and their places. The caller holds mu.
func (x *Index) filesIn(id engine.ID) (files []engine.File, places []engine.SessionFile) {
	for _, place := range x.places[id] {
		if r := x.files[place.File]; r != nil && x.lasts(r.object.ExpiresAt) {
			files, places = append(files, r.object), append(places, place)
		}
	}
	return files, places
}

// AddSnapshot records a snapshot.
func (x *Index) AddSnapshot(ctx context.Context, s engine.Snapshot) (engine.Snapshot, error) {
	if err := x.called(ctx, "AddSnapshot"); err != nil {
		return s, err
	}
	defer x.mu.Unlock()
	r, err := x.session(s.Owner, s.Session)
	if err != nil {
		return s, err
	}
	files, places := x.filesIn(s.Session)
	s.Kind, s.Live, s.Wall, s.Files = r.object.Kind, r.object.Live, r.object.Wall, len(files)
	for i := range files {
		s.Bytes += files[i].Size
	}
	x.shots[s.ID] = &row[snapshot]{snapshot{s, files, places}, x.next()}
	if err := x.checkQuota("AddSnapshot", s.Owner); err != nil {
		delete(x.shots, s.ID)
		return s, err
	}
	return s, nil
}

// shot finds a snapshot of an owner that has not expired.
func (x *Index) shot(owner engine.Owner, id engine.ID) (*row[snapshot], error) {
	r, ok := x.shots[id]
	if !ok || r.object.Owner != owner || !x.lasts(r.object.ExpiresAt) {
		return nil, engine.ErrNotFound
	}
	return r, nil
}

// Snapshot returns a snapshot of an owner.
func (x *Index) Snapshot(ctx context.Context, owner engine.Owner, id engine.ID) (engine.Snapshot, error) {
	if err := x.called(ctx, "Snapshot"); err != nil {
		return engine.Snapshot{}, err
	}
	defer x.mu.Unlock()
	r, err := x.shot(owner, id)
	if err != nil {
		return engine.Snapshot{}, err
	}
	return r.object.Snapshot, nil
}

// Snapshots lists snapshots.
func (x *Index) Snapshots(ctx context.Context, q engine.SnapshotQuery) (found []engine.Snapshot, err error) {
	if err := x.called(ctx, "Snapshots"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	for _, s := range page(x.shots, q.Page, func(s snapshot) bool {
		return s.Owner == q.Owner && x.lasts(s.ExpiresAt) && (q.Name == "" || s.Name == q.Name) &&
			(q.Session.IsZero() || s.Session == q.Session)
	}) {
		found = append(found, s.Snapshot)
	}
	return found, nil
}

// DeleteSnapshot deletes a snapshot.
func (x *Index) DeleteSnapshot(ctx context.Context, owner engine.Owner, id engine.ID) ([]engine.Digest, error) {
	if err := x.called(ctx, "DeleteSnapshot"); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	r, err := x.shot(owner, id)
	if err != nil {
		return nil, err
	}
	delete(x.shots, id)
	var digests []engine.Digest
	for i := range r.object.files {
		digests = append(digests, r.object.files[i].SHA256)
	}
	return digests, nil
}

// ExpireSnapshots deletes snapshots that have expired by now.
func (x *Index) ExpireSnapshots(ctx context.Context, now time.Time, limit int) (n int, err error) {
	if err := x.called(ctx, "ExpireSnapshots"); err != nil {
		return 0, err
	}
	defer x.mu.Unlock()
	for id, r := range x.shots {
		if n < limit && !r.object.ExpiresAt.After(now) {
			delete(x.shots, id)
			n++
		}
	}
	return n, nil
}

// AddCopies records sessions with copies of files.
func (x *Index) AddCopies(
	ctx context.Context, from engine.CopySource, sessions []engine.Session, ttl time.Duration,
) error {
	if err := x.called(ctx, "AddCopies"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	owner := sessions[0].Owner
	files, places := x.filesIn(from.Session)
	if from.Snapshot.IsZero() {
		if _, err := x.session(owner, from.Session); err != nil {
			return err
		}
	} else {
		r, err := x.shot(owner, from.Snapshot)
		if err != nil {
			return err
		}
		files, places = r.object.files, r.object.places
		extend(&r.object.ExpiresAt, sessions[0].CreatedAt.Add(r.object.TTL))
	}
	var added []engine.ID
	for _, s := range sessions {
		copies := slices.Clone(places)
		for i, f := range files {
			f.ID, f.Owner, f.Origin, f.Path, f.Run = engine.NewID(), owner, s.Origin, copies[i].Path, engine.ID{}
			f.CreatedAt, f.ExpiresAt, f.TTL = s.CreatedAt, s.CreatedAt.Add(ttl), ttl
			x.files[f.ID] = &row[engine.File]{f, x.next()}
			copies[i].Session, copies[i].File = s.ID, f.ID
			added = append(added, f.ID)
		}
		x.addSession(s, copies)
	}
	err := x.checkQuota("AddCopies", owner)
	if err != nil {
		for _, s := range sessions {
			delete(x.sessions, s.ID)
			delete(x.places, s.ID)
		}
		for _, id := range added {
			x.dropFile(id)
		}
	}
	return err
}
