package conversation

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"mime"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dustin/go-humanize/english"
	"github.com/gabriel-vasile/mimetype"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/regular"
)

// A File is an input of a turn.
type File struct {
	provider.Source
	// See shows it to the model itself, besides its code.
	See bool
	// Local is its absolute path, if it is a file of this machine. An output replaces it
	// only if it has not changed meanwhile.
	Local string
	// Stored is its id, if it is an uploaded file. A conversation that is resumed opens it
	// with HostOptions.Stored.
	Stored string
	// SHA256 is the hash of a stored file.
	SHA256 string

	asked bool   // the model requested it
	again bool   // an earlier turn sent it
	was   string // the SHA-256 that it had then
	made  bool   // code of an earlier turn made it
}

// ErrNotFile is returned for a directory, a device, or a link to nothing.
var ErrNotFile = regular.ErrNotFile

// OpenFile returns a file of this machine as an input. The turn opens it to send it.
func OpenFile(name string) (File, error) {
	local, err := filepath.Abs(name)
	if err != nil {
		return File{}, err
	}
	open := func() (io.ReadSeekCloser, error) { return regular.Open(local) }
	info, err := os.Stat(local)
	if err != nil {
		return File{}, err
	}
	f, err := newFile(name, filepath.Base(local), info, open)
	f.Local = local
	return f, err
}

func newFile(path, name string, info fs.FileInfo, open func() (io.ReadSeekCloser, error)) (File, error) {
	if !info.Mode().IsRegular() {
		return File{}, &fs.PathError{Op: "read", Path: path, Err: ErrNotFile}
	}
	content, err := open()
	if err != nil {
		return File{}, err
	}
	defer content.Close()
	kind, err := typeOf(name, content)
	return File{Source: provider.Source{Path: path, Name: name, MIME: kind, Size: info.Size(), Open: open}}, err
}

// typeOf returns the type of a file by its name, or else by its content. Content does not
// always tell a CSV from other text.
func typeOf(name string, content io.Reader) (string, error) {
	byName := typeByName(name)
	found, err := mimetype.DetectReader(content)
	if err != nil {
		return "", err
	}
	byContent, _, _ := strings.Cut(found.String(), ";")
	if byName == "" || strings.HasPrefix(byContent, "image/") || byContent == "application/pdf" {
		return byContent, nil
	}
	return byName, nil
}

func typeByName(name string) string {
	if strings.EqualFold(filepath.Ext(name), ".csv") {
		return "text/csv" // some machines do not have it in their table
	}
	kind, _, _ := strings.Cut(mime.TypeByExtension(strings.ToLower(filepath.Ext(name))), ";")
	return kind
}

func wishes(files []File) []provider.Wanted {
	list := make([]provider.Wanted, len(files))
	for i, f := range files {
		list[i] = provider.Wanted{Name: f.Name, MIME: f.MIME, Size: f.Size}
	}
	return list
}

// send asks for consent, and sends the files of the turn.
func (t *turn) send(ctx context.Context) error {
	c := t.chat
	t.lose()
	files := c.toSend(t.prompt.Files)
	t.attachments = c.carry
	if len(files) == 0 {
		return nil
	}
	// Files that cannot be sent are found before the user is asked.
	var refused []provider.Refused
	no := c.Provider.Caps().Limits.Check(c.record.Settings.Provider, wishes(files))
	var possible []File
	for i, f := range files {
		if err := errors.Join(no[i], no[-1]); err != nil {
			refused = append(refused, provider.Refused{Source: f.Source, Err: err})
			continue
		}
		possible = append(possible, f)
	}
	if err := t.skip(ctx, files, refused); err != nil {
		return err
	}
	// Files that this provider's code made do not leave the machine by returning there.
	var back []File
	if c.sameProvider {
		possible = slices.DeleteFunc(possible, func(f File) bool {
			if f.made {
				back = append(back, f)
			}
			return f.made
		})
	}
	agreed, err := t.consent(ctx, AskSend, possible, "")
	if err != nil {
		return err
	}
	agreed = append(agreed, back...)
	attachments, refused, err := t.stage(ctx, agreed)
	t.attachments = append(t.attachments, attachments...)
	if ctx.Err() != nil {
		return ctx.Err()
	}
	c.carry, c.resend = t.attachments, nil // the provider has them, even if the turn fails
	if err != nil {
		return err
	}
	return t.skip(ctx, files, refused)
}

// consent asks whether files may leave the machine, and returns the approved files. It does
// not ask if none would leave.
func (t *turn) consent(ctx context.Context, kind AskKind, files []File, reason string) ([]File, error) {
	q := Ask{Kind: kind, Destination: t.chat.destination(files), Reason: reason, Files: t.preview(files)}
	for _, f := range files {
		q.Bytes += f.Size
	}
	if len(files) == 0 || kind == AskSend && q.Destination == "" {
		return files, nil
	}
	q.Text = fmt.Sprintf("Send %s (%s) to %s?", english.Plural(len(files), "file", ""), bytesText(q.Bytes), q.Destination)
	if kind == AskMore {
		where := "Send them to " + q.Destination
		if q.Destination == "" {
			where = "Give them to its code, on this machine"
		}
		q.Text = fmt.Sprintf("The model asks for %s of the project (%s). %s?", english.Plural(len(files), "file", ""),
			bytesText(q.Bytes), where)
	}
	a, err := t.ask(ctx, q)
	switch {
	case errors.Is(err, ErrNonInteractive):
		return nil, fmt.Errorf("%w: %s would leave this machine for %s", ErrApproval, english.Plural(len(files), "file", ""),
			q.Destination)
	case err != nil:
		return nil, err
	case !a.OK && kind == AskSend:
		return nil, fmt.Errorf("%w: nothing was sent", ErrDeclined)
	}
	if kind == AskMore && a.Picks == nil {
		a.Picks = []Pick{}
	}
	var agreed []File
	for i, f := range files {
		if _, ok := a.pick(q.Files[i].ID); ok {
			agreed = append(agreed, f)
		}
	}
	return agreed, nil
}

// destination returns where files would go; "": they stay on this machine.
func (c *Chat) destination(files []File) string {
	if d := c.Destination; d != "" {
		return d
	}
	for _, f := range files {
		if f.seen() {
			return c.Shown
		}
	}
	return ""
}

func (t *turn) preview(files []File) []FileAsked {
	list := make([]FileAsked, len(files))
	for i, f := range files {
		list[i] = FileAsked{ID: fmt.Sprintf("f%d", i+1), Path: f.Path, Name: f.Name, Size: f.Size, MIME: f.MIME,
			See: f.seen(), Again: f.again, Sensitivity: f.Sensitivity()}
	}
	return list
}

// skip asks whether to continue without files that cannot be sent.
func (t *turn) skip(ctx context.Context, files []File, refused []provider.Refused) error {
	if len(refused) == 0 {
		return nil
	}
	q := Ask{Kind: AskSkip, Destination: t.chat.Destination}
	for i, r := range refused {
		u := Upload{Path: r.Source.Path, Name: r.Source.Name, MIME: r.Source.MIME, Size: r.Source.Size,
			Problem: t.chat.host.problem(r.Err)}
		t.record.Inputs = append(t.record.Inputs, u)
		q.Files = append(q.Files, FileAsked{ID: fmt.Sprintf("f%d", i+1), Path: u.Path, Name: u.Name, Size: u.Size,
			MIME: u.MIME, Problem: u.Problem})
		q.Bytes += u.Size
		t.emit(Notice{Text: fmt.Sprintf("%s was not sent: %v", u.Path, r.Err), Hint: u.Problem.Hint})
	}
	first := fmt.Errorf("%s was not sent: %w", refused[0].Source.Path, refused[0].Err)
	if t.prompt.SkipFailed {
		return nil
	}
	q.Text = fmt.Sprintf("%d of %s cannot be sent. Continue without?", len(refused),
		english.Plural(len(files), "file", ""))
	a, err := t.ask(ctx, q)
	switch {
	case errors.Is(err, ErrNonInteractive), err == nil && !a.OK:
		return first
	}
	return err
}

// stage sends files. If the provider has no file store, or it is down, small files can
// travel in the request itself, if the provider and the user allow it. The error is that
// of asking.
func (t *turn) stage(
	ctx context.Context, files []File,
) (attachments []provider.Attachment, refused []provider.Refused, err error) {
	c := t.chat
	sources := make([]provider.Source, len(files))
	for i, f := range files {
		sources[i] = f.Source
	}
	pace := newPace()
	u := provider.Uploader{Provider: c.whole, Counters: c.host.Counters, Progress: func(s provider.Source, sent int64) {
		if pace.due(s.Path, sent >= s.Size) {
			t.emit(Uploading{s.Name, sent, s.Size})
		}
	}}
	u.Cache = &provider.UploadCache{Store: c.uploads, Conversation: c.record.ID, Clock: c.host.Clock}
	if c.record.Settings.Keep && c.ledger != nil {
		u.Cache.Store, u.Cache.Kept = c.host.Uploads, true
	}
	var waiting []embeddable
	for i, f := range files {
		if f.again && !sameAs(f) {
			t.emit(Notice{Text: fmt.Sprintf(
				"%s has changed since it was sent in an earlier turn: the model gets it as it is now.", f.Path)})
		}
		if c.Shares && f.SHA256 != "" {
			if there, err := c.shared(f); err != nil {
				refused = append(refused, provider.Refused{Source: f.Source, Err: err})
			} else {
				attachments = append(attachments, t.arrived(f, there))
			}
			continue
		}
		staged, no := u.Stage(ctx, sources[i:i+1])
		switch {
		case len(staged) > 0:
			attachments = append(attachments, t.arrived(f, staged[0]))
		case ctx.Err() != nil:
			return attachments, append(refused, no...), ctx.Err()
		case u.Inlinable(f.Source, no[0].Err):
			waiting = append(waiting, embeddable{f, no[0].Err})
		default:
			refused = append(refused, no...)
		}
	}
	embedded, no, err := t.embed(ctx, &u, waiting)
	return append(attachments, embedded...), append(refused, no...), err
}

// shared returns an uploaded file that the provider has. It stays the user's: the
// ledger does not know it, so that no clean-up deletes it.
func (c *Chat) shared(f File) (provider.Staged, error) {
	content, err := f.Open()
	if err != nil {
		return provider.Staged{}, err
	}
	name := c.Provider.Name()
	return provider.Staged{Path: f.Path, SHA256: f.SHA256, File: provider.FileInfo{
		Ref:  provider.FileRef{Provider: name, Scope: provider.ScopeFile, ID: f.Stored},
		Name: f.Name, MIME: f.MIME, Size: f.Size, SHA256: f.SHA256,
		Origin: provider.OriginUser, Readable: true, State: provider.StateReady,
	}}, content.Close()
}

// arrived records a file that the provider has.
func (t *turn) arrived(f File, s provider.Staged) provider.Attachment {
	c := t.chat
	c.mu.Lock()
	if s.File.Ref.Scope != provider.ScopeInline { // a file in the request cannot get lost
		c.sources[s.File.Ref.ID] = sent{f.Source, s.SHA256}
	}
	c.mu.Unlock()
	up := Upload{Path: f.Path, Local: f.Local, Stored: f.Stored, Name: f.Name, MIME: f.MIME, Size: f.Size, See: f.seen(),
		SHA256: s.SHA256, Remote: s.File.Ref, Asked: f.asked, Made: f.made}
	up.Remote.Inline = nil
	t.record.Inputs = append(t.record.Inputs, up)
	t.emit(Uploaded{Upload: up, Cached: s.Cached, Inline: s.Inline})
	if f.seen() && s.File.Ref.Provider == provider.Local && !strings.HasPrefix(f.MIME, "image/") {
		t.emit(Notice{Text: f.Path +
			" is not shown to the model itself: endpoints of this kind take pictures only. Its code has it."})
	}
	return provider.Attachment{File: s.File, See: f.seen()}
}

// seen reports whether the model itself is shown a file: models take pictures and PDFs.
func (f *File) seen() bool {
	return f.See && (strings.HasPrefix(f.MIME, "image/") || f.MIME == "application/pdf")
}

// sent is the source of a file that was sent, with its hash.
type sent struct {
	provider.Source
	sha256 string
}

// again sends a file once more that the provider has lost, if it still has the content
// that the user agreed to.
func (c *Chat) again(ctx context.Context, f provider.FileInfo) (provider.FileInfo, error) {
	c.mu.Lock()
	from, ok := c.sources[f.Ref.ID]
	c.mu.Unlock()
	lost := &provider.Error{Kind: provider.FileExpired, Provider: c.record.Settings.Provider,
		Op: "send " + f.Name + " again", Hint: "Give it to a new conversation."}
	switch {
	case !ok:
		lost.Message = "it is not known where it came from"
		return f, lost
	case !sameAs(File{Source: from.Source, was: from.sha256}):
		lost.Message = "it has changed since it was sent"
		return f, lost
	}
	u := provider.Uploader{Provider: c.whole, Counters: c.host.Counters}
	staged, refused := u.Stage(ctx, []provider.Source{from.Source})
	if len(refused) > 0 {
		return f, refused[0].Err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.sources[staged[0].File.Ref.ID] = from
	return staged[0].File, nil
}

// pace limits the rate of progress events. It may be called concurrently: a retried
// request may be read while the connection of the first still reads its own.
type pace struct {
	mu   sync.Mutex
	last map[string]time.Time
}

func newPace() *pace { return &pace{last: map[string]time.Time{}} }

const progressEvery = 100 * time.Millisecond

// due reports whether another event about a file is due.
func (p *pace) due(name string, end bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	now := time.Now()
	if !end && now.Sub(p.last[name]) < progressEvery {
		return false
	}
	p.last[name] = now
	return true
}

// embeddable is a file that could not be sent by itself, and that may travel in the
// request.
type embeddable struct {
	file File
	why  error
}

// embed asks whether files may travel in the request, and embeds the approved files.
// Without an answer it refuses them.
func (t *turn) embed(
	ctx context.Context, u *provider.Uploader, files []embeddable,
) (attachments []provider.Attachment, refused []provider.Refused, err error) {
	files, refused = t.fitting(files)
	if len(files) == 0 {
		return nil, refused, nil
	}
	q := Ask{Kind: AskInline, Destination: t.chat.Destination}
	list := make([]File, len(files))
	for i, f := range files {
		list[i] = f.file
		q.Bytes += f.file.Size
	}
	q.Files = t.preview(list)
	for i, f := range files {
		q.Files[i].Problem = t.chat.host.problem(f.why)
		t.emit(Notice{Text: fmt.Sprintf("%s could not be sent by itself (%v). It may travel within the request instead.",
			f.file.Path, f.why)})
	}
	q.Text = fmt.Sprintf("Send %s (%s) within the request to %s?", english.Plural(len(files), "file", ""),
		bytesText(q.Bytes), q.Destination)
	a, err := t.ask(ctx, q)
	if err != nil && !errors.Is(err, ErrNonInteractive) {
		return nil, refused, err
	}
	for i, f := range files {
		if _, agreed := a.pick(q.Files[i].ID); !agreed {
			refused = append(refused, provider.Refused{Source: f.file.Source, Err: f.why})
			continue
		}
		staged, err := u.Embed(f.file.Source, f.why)
		if err != nil {
			refused = append(refused, provider.Refused{Source: f.file.Source, Err: err})
			continue
		}
		attachments = append(attachments, t.arrived(f.file, staged))
	}
	return attachments, refused, nil
}

// fitting returns the files that fit into the request, next to the files of earlier turns.
func (t *turn) fitting(files []embeddable) (fit []embeddable, refused []provider.Refused) {
	left := t.chat.Provider.Caps().Limits.Inline
	for _, a := range t.attachments {
		left -= int64(len(a.File.Ref.Inline))
	}
	for _, turn := range t.chat.history {
		for _, a := range turn.Files {
			left -= int64(len(a.File.Ref.Inline))
		}
	}
	for _, f := range files {
		if left -= f.file.Size; left < 0 {
			refused = append(refused, provider.Refused{Source: f.file.Source, Err: f.why})
			continue
		}
		fit = append(fit, f)
	}
	return fit, refused
}
