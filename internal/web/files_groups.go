package web

import (
	"fmt"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// fileGroup is what one run made, or what was uploaded between two runs.
type fileGroup struct {
	Run   string // its id; empty: uploaded
	Title string
	When  time.Time
	Files []fileRow
}

// fileRow is a file, with those of the list that have the same content.
type fileRow struct {
	fileView
	Same []fileView
}

// groups puts a list of files, the newest first, in groups. Of files with the same
// content the newest stands for all of them.
func (p *filesPage) groups(v *webRequest, files []engine.File) []fileGroup {
	var groups []fileGroup
	type place struct{ group, row int }
	first := map[engine.Digest]place{}
	for _, f := range files {
		if at, ok := first[f.SHA256]; ok {
			row := &groups[at.group].Files[at.row]
			row.Same = append(row.Same, p.fileView(f))
			continue
		}
		run := ""
		if !f.Run.IsZero() {
			run = f.Run.String()
		}
		if n := len(groups); n == 0 || groups[n-1].Run != run {
			groups = append(groups, fileGroup{Run: run, Title: p.groupTitle(v, f.Run), When: f.CreatedAt})
		}
		g := &groups[len(groups)-1]
		first[f.SHA256] = place{len(groups) - 1, len(g.Files)}
		g.Files = append(g.Files, fileRow{fileView: p.fileView(f)})
	}
	return groups
}

func (p *filesPage) groupTitle(v *webRequest, id engine.ID) string {
	if id.IsZero() {
		return "Uploaded"
	}
	run, err := p.Engine.GetRun(v.Context(), v.caller, id)
	switch {
	case err != nil:
		return "A run that is not kept any more"
	case run.Source == nil:
		return "A run whose code is not kept"
	}
	return (&runPage{Site: p.Site}).past(run).Title
}

// sessionRow is a session in the list, with what is in it.
type sessionRow struct {
	engine.Session
	Files int // -1: not counted
	Bytes int64
}

const countedSessions = 30

func (p *filesPage) sessionRows(v *webRequest, sessions []engine.Session) []sessionRow {
	rows := make([]sessionRow, len(sessions))
	for i, s := range sessions {
		rows[i] = sessionRow{Session: s, Files: -1}
		if i >= countedSessions {
			continue
		}
		// One that ends meanwhile, or whose workspace is in use, is listed without.
		if files, _, err := p.Engine.SessionFiles(v.Context(), v.caller, s.ID); err == nil {
			rows[i].Files = len(files)
			for _, f := range files {
				rows[i].Bytes += f.Size
			}
		}
	}
	return rows
}

// keptWords says what somebody keeps, and how much they may.
func keptWords(u engine.Usage, q engine.Quota) string {
	files, size := count(u.Files, "file"), byteCount(u.Bytes)
	if q.Files > 0 {
		files = fmt.Sprintf("%d of at most %s", u.Files, count(q.Files, "file"))
	}
	if q.Bytes > 0 {
		size += " of " + byteCount(q.Bytes)
	}
	words := "You keep " + files + ", " + size
	if q.Sessions > 0 {
		words += fmt.Sprintf(", and %d of at most %s", u.Sessions, count(q.Sessions, "session"))
	}
	return words + "."
}
