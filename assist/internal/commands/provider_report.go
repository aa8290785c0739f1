package commands

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/command"
)

type remoteFile struct {
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Size     int64     `json:"size"` // -1: not said
	MIME     string    `json:"mime,omitempty"`
	Created  time.Time `json:"created_at,omitzero"`
	Expires  time.Time `json:"expires_at,omitzero"`
	Readable bool      `json:"readable"`
	Ours     bool      `json:"ours"` // made by airlock
	Kept     bool      `json:"kept"` // no clean-up deletes it
	SHA256   string    `json:"sha256,omitempty"`
}

func remoteFileOf(f provider.FileInfo, ours, kept bool) remoteFile {
	return remoteFile{cmp.Or(f.Ref.ID, f.Ref.Path), f.Name, f.Size, f.MIME, f.Created, f.Expires, f.Readable, ours, kept,
		f.SHA256}
}

type remoteSession struct {
	ID      string    `json:"id"`
	Name    string    `json:"name,omitempty"`
	Created time.Time `json:"created_at,omitzero"`
	Expires time.Time `json:"expires_at,omitzero"`
	Active  bool      `json:"active"`
	Ours    bool      `json:"ours"`
	Kept    bool      `json:"kept"`
}

// remoteReport is what provider ls prints.
type remoteReport struct {
	Provider string          `json:"provider"`
	Files    []remoteFile    `json:"files"`
	Sessions []remoteSession `json:"sessions"`
	More     bool            `json:"more"` // the limit left some out
}

func (r remoteReport) WriteText(p *command.Page) {
	if len(r.Files)+len(r.Sessions) == 0 {
		p.Line("There is nothing at %s.", providerTitles[r.Provider])
	}
	for _, f := range r.Files {
		p.Line("%s  %s  %s  %s%s", command.Printable(f.ID), command.Pad(command.SizeText(f.Size), 8), dateText(f.Created),
			command.PrintableName(f.Name),
			marks(f.Ours, f.Kept, true))
	}
	for _, s := range r.Sessions {
		p.Line("%s  session   %s  %s%s", command.Printable(s.ID), dateText(s.Created), command.PrintableName(s.Name),
			marks(s.Ours, s.Kept, s.Active))
	}
	if r.More {
		p.Line("There are more: --limit N lists them.")
	}
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return command.Pad("-", 16)
	}
	return t.Local().Format("2006-01-02 15:04")
}

func marks(ours, kept, active bool) string {
	text := ""
	if kept {
		text += " (kept)"
	} else if ours {
		text += " (made by airlock)"
	}
	if !active {
		text += " (expired)"
	}
	return text
}

// putReport is what provider put prints.
type putReport struct {
	Provider string       `json:"provider"`
	Files    []remoteFile `json:"files"`
	command.Ended
}

func (r putReport) WriteText(p *command.Page) {
	for _, f := range r.Files {
		p.Line("%s  %s", command.Printable(f.ID), command.PrintableName(f.Name))
	}
}

// getReport is a file in what files get prints.
type getReport struct {
	ID     string            `json:"id"`
	Name   string            `json:"name"`
	Size   int64             `json:"size"`
	MIME   string            `json:"mime"`
	SHA256 string            `json:"sha256"`
	State  command.SaveState `json:"state"`
	Path   string            `json:"path"`
}

func (r getReport) WriteText(p *command.Page) {
	switch r.State {
	case command.SaveDone:
		p.Line("saved %s (%s, sha256 %s)", command.PrintableName(r.Path), command.SizeText(r.Size), r.SHA256)
	case command.SaveUnchanged:
		p.Line("unchanged %s", command.PrintableName(r.Path))
	}
}

// removeReport is what provider rm prints.
type removeReport struct {
	Provider string   `json:"provider"`
	Deleted  []string `json:"deleted"`
	command.Ended
}

func (r removeReport) WriteText(p *command.Page) {
	for _, id := range r.Deleted {
		p.Line("deleted %s", command.Printable(id))
	}
}

// gcEntry is an object of Airlock at a provider.
type gcEntry struct {
	Provider string             `json:"provider"`
	Kind     provider.EntryKind `json:"kind"`
	ID       string             `json:"id"`
	Name     string             `json:"name"`
	Created  time.Time          `json:"created_at"`
}

type gcLeft struct {
	gcEntry
	Problem *conversation.Problem `json:"problem"`
}

// gcOther is a file that may be Airlock's.
type gcOther struct {
	Provider string    `json:"provider"`
	ID       string    `json:"id"`
	Name     string    `json:"name"`
	Size     int64     `json:"size"`
	Created  time.Time `json:"created_at,omitzero"`
}

func othersOf(files []provider.FileInfo) []gcOther {
	list := make([]gcOther, len(files))
	for i, f := range files {
		list[i] = gcOther{f.Ref.Provider, f.Ref.ID, f.Name, f.Size, f.Created}
	}
	return list
}

// showOthers lists files at a provider about which only the user can decide.
func showOthers(p *command.Page, files []gcOther) {
	for _, f := range files {
		p.Line("%s", p.Paint(command.Yellow, fmt.Sprintf("perhaps Airlock's: %s %s (%s) at %s", command.Printable(f.ID),
			command.PrintableName(f.Name),
			command.SizeText(f.Size), providerTitles[f.Provider])))
	}
	if len(files) > 0 {
		p.Line("      made while a turn of Airlock ran whose reply was lost; `airlock provider rm ID` deletes it")
	}
}

func entryOf(e provider.Entry) gcEntry { return gcEntry{e.Provider, e.Kind, e.ID, e.Name, e.Created} }

func entriesOf(all []provider.Entry) []gcEntry {
	list := make([]gcEntry, len(all))
	for i, e := range all {
		list[i] = entryOf(e)
	}
	return list
}

// gcReport is what provider gc prints.
type gcReport struct {
	Deleted []gcEntry `json:"deleted"`
	Kept    []gcEntry `json:"kept"`
	Left    []gcLeft  `json:"left"`
	// Others were made while a turn ran whose reply got lost. They may belong to another
	// program, so that only the user deletes them.
	Others []gcOther `json:"others"`
	command.Ended
}

func (r gcReport) WriteText(p *command.Page) {
	for _, e := range r.Deleted {
		if e.ID == "" {
			p.Line("nothing was made for %s at %s", command.PrintableName(e.Name), providerTitles[e.Provider])
			continue
		}
		p.Line("deleted %s %s (%s) at %s", e.Kind, command.Printable(e.ID), command.PrintableName(e.Name),
			providerTitles[e.Provider])
	}
	for _, e := range r.Left {
		p.Line("%s", p.Paint(command.Yellow, "left: "+
			command.Printable(provider.Entry{Kind: e.Kind, Name: e.Name}.String())+", at "+
			providerTitles[e.Provider]))
	}
	if len(r.Kept) > 0 {
		p.Line("%s kept, since --keep or `provider put` left them", english.Plural(len(r.Kept), "object", ""))
	}
	showOthers(p, r.Others)
	if len(r.Deleted)+len(r.Left)+len(r.Kept)+len(r.Others) == 0 {
		p.Line("Nothing was left behind.")
	}
}

// statsReport has the totals of all commands and services.
type statsReport struct {
	Rows   []provider.Counts `json:"rows"`
	Remote int               `json:"remote"` // Airlock's known objects at providers
	Kept   int               `json:"kept"`
}

func (r statsReport) WriteText(p *command.Page) {
	for _, row := range r.Rows {
		name := row.Provider
		if row.Model != "" {
			name += " " + command.Printable(row.Model)
		}
		p.Line("%s", p.Paint(command.Bold, name))
		if row.Turns > 0 {
			p.Line("  turns      %d, %s each; %d failed", row.Turns, each(row.TurnTime, row.Turns), row.TurnErrors)
		}
		if row.Uploads > 0 {
			p.Line("  uploads    %d, %s each", row.Uploads, each(row.UploadTime, row.Uploads))
		}
		if row.Downloads+row.Failures+row.Missing+row.DownloadsRetried > 0 {
			p.Line("  downloads  %d, %s, %v each; %d retried, %d failed, %d promised and not found", row.Downloads,
				command.SizeText(row.Bytes), each(row.DownloadTime, row.Downloads), row.DownloadsRetried, row.Failures, row.Missing)
		}
		for _, e := range []provider.Evidence{provider.ByListing, provider.ByResultBlock, provider.ByAnnotation,
			provider.ByInline, provider.ByStdout, provider.ByLinkText} {
			if n := row.Files[e]; n > 0 {
				p.Line("    found by %s: %d", e, n)
			}
		}
		if row.Retries+row.Recoveries > 0 {
			p.Line("  repeated   %d calls; %d expired sessions replaced", row.Retries, row.Recoveries)
		}
	}
	if len(r.Rows) == 0 {
		p.Line("Nothing was counted yet.")
	}
	p.Line("%d objects of Airlock are at providers, %d of them kept.", r.Remote, r.Kept)
}

// each returns the mean time of n calls in words.
func each(all time.Duration, n int64) string {
	return command.DurationText(all / time.Duration(max(n, 1)))
}
