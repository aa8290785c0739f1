package cli

import (
	"cmp"
	"fmt"
	"time"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/provider"
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

// remoteReport is what files ls prints.
type remoteReport struct {
	Provider string          `json:"provider"`
	Files    []remoteFile    `json:"files"`
	Sessions []remoteSession `json:"sessions"`
	More     bool            `json:"more"` // the limit left some out
}

func (r remoteReport) text(p *page) {
	if len(r.Files)+len(r.Sessions) == 0 {
		p.line("There is nothing at %s.", providerTitles[r.Provider])
	}
	for _, f := range r.Files {
		p.line("%s  %s  %s  %s%s", printable(f.ID), pad(sizeText(f.Size), 8), dateText(f.Created), printableName(f.Name),
			marks(f.Ours, f.Kept, true))
	}
	for _, s := range r.Sessions {
		p.line("%s  session   %s  %s%s", printable(s.ID), dateText(s.Created), printableName(s.Name),
			marks(s.Ours, s.Kept, s.Active))
	}
	if r.More {
		p.line("There are more: --limit N lists them.")
	}
}

func dateText(t time.Time) string {
	if t.IsZero() {
		return pad("-", 16)
	}
	return t.Local().Format("2006-01-02 15:04")
}

func marks(ours, kept, active bool) string {
	text := ""
	if kept {
		text += " (kept)"
	} else if ours {
		text += " (ours)"
	}
	if !active {
		text += " (expired)"
	}
	return text
}

// putReport is what files put prints.
type putReport struct {
	Provider string       `json:"provider"`
	Files    []remoteFile `json:"files"`
	ended
}

func (r putReport) text(p *page) {
	for _, f := range r.Files {
		p.line("%s  %s", printable(f.ID), printableName(f.Name))
	}
}

// getReport is a file in what files get prints.
type getReport struct {
	ID     string    `json:"id"`
	Name   string    `json:"name"`
	Size   int64     `json:"size"`
	MIME   string    `json:"mime"`
	SHA256 string    `json:"sha256"`
	State  saveState `json:"state"`
	Path   string    `json:"path"`
}

func (r getReport) text(p *page) {
	switch r.State {
	case saveDone:
		p.line("saved %s (%s, sha256 %s)", printableName(r.Path), sizeText(r.Size), r.SHA256)
	case saveUnchanged:
		p.line("unchanged %s", printableName(r.Path))
	}
}

// removeReport is what files rm prints.
type removeReport struct {
	Provider string   `json:"provider"`
	Deleted  []string `json:"deleted"`
	ended
}

func (r removeReport) text(p *page) {
	for _, id := range r.Deleted {
		p.line("deleted %s", printable(id))
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
func showOthers(p *page, files []gcOther) {
	for _, f := range files {
		p.line("%s", p.paint(yellow, fmt.Sprintf("perhaps ours: %s %s (%s) at %s", printable(f.ID), printableName(f.Name),
			sizeText(f.Size), providerTitles[f.Provider])))
	}
	if len(files) > 0 {
		p.line("      made while a turn of ours ran whose reply got lost; `airlock files rm ID` deletes it")
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

// gcReport is what files gc prints.
type gcReport struct {
	Deleted []gcEntry `json:"deleted"`
	Kept    []gcEntry `json:"kept"`
	Left    []gcLeft  `json:"left"`
	// Others were made while a turn ran whose reply got lost. They may belong to another
	// program, so that only the user deletes them.
	Others []gcOther `json:"others"`
	ended
}

func (r gcReport) text(p *page) {
	for _, e := range r.Deleted {
		if e.ID == "" {
			p.line("nothing was made for %s at %s", printableName(e.Name), providerTitles[e.Provider])
			continue
		}
		p.line("deleted %s %s (%s) at %s", e.Kind, printable(e.ID), printableName(e.Name), providerTitles[e.Provider])
	}
	for _, e := range r.Left {
		p.line("%s", p.paint(yellow, "left: "+printable(provider.Entry{Kind: e.Kind, Name: e.Name}.String())+", at "+
			providerTitles[e.Provider]))
	}
	if len(r.Kept) > 0 {
		p.line("%s kept, as asked for", english.Plural(len(r.Kept), "object", ""))
	}
	showOthers(p, r.Others)
	if len(r.Deleted)+len(r.Left)+len(r.Kept)+len(r.Others) == 0 {
		p.line("Nothing was left behind.")
	}
}

// statsReport has the totals of all commands and services.
type statsReport struct {
	Rows   []provider.Counts `json:"rows"`
	Remote int               `json:"remote"` // Airlock's known objects at providers
	Kept   int               `json:"kept"`
}

func (r statsReport) text(p *page) {
	for _, row := range r.Rows {
		name := row.Provider
		if row.Model != "" {
			name += " " + printable(row.Model)
		}
		p.line("%s", p.paint(bold, name))
		if row.Turns > 0 {
			p.line("  turns      %d, %v each; %d failed", row.Turns, each(row.TurnTime, row.Turns), row.TurnErrors)
		}
		if row.Uploads > 0 {
			p.line("  uploads    %d, %v each", row.Uploads, each(row.UploadTime, row.Uploads))
		}
		if row.Downloads+row.Failures+row.Missing+row.DownloadsRetried > 0 {
			p.line("  downloads  %d, %s, %v each; %d retried, %d failed, %d promised and not found", row.Downloads,
				sizeText(row.Bytes), each(row.DownloadTime, row.Downloads), row.DownloadsRetried, row.Failures, row.Missing)
		}
		for _, e := range []provider.Evidence{provider.ByListing, provider.ByResultBlock, provider.ByAnnotation,
			provider.ByInline, provider.ByStdout, provider.ByLinkText} {
			if n := row.Files[e]; n > 0 {
				p.line("    found by %s: %d", e, n)
			}
		}
		if row.Retries+row.Recoveries > 0 {
			p.line("  repeated   %d calls; %d expired sessions made anew", row.Retries, row.Recoveries)
		}
	}
	if len(r.Rows) == 0 {
		p.line("Nothing was counted yet.")
	}
	p.line("%d of our objects are at providers, %d of them kept.", r.Remote, r.Kept)
}

// each returns the mean time of n calls.
func each(all time.Duration, n int64) time.Duration {
	return (all / time.Duration(max(n, 1))).Round(time.Millisecond)
}
