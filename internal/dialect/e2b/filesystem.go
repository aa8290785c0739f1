package e2b

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// The messages of filesystem.Filesystem.
type (
	entryInfo struct {
		Name        string     `json:"name,omitempty" pb:"1"`
		Type        fileType   `json:"type" pb:"2"`
		Path        string     `json:"path,omitempty" pb:"3"`
		Size        int64      `json:"size,omitempty,string" pb:"4"`
		Mode        uint32     `json:"mode,omitempty" pb:"5"`
		Permissions string     `json:"permissions,omitempty" pb:"6"`
		Owner       string     `json:"owner,omitempty" pb:"7"`
		Group       string     `json:"group,omitempty" pb:"8"`
		Modified    *time.Time `json:"modifiedTime,omitempty" pb:"9"`
		Target      *string    `json:"symlinkTarget,omitempty" pb:"10"`
		Metadata    texts      `json:"metadata,omitempty" pb:"11"`
		IsLink      bool       `json:"isSymlink,omitempty" pb:"12"`
	}
	pathRequest struct {
		Path  string `json:"path" pb:"1"`
		Depth uint32 `json:"depth" pb:"2"` // of ListDir
	}
	moveRequest struct {
		Source      string `json:"source" pb:"1"`
		Destination string `json:"destination" pb:"2"`
	}
	entryResponse struct {
		Entry *entryInfo `json:"entry,omitempty" pb:"1"`
	}
	entriesResponse struct {
		Entries []entryInfo `json:"entries,omitempty" pb:"1"`
	}
	watchRequest struct {
		Path      string `json:"path" pb:"1"`
		Recursive bool   `json:"recursive" pb:"2"`
		WithEntry bool   `json:"includeEntry" pb:"3"`
	}
	fileEvent struct {
		Name  string     `json:"name,omitempty" pb:"1"`
		Type  eventType  `json:"type" pb:"2"`
		Entry *entryInfo `json:"entry,omitempty" pb:"3"`
	}
	watchResponse struct {
		Start      *empty     `json:"start,omitempty" pb:"1"`
		Filesystem *fileEvent `json:"filesystem,omitempty" pb:"2"`
		Keepalive  *empty     `json:"keepalive,omitempty" pb:"3"`
	}
	watcherRequest struct {
		ID string `json:"watcherId" pb:"1"`
	}
	eventsResponse struct {
		Events []fileEvent `json:"events,omitempty" pb:"1"`
	}
)

type fileType string

const (
	typeOther     fileType = "FILE_TYPE_UNSPECIFIED"
	typeFile      fileType = "FILE_TYPE_FILE"
	typeDirectory fileType = "FILE_TYPE_DIRECTORY"
)

func (fileType) names() []string {
	return []string{0: string(typeOther), 1: string(typeFile), 2: string(typeDirectory)}
}

type eventType string

const (
	eventCreate eventType = "EVENT_TYPE_CREATE"
	eventWrite  eventType = "EVENT_TYPE_WRITE"
	eventRemove eventType = "EVENT_TYPE_REMOVE"
	eventRename eventType = "EVENT_TYPE_RENAME"
)

func (eventType) names() []string {
	return []string{1: string(eventCreate), 2: string(eventWrite), 3: string(eventRemove), 4: string(eventRename)}
}

// absolute returns a path relative to the user's home directory as an absolute path.
func absolute(p string) string {
	switch {
	case p == "" || p == "~":
		return home
	case strings.HasPrefix(p, "~/"):
		p = p[2:]
	}
	if !strings.HasPrefix(p, "/") {
		p = home + "/" + p
	}
	return path.Clean(p)
}

// mine matches the paths of files that belong to the user.
var mine = regexp.MustCompile(`^(/home/user|/workspace|/mnt/data|/tmp)(/|$)`)

// entry describes a file, by the path that it was asked by.
func (h *Handler) entry(ctx context.Context, c *sandbox, e *engine.Entry) *entryInfo {
	info := &entryInfo{
		Name: path.Base(e.Path), Path: e.Path, Size: e.Size, Mode: uint32(e.Mode.Perm()), Permissions: e.Mode.String(),
		Owner: user, Group: user, Modified: new(e.Modified.UTC()), Type: typeOther, Metadata: c.metadata.of(e.Path),
	}
	if !mine.MatchString(e.Path) { // it belongs to the sandbox
		info.Owner, info.Group = "root", "root"
	}
	kind := e.Kind
	if kind == engine.EntryLink { // the type of a link is that of its target
		to := e.Target
		if !strings.HasPrefix(to, "/") {
			to = path.Join(path.Dir(e.Path), to)
		}
		info.Target, info.IsLink = &to, true
		if e.Leads != "" {
			kind = e.Leads
		} else if target, err := h.Live.RealFile(ctx, c.caller, c.session, e.Path); err == nil {
			kind = target.Kind
		}
	}
	switch kind {
	case engine.EntryFile:
		info.Type = typeFile
	case engine.EntryFolder:
		info.Type = typeDirectory
	}
	if e.Kind == engine.EntryFolder {
		info.Permissions = (e.Mode | fs.ModeDir).String()
	}
	return info
}

func (h *Handler) stat(ctx context.Context, c call, q *pathRequest) (*entryResponse, error) {
	e, err := h.Live.StatFile(ctx, c.caller, c.session, absolute(q.Path))
	if err != nil {
		return nil, err
	}
	return &entryResponse{h.entry(ctx, c.sandbox, &e)}, nil
}

func (h *Handler) makeDir(ctx context.Context, c call, q *pathRequest) (*entryResponse, error) {
	switch e, err := h.Live.RealFile(ctx, c.caller, c.session, absolute(q.Path)); {
	case err == nil && e.Kind == engine.EntryFolder:
		return nil, connect.NewError(connect.CodeAlreadyExists, errors.New("the directory exists already: "+q.Path))
	case err == nil:
		return nil, invalid("the path exists and is no directory: " + q.Path)
	}
	e, err := h.Live.MakeFolder(ctx, c.caller, c.session, absolute(q.Path))
	if err != nil {
		return nil, err
	}
	return &entryResponse{h.entry(ctx, c.sandbox, &e)}, nil
}

func (h *Handler) move(ctx context.Context, c call, q *moveRequest) (*entryResponse, error) {
	from, to := absolute(q.Source), absolute(q.Destination)
	if _, err := h.Live.StatFile(ctx, c.caller, c.session, from); err != nil {
		return nil, err
	}
	if _, err := h.Live.MakeFolder(ctx, c.caller, c.session, path.Dir(to)); err != nil {
		return nil, err
	}
	e, err := h.Live.MoveFile(ctx, c.caller, c.session, from, to, true)
	if err != nil {
		return nil, err
	}
	c.metadata.move(from, to)
	return &entryResponse{h.entry(ctx, c.sandbox, &e)}, nil
}

// folder returns an error unless the path is a folder.
func (h *Handler) folder(ctx context.Context, c *sandbox, at string) (string, error) {
	e, err := h.Live.RealFile(ctx, c.caller, c.session, absolute(at))
	if err == nil && e.Kind != engine.EntryFolder {
		err = invalid("the path is no directory: " + at)
	}
	return absolute(at), err
}

func (h *Handler) listDir(ctx context.Context, c call, q *pathRequest) (*entriesResponse, error) {
	at, err := h.folder(ctx, c.sandbox, q.Path)
	if err != nil {
		return nil, err
	}
	list, more, err := h.Live.ListFiles(ctx, c.caller, c.session, at, int(max(1, min(q.Depth, 1<<10))))
	if err != nil {
		return nil, err
	}
	if more {
		return nil, connect.NewError(connect.CodeResourceExhausted,
			errors.New("there is more in it than one answer may have: ask for less depth"))
	}
	answer := &entriesResponse{Entries: make([]entryInfo, len(list))}
	for i := range list {
		answer.Entries[i] = *h.entry(ctx, c.sandbox, &list[i])
	}
	return answer, nil
}

func (h *Handler) removeEntry(ctx context.Context, c call, q *pathRequest) (*empty, error) {
	err := h.Live.RemoveFile(ctx, c.caller, c.session, absolute(q.Path), true)
	if err != nil && engine.KindOf(err) == engine.ErrNotFound {
		err = nil // E2B's is like rm -rf
	}
	if err == nil {
		c.metadata.remove(absolute(q.Path))
	}
	return &empty{}, err
}

// watch starts watching a folder. The names in its events are relative to it.
func (h *Handler) watch(ctx context.Context, c *sandbox, q *watchRequest) (<-chan fileEvent, func(), error) {
	at, err := h.folder(ctx, c, q.Path)
	if err != nil {
		return nil, nil, err
	}
	changes, err := h.Live.WatchFiles(ctx, c.caller, c.session, at, q.Recursive)
	if err != nil {
		return nil, nil, err
	}
	next, stop := wire.Follow(ctx, func(yield func(fileEvent) bool) {
		for change := range changes {
			for _, e := range eventsOf(&change, at) {
				if q.WithEntry && e.Type != eventRemove && e.Type != eventRename {
					if found, err := h.Live.StatFile(ctx, c.caller, c.session, path.Join(at, e.Name)); err == nil {
						e.Entry = h.entry(ctx, c, &found)
					}
				}
				if !yield(e) {
					return
				}
			}
		}
	}, 0)
	return next, stop, nil
}

// eventsOf returns E2B's events for a change in a folder.
func eventsOf(change *engine.FileEvent, folder string) []fileEvent {
	event := func(at string, kind eventType) fileEvent {
		return fileEvent{Name: strings.TrimPrefix(strings.TrimPrefix(at, folder), "/"), Type: kind}
	}
	switch change.Kind {
	case engine.FileCreated:
		if change.Folder {
			return []fileEvent{event(change.Path, eventCreate)}
		}
		// A file from files.write has its content at once. envd creates it and then writes it.
		return []fileEvent{event(change.Path, eventCreate), event(change.Path, eventWrite)}
	case engine.FileModified:
		return []fileEvent{event(change.Path, eventWrite)}
	case engine.FileDeleted:
		return []fileEvent{event(change.Path, eventRemove)}
	case engine.FileMoved:
		return []fileEvent{event(change.From, eventRename), event(change.Path, eventCreate)}
	}
	return nil
}

func (h *Handler) watchDir(ctx context.Context, c call, q *watchRequest, send func(*watchResponse) error) error {
	outer := ctx
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	next, stop, err := h.watch(ctx, c.sandbox, q)
	if err != nil {
		return err
	}
	defer func() { cancel(); stop() }()
	if err := send(&watchResponse{Start: &empty{}}); err != nil {
		return err
	}
	silence := pings(c.header)
	defer silence.Stop()
	for {
		var answer watchResponse
		select {
		case <-silence.C:
			answer.Keepalive = &empty{}
		case e, more := <-next:
			if !more {
				return left(outer)
			}
			answer.Filesystem = &e
		}
		if err := send(&answer); err != nil {
			return err
		}
	}
}

// watcher collects events for a client that asks for them now and then.
type watcher struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	events []fileEvent
	done   chan struct{}
}

// Limits of watchers. The oldest events are dropped.
const (
	maxWatchers = 32
	maxEvents   = 1 << 14
)

func (h *Handler) createWatcher(_ context.Context, c call, q *watchRequest) (*watcherRequest, error) {
	ctx, cancel := context.WithCancel(context.Background()) // ended with its sandbox
	next, stop, err := h.watch(ctx, c.sandbox, q)
	if err != nil {
		cancel()
		return nil, err
	}
	w := &watcher{cancel: cancel, done: make(chan struct{})}
	id := newSandboxID(0)
	c.mu.Lock()
	if len(c.watchers) >= maxWatchers || c.timer == nil {
		c.mu.Unlock()
		cancel()
		stop()
		return nil, connect.NewError(connect.CodeResourceExhausted,
			errors.New("this sandbox has as many watchers as one may have"))
	}
	c.watchers[id] = w
	c.mu.Unlock()
	go func() {
		defer close(w.done)
		defer func() { cancel(); stop() }()
		for e := range next {
			w.mu.Lock()
			w.events = append(w.events, e)
			w.events = w.events[max(0, len(w.events)-maxEvents):]
			w.mu.Unlock()
		}
	}()
	return &watcherRequest{id}, nil
}

func (sb *sandbox) watcher(id string) (*watcher, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if w := sb.watchers[id]; w != nil {
		return w, nil
	}
	return nil, connect.NewError(connect.CodeNotFound, errors.New("there is no such watcher"))
}

// watchDelay is how long the events of a change take at most: a sandbox gathers them, and waits for the
// other half of a move.
const watchDelay = 60 * time.Millisecond

// watcherEvents answers with the events since the last answer, those of all changes until now included.
func (h *Handler) watcherEvents(ctx context.Context, c call, q *watcherRequest) (*eventsResponse, error) {
	w, err := c.watcher(q.ID)
	if err != nil {
		return nil, err
	}
	select {
	case <-time.After(watchDelay):
	case <-w.done:
	case <-ctx.Done():
		return nil, left(ctx) // the events are for a client that is there
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	answer := &eventsResponse{slices.Clone(w.events)}
	w.events = nil
	return answer, nil
}

func (h *Handler) removeWatcher(_ context.Context, c call, q *watcherRequest) (*empty, error) {
	w, err := c.watcher(q.ID)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	delete(c.watchers, q.ID)
	c.mu.Unlock()
	w.cancel()
	<-w.done
	return &empty{}, nil
}
