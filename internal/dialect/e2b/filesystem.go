package e2b

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"regexp"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/airlock-run/airlock/internal/dialect/e2b/envd"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

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

// mine matches the paths of files that belong to the user: those of volumes too.
var mine = regexp.MustCompile(`^(/home/user|/workspace|/tmp|/mnt/[^/]+|/volumes/[^/]+)(/|$)`)

// text returns a name as protobuf and JSON can have it: with U+FFFD for each byte that is not UTF-8.
func text(name string) string { return string([]rune(name)) }

// entry describes a file, by the path that it was asked by.
func (h *Handler) entry(ctx context.Context, c *sandbox, e *engine.Entry) *envd.EntryInfo {
	info := &envd.EntryInfo{
		Name: text(path.Base(e.Path)), Path: text(e.Path), Size: e.Size, Mode: uint32(e.Mode.Perm()),
		Permissions: e.Mode.String(),
		Owner:       user, Group: user, ModifiedTime: timestamppb.New(e.Modified), Metadata: c.metadata.of(e.Path),
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
		info.SymlinkTarget, info.IsSymlink = new(text(to)), true
		if e.Leads != "" {
			kind = e.Leads
		} else if target, err := h.Live.RealFile(ctx, c.caller, c.session, e.Path); err == nil {
			kind = target.Kind
		}
	}
	switch kind {
	case engine.EntryFile:
		info.Type = envd.FileType_FILE_TYPE_FILE
	case engine.EntryFolder:
		info.Type = envd.FileType_FILE_TYPE_DIRECTORY
	}
	if e.Kind == engine.EntryFolder {
		info.Permissions = (e.Mode | fs.ModeDir).String()
	}
	return info
}

func (h *Handler) stat(ctx context.Context, c call, q *envd.PathRequest) (*envd.EntryResponse, error) {
	e, err := h.Live.StatFile(ctx, c.caller, c.session, absolute(q.Path))
	if err != nil {
		return nil, err
	}
	return &envd.EntryResponse{Entry: h.entry(ctx, c.sandbox, &e)}, nil
}

func (h *Handler) makeDir(ctx context.Context, c call, q *envd.PathRequest) (*envd.EntryResponse, error) {
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
	return &envd.EntryResponse{Entry: h.entry(ctx, c.sandbox, &e)}, nil
}

func (h *Handler) move(ctx context.Context, c call, q *envd.MoveRequest) (*envd.EntryResponse, error) {
	from, to := absolute(q.Source), absolute(q.Destination)
	if _, err := h.Live.StatFile(ctx, c.caller, c.session, from); err != nil {
		return nil, err
	}
	if _, err := h.folder(ctx, c.sandbox, path.Dir(to)); err != nil {
		if _, err := h.Live.MakeFolder(ctx, c.caller, c.session, path.Dir(to)); err != nil {
			return nil, err
		}
	}
	e, err := h.Live.MoveFile(ctx, c.caller, c.session, from, to, true)
	if err != nil {
		return nil, err
	}
	c.metadata.move(from, to)
	return &envd.EntryResponse{Entry: h.entry(ctx, c.sandbox, &e)}, nil
}

// folder returns an error unless the path is a folder.
func (h *Handler) folder(ctx context.Context, c *sandbox, at string) (string, error) {
	e, err := h.Live.RealFile(ctx, c.caller, c.session, absolute(at))
	if err == nil && e.Kind != engine.EntryFolder {
		err = invalid("the path is no directory: " + at)
	}
	return absolute(at), err
}

func (h *Handler) listDir(ctx context.Context, c call, q *envd.PathRequest) (*envd.EntriesResponse, error) {
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
	answer := &envd.EntriesResponse{Entries: make([]*envd.EntryInfo, len(list))}
	for i := range list {
		answer.Entries[i] = h.entry(ctx, c.sandbox, &list[i])
	}
	return answer, nil
}

func (h *Handler) removeEntry(ctx context.Context, c call, q *envd.PathRequest) (*envd.Empty, error) {
	err := h.Live.RemoveFile(ctx, c.caller, c.session, absolute(q.Path), true)
	if err != nil && engine.KindOf(err) == engine.ErrNotFound {
		err = nil // E2B's is like rm -rf
	}
	if err == nil {
		c.metadata.remove(absolute(q.Path))
	}
	return &envd.Empty{}, err
}

// watch starts watching a folder. The names in its events are relative to it.
func (h *Handler) watch(ctx context.Context, c *sandbox, q *envd.WatchRequest) (<-chan *envd.FileEvent, func(), error) {
	at, err := h.folder(ctx, c, q.Path)
	if err != nil {
		return nil, nil, err
	}
	changes, err := h.Live.WatchFiles(ctx, c.caller, c.session, at, q.Recursive)
	if err != nil {
		return nil, nil, err
	}
	next, stop := wire.Follow(ctx, func(yield func(*envd.FileEvent) bool) {
		for change := range changes {
			for _, e := range eventsOf(&change, at) {
				if q.IncludeEntry && e.Type != envd.EventType_EVENT_TYPE_REMOVE && e.Type != envd.EventType_EVENT_TYPE_RENAME {
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
func eventsOf(change *engine.FileEvent, folder string) []*envd.FileEvent {
	event := func(at string, kind envd.EventType) *envd.FileEvent {
		return &envd.FileEvent{Name: text(strings.TrimPrefix(strings.TrimPrefix(at, folder), "/")), Type: kind}
	}
	switch change.Kind {
	case engine.FileCreated:
		if change.Folder {
			return []*envd.FileEvent{event(change.Path, envd.EventType_EVENT_TYPE_CREATE)}
		}
		// A file from files.write has its content at once. envd creates it, gives it to its user and writes it.
		return []*envd.FileEvent{event(change.Path, envd.EventType_EVENT_TYPE_CREATE),
			event(change.Path, envd.EventType_EVENT_TYPE_CHMOD), event(change.Path, envd.EventType_EVENT_TYPE_WRITE)}
	case engine.FileModified:
		return []*envd.FileEvent{event(change.Path, envd.EventType_EVENT_TYPE_WRITE)}
	case engine.FileAttributes:
		return []*envd.FileEvent{event(change.Path, envd.EventType_EVENT_TYPE_CHMOD)}
	case engine.FileDeleted:
		return []*envd.FileEvent{event(change.Path, envd.EventType_EVENT_TYPE_REMOVE)}
	case engine.FileMoved:
		return []*envd.FileEvent{event(change.From, envd.EventType_EVENT_TYPE_RENAME),
			event(change.Path, envd.EventType_EVENT_TYPE_CREATE)}
	}
	return nil
}

func (h *Handler) watchDir(
	ctx context.Context, c call, q *envd.WatchRequest,
	send func(*envd.WatchResponse) error,
) error {
	outer := ctx
	ctx, cancel := context.WithCancel(outer)
	defer cancel()
	next, stop, err := h.watch(ctx, c.sandbox, q)
	if err != nil {
		return err
	}
	defer func() { cancel(); stop() }()
	if err := send(&envd.WatchResponse{Start: &envd.Empty{}}); err != nil {
		return err
	}
	silence := pings(c.header)
	defer silence.Stop()
	for {
		answer := &envd.WatchResponse{}
		select {
		case <-silence.C:
			answer.Keepalive = &envd.Empty{}
		case e, more := <-next:
			if !more {
				return left(outer)
			}
			answer.Filesystem = e
		}
		if err := send(answer); err != nil {
			return err
		}
	}
}

// watcher collects events for a client that asks for them now and then.
type watcher struct {
	cancel context.CancelFunc

	mu     sync.Mutex
	events []*envd.FileEvent
	done   chan struct{}
}

// Limits of watchers. The oldest events are dropped.
const (
	maxWatchers = 32
	maxEvents   = 1 << 14
)

func (h *Handler) createWatcher(_ context.Context, c call, q *envd.WatchRequest) (*envd.Watcher, error) {
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
	return &envd.Watcher{WatcherId: id}, nil
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
func (h *Handler) watcherEvents(ctx context.Context, c call, q *envd.Watcher) (*envd.EventsResponse, error) {
	w, err := c.watcher(q.WatcherId)
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
	answer := &envd.EventsResponse{Events: w.events}
	w.events = nil
	return answer, nil
}

func (h *Handler) removeWatcher(_ context.Context, c call, q *envd.Watcher) (*envd.Empty, error) {
	w, err := c.watcher(q.WatcherId)
	if err != nil {
		return nil, err
	}
	c.mu.Lock()
	delete(c.watchers, q.WatcherId)
	c.mu.Unlock()
	w.cancel()
	<-w.done
	return &envd.Empty{}, nil
}
