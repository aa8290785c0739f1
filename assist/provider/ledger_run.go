package provider

import (
	"context"
	"errors"
	"net"
	"regexp"
	"slices"
	"strings"
	"sync"
)

// A turn whose reply got lost may have left files in the account's store. Only their time
// and their names in the code tell them from files of other programs in the same account.
// Both have to match.

// fileName matches a possible file name in code.
var fileName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`[\pL\pN_][\pL\pN_.() +-]*\.[A-Za-z0-9]{1,8}`)
})

// maxNames bounds the names of a conversation.
const maxNames = 500

// namesIn returns the possible file names in code. It also returns the parts of names with
// spaces.
func namesIn(code string) (names []string) {
	for _, m := range fileName().FindAllString(code, maxNames) {
		for _, name := range append(strings.Fields(m), m) {
			if name = CleanName(name); name != "" && strings.Contains(name, ".") && !slices.Contains(names, name) &&
				len(names) < maxNames {
				names = append(names, name)
			}
		}
	}
	return names
}

// watchRun records a run that may leave files that only its reply names.
type watchRun struct {
	l     *Ledger
	entry Entry
	mu    sync.Mutex
	code  strings.Builder
	told  bool // the provider has begun to answer
}

// beginRun writes the entry of a run. It returns nil if none is needed.
func (l *Ledger) beginRun(ctx context.Context, p Provider, r RunRequest) (*watchRun, error) {
	if p.Caps().Outputs != OutputByID || r.Tool == ToolNone {
		return nil, nil
	}
	e, err := l.recordIntent(ctx, p, EntryRun, "run", -1)
	if err != nil {
		return nil, err
	}
	return &watchRun{l: l, entry: e}, nil
}

// event records the code in an event.
func (w *watchRun) event(e Event) {
	if w == nil {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if _, notice := e.(Notice); !notice {
		w.told = true
	}
	const most = 1 << 20
	if w.code.Len() > most {
		return
	}
	switch e := e.(type) {
	case CodeDelta:
		w.code.WriteString(e.Code)
	case StepStarted:
		w.code.WriteString("\n" + e.Step.Code + "\n")
	}
}

// end updates the entry, or removes it after a complete reply or a request that was refused
// or did not arrive. The names in the code of this attempt also count for earlier ones: a
// model that is asked again writes similar code.
func (w *watchRun) end(ctx context.Context, failure error) error {
	if w == nil {
		return nil
	}
	l := w.l
	w.mu.Lock()
	names := namesIn(w.code.String())
	nothing := failure == nil || !w.told && !arrived(failure)
	w.mu.Unlock()
	l.mu.Lock()
	for _, n := range names {
		if !slices.Contains(l.names, n) && len(l.names) < maxNames {
			l.names = append(l.names, n)
		}
	}
	names = slices.Clone(l.names)
	l.mu.Unlock()
	var failed error
	if nothing {
		failed = l.store.Remove(ctx, w.entry.Key)
	} else {
		w.entry.Ended = l.clock.Now().UTC()
		failed = l.store.Put(ctx, w.entry)
	}
	return errors.Join(failed, l.each(ctx, func(e Entry) error {
		if e.Kind != EntryRun || len(e.Names) == len(names) {
			return nil
		}
		e.Names = names
		return l.store.Put(ctx, e)
	}))
}

// arrived reports whether a failed request may have been started.
func arrived(err error) bool {
	e, ok := errors.AsType[*Error](err)
	if !ok || e.Ambiguous {
		return true
	}
	dns, unknown := errors.AsType[*net.DNSError](err)
	refused := e.Status/100 == 4 && e.Kind != Transient // a gateway's 408 does not tell
	return !refused && !isRefused(err) && (!unknown || !dns.IsNotFound)
}

// afterRun deletes the files of a run whose reply got lost.
func (s *Swept) afterRun(ctx context.Context, p Provider, retry Retry, e Entry, known map[string]bool) error {
	made, others, err := madeMeanwhile(ctx, p, retry, e, func(id string) bool { return known[e.Account+" "+id] })
	s.Others = append(s.Others, others...)
	if e.Keep {
		return err
	}
	for _, f := range made {
		known[e.Account+" "+f.Ref.ID] = true
		gone := Entry{Key: e.Key, Holder: e.Holder, Conversation: e.Conversation, Provider: e.Provider, Account: e.Account,
			Kind: EntryFile, Name: f.Name, Size: f.Size, ID: f.Ref.ID, Created: f.Created}
		if failed := retry.Do(ctx, func(ctx context.Context) error { return p.Files().Delete(ctx, f.Ref) }); failed != nil {
			err = errors.Join(err, failed)
			continue
		}
		s.Deleted = append(s.Deleted, gone)
	}
	return err
}

// madeMeanwhile lists the files that code created during a turn: those with names in its
// code, and others.
func madeMeanwhile(
	ctx context.Context, p Provider, retry Retry, e Entry, known func(id string) bool,
) (made, others []FileInfo, err error) {
	begin, end := e.Created.Add(-maxClockSkew), e.Ended.Add(maxClockSkew)
	if e.Ended.IsZero() {
		end = e.Created.Add(maxTurn)
	}
	err = retry.Do(ctx, func(ctx context.Context) error {
		made, others = nil, nil
		for f, err := range p.Files().List(ctx, Filter{CreatedAfter: begin}) {
			if err != nil {
				return err
			}
			switch {
			case f.Origin != OriginModel || known(f.Ref.ID) || f.Created.Before(begin) || f.Created.After(end):
			case slices.Contains(e.Names, CleanName(f.Name)):
				made = append(made, f)
			default:
				others = append(others, f)
			}
		}
		return nil
	})
	return made, others, err
}

// meanwhile returns the files of a turn that broke off.
func (c *Collector) meanwhile(
	ctx context.Context, p Provider, r *RunResult, known func(id string) bool,
) ([]FileInfo, error) {
	e := Entry{Kind: EntryRun}
	var code strings.Builder
	for _, s := range r.Steps {
		code.WriteString(s.Code + "\n")
		if e.Created.IsZero() || !s.Started.IsZero() && s.Started.Before(e.Created) {
			e.Created = s.Started
		}
	}
	if e.Created.IsZero() {
		return nil, nil // no code was seen
	}
	e.Names = namesIn(code.String())
	made, _, err := madeMeanwhile(ctx, p, c.Retry, e, known)
	return made, err
}
