package provider

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"
)

// Collector finds and fetches the files that a turn made. It looks in all places where
// files can be, also if the reply names none.
type Collector struct {
	Quarantine *Quarantine
	Retry      Retry
	Parallel   int           // downloads at once: 8
	MaxBytes   int64         // of one file: 100 MiB
	MaxFiles   int           // of one turn: 300
	Idle       time.Duration // a download that stalls this long is cancelled: 30 s
	Counters   *Counters     // may be nil
	// Progress is called with the bytes fetched of a file, from many goroutines; may
	// be nil.
	Progress func(a Artifact, done int64)
}

// Collection holds the files of a turn.
type Collection struct {
	Files []Artifact // in the quarantine, each with a hash and a unique name
	// Failed were found and could not be fetched. They are still at the provider
	// until it deletes them.
	Failed []Failure
	// Missing are the names of files that the answer promises and that were not found.
	Missing []string
	// Blind are errors of listing a session: files that the reply does not name may
	// have been overlooked.
	Blind []error
	// Unlisted are the sessions of Blind. "" stands for the account's files.
	Unlisted []string
}

// Failure is a file that could not be fetched.
type Failure struct {
	Artifact Artifact
	Err      error
}

// Problem returns an error if files may have been overlooked, or if files were promised
// and none was found.
func (c *Collection) Problem() error {
	if len(c.Blind) > 0 {
		hint := "What may hold them is not deleted at the provider; how to fetch it later is said at the end."
		if !slices.ContainsFunc(c.Blind, func(err error) bool { return KindOf(err) != ContainerExpired }) {
			hint = ContainerExpired.Hint()
		}
		return &Error{Kind: OutputsMissing, Op: "collect", Message: fmt.Sprintf(
			"files that the code made may have been overlooked: %v", c.Blind[0]), Err: errors.Join(c.Blind...), Hint: hint}
	}
	if len(c.Missing) == 0 || len(c.Files)+len(c.Failed) > 0 {
		return nil
	}
	return &Error{Kind: OutputsMissing, Op: "collect", Message: fmt.Sprintf(
		"the answer promises %d files, and none was found: %v", len(c.Missing), c.Missing)}
}

// Snapshot holds the files of sessions before a turn.
type Snapshot map[string]map[string]FileInfo // session, id (or path)

// Snapshot lists sessions. A session that cannot be listed is left out: all its files
// count as new later.
func (c *Collector) Snapshot(ctx context.Context, p Provider, sessions ...string) (Snapshot, error) {
	s := Snapshot{}
	if !p.Caps().SessionFiles {
		return s, nil
	}
	for _, id := range sessions {
		if id == "" {
			continue
		}
		files, err := c.list(ctx, p, id)
		if err != nil {
			if ctx.Err() != nil || KindOf(err) == ContainerExpired {
				return s, err
			}
			continue
		}
		s[id] = map[string]FileInfo{}
		for _, f := range files {
			s[id][fileKey(f.Ref)] = f
		}
	}
	return s, nil
}

func (c *Collection) blind(session string, err error) {
	c.Blind, c.Unlisted = append(c.Blind, err), append(c.Unlisted, session)
}

// maxListed bounds the files of a session.
const maxListed = 100_000

// list returns the files that it could list, also with an error.
func (c *Collector) list(ctx context.Context, p Provider, session string) (files []FileInfo, err error) {
	err = c.Retry.Do(ctx, func(ctx context.Context) error {
		var now []FileInfo
		defer func() {
			if len(now) >= len(files) {
				files = now
			}
		}()
		for f, err := range p.Sessions().Files(ctx, session) {
			if err != nil {
				return err
			}
			if len(now) == maxListed {
				return &Error{Kind: TooLarge, Provider: p.Name(), Op: "list the files of " + session,
					Message: fmt.Sprintf("there are more than %d", maxListed)}
			}
			now = append(now, f)
		}
		return nil
	})
	return files, err
}

func artifactOf(f FileInfo, found ...Evidence) Artifact {
	return Artifact{Ref: f.Ref, Name: f.Name, MIME: f.MIME, Size: f.Size, SHA256: f.SHA256, FoundBy: found,
		Created: f.Created}
}

func fileKey(r FileRef) string {
	return cmp.Or(r.ID, r.Path)
}

// Collect finds the files of a turn and fetches them at once, before the user is asked
// about them, so that they do not expire meanwhile. The error is the context's, or that of a
// Collector without a Quarantine; all others are in the collection.
func (c *Collector) Collect(ctx context.Context, p Provider, before Snapshot, r *RunResult) (*Collection, error) {
	if c.Quarantine == nil {
		return nil, &Error{Kind: Invalid, Provider: p.Name(), Op: "collect",
			Message: "the Collector has no Quarantine to fetch files into", Hint: "Open one with OpenQuarantine."}
	}
	found := &discovery{provider: p.Name()}
	for _, a := range r.Artifacts {
		found.add(a)
	}
	collection := &Collection{}
	var inputs []FileInfo
	for _, id := range found.sessions(r) {
		if !p.Caps().SessionFiles {
			break
		}
		files, err := c.list(ctx, p, id)
		if err != nil {
			collection.blind(id, err)
		}
		foreign := len(r.Sessions) > 0 && before[id] == nil && !slices.ContainsFunc(
			r.Sessions, func(s Session) bool { return s.ID == id })
		for _, f := range files {
			old, known := before[id][fileKey(f.Ref)]
			if f.Origin == OriginUser || known && old.Size == f.Size && old.Created.Equal(f.Created) {
				inputs = append(inputs, f)
				continue
			}
			// Of a session that is cited and that the turn did not run in, only the
			// cited files are new.
			if foreign && found.find(f.Ref) == nil {
				continue
			}
			found.add(artifactOf(f, ByListing))
		}
	}
	if p.Caps().Outputs == OutputByID && r.Stop == StopError { // the rest of the reply is lost, its files are not
		known := func(id string) bool { return found.find(FileRef{Scope: ScopeFile, ID: id}) != nil }
		files, err := c.meanwhile(ctx, p, r, known)
		if err != nil {
			collection.blind("", err)
		}
		for _, f := range files {
			found.add(artifactOf(f, ByListing))
		}
	}
	collection.Failed = found.frames(r.Steps)
	if p.Caps().Outputs == OutputStdout { // some models repeat the frames in the answer
		var failed []Failure
		r.Text, failed = found.framed(r.Text, "")
		for _, f := range failed { // a bad copy of a good file is no loss
			if !slices.ContainsFunc(found.all, func(a *Artifact) bool { return a.Name == f.Artifact.Name }) {
				collection.Failed = append(collection.Failed, f)
			}
		}
	}
	found.newest()
	collection.Missing = found.links(r.Text, inputs)
	if most := cmp.Or(max(c.MaxFiles, 0), 300); len(found.all) > most {
		for _, a := range found.all[most:] {
			collection.Failed = append(collection.Failed, Failure{*a,
				&Error{Kind: TooLarge, Provider: p.Name(), Message: fmt.Sprintf(
					"%s is more than the %d files that are fetched of one turn", a.Name, most)}})
		}
		found.all = found.all[:most]
	}
	took, retried := c.fetchAll(ctx, p, found.all, collection)
	c.Counters.collected(p.Name(), r.Model, collection, took, retried)
	return collection, ctx.Err()
}

// fetchAll fetches in parallel. A failure does not stop the others. It returns the sum of
// the durations and the number of repeated attempts.
func (c *Collector) fetchAll(
	ctx context.Context, p Provider, all []*Artifact, into *Collection,
) (took time.Duration, retried int64) {
	type outcome struct {
		a     Artifact
		err   error
		tries int64
		took  time.Duration
	}
	outcomes := make([]outcome, len(all))
	var fetches errgroup.Group
	fetches.SetLimit(cmp.Or(max(c.Parallel, 0), 8))
	for i, a := range all {
		fetches.Go(func() error {
			begun := time.Now()
			got, tries, err := c.fetch(ctx, p, *a)
			outcomes[i] = outcome{got, err, tries, time.Since(begun)}
			return nil
		})
	}
	_ = fetches.Wait() // each error is in its outcome
	var fetched []Artifact
	for _, o := range outcomes {
		took += o.took
		retried += max(o.tries-1, 0)
		if o.err != nil {
			into.Failed = append(into.Failed, Failure{o.a, o.err})
			continue
		}
		fetched = append(fetched, o.a)
	}
	into.Files = nameAll(sameBytes(fetched))
	return took, retried
}

// sameBytes merges files of the same content if they have the same name, or if one has a
// generated name. A copy under another name stays.
func sameBytes(files []Artifact) (kept []Artifact) {
	for _, named := range []bool{true, false} {
		for _, f := range files {
			if IsGenerated(f.Name) == named {
				continue
			}
			i := slices.IndexFunc(kept, func(k Artifact) bool {
				return k.SHA256 == f.SHA256 && (IsGenerated(f.Name) || CleanName(k.Name) == CleanName(f.Name))
			})
			if i < 0 {
				kept = append(kept, f)
				continue
			}
			for _, e := range f.FoundBy {
				kept[i].FoundBy = addEvidence(kept[i].FoundBy, e)
			}
		}
	}
	return kept
}

// nameAll gives each file a clean and unique name.
func nameAll(files []Artifact) []Artifact {
	taken := map[string]bool{}
	n := 0
	for i := range files {
		f := &files[i]
		if IsGenerated(CleanName(f.Name)) && IsGenerated(CleanName(StagedName(f.Ref.Path))) {
			n++
		}
		f.Name = unique(chooseName(n, f.MIME, f.Name, StagedName(f.Ref.Path)), taken)
	}
	return files
}

func addEvidence(have []Evidence, e Evidence) []Evidence {
	if slices.Contains(have, e) {
		return have
	}
	return append(have, e)
}

// base is path.Base, but "" for "".
func base(p string) string {
	if p == "" {
		return ""
	}
	return path.Base(p)
}
