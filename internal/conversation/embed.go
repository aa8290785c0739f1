package conversation

import (
	"context"
	"errors"
	"fmt"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/provider"
)

// embeddable is a file that could not be sent by itself, and may travel within
// the request.
type embeddable struct {
	file File
	why  error
}

// embed asks whether files may travel within the request, and puts those into
// it that may. Nobody's silence is consent to that: they are refused then.
func (t *turn) embed(
	ctx context.Context, u *provider.Uploader, files []embeddable,
) (attachments []provider.Attachment, refused []provider.Refused, err error) {
	files, refused = t.roomFor(files)
	if len(files) == 0 {
		return nil, refused, nil
	}
	q := Ask{Kind: AskInline, Destination: t.chat.backend.Destination}
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

// roomFor takes as many files as there is room for in the request, which has
// those of earlier turns in it too.
func (t *turn) roomFor(files []embeddable) (fit []embeddable, refused []provider.Refused) {
	room := t.chat.backend.Provider.Caps().Limits.Inline
	for _, a := range t.attachments {
		room -= int64(len(a.File.Ref.Inline))
	}
	for _, turn := range t.chat.history {
		for _, a := range turn.Files {
			room -= int64(len(a.File.Ref.Inline))
		}
	}
	for _, f := range files {
		if room -= f.file.Size; room < 0 {
			refused = append(refused, provider.Refused{Source: f.file.Source, Err: f.why})
			continue
		}
		fit = append(fit, f)
	}
	return fit, refused
}
