package web

import (
	"cmp"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/page"
)

// fileGroup has the files of one notebook, session or run, or those uploaded between two of them.
type fileGroup struct {
	At    string // where its files are from; empty: uploaded
	Kind  string // "Notebook", "Session", "Run"; empty: uploaded
	Title string
	When  time.Time
	Files []fileRow
}

// fileRow is a file, with the earlier ones that it stands for: of the same content, or versions of it.
type fileRow struct {
	fileView
	Same     []fileView
	Versions []fileView
}

// grouping groups a list of files, the newest first.
type grouping struct {
	*filesPage
	groups   []fileGroup
	sessions map[engine.ID]*sessionRow // of the files in them
	wrote    map[engine.ID]*sessionRow // by id: of what was written in them, as those files say
	paths    map[string]*sessionRow    // of a path that one session has; nil: several have it
	content  map[engine.Digest]place
	names    map[fileKey]place
	runs     map[engine.ID]*engine.Run
}

type (
	place   struct{ group, row int }
	fileKey struct{ at, name string }
)

// groups groups files by what they belong to. Of files with the same content, and of the versions of a file in
// a session, the newest stands for all.
func (p *filesPage) groups(v *page.Request, files []engine.File, sessions []sessionRow) []fileGroup {
	g := &grouping{filesPage: p, sessions: map[engine.ID]*sessionRow{},
		wrote: map[engine.ID]*sessionRow{}, paths: map[string]*sessionRow{},
		content: map[engine.Digest]place{}, names: map[fileKey]place{}, runs: map[engine.ID]*engine.Run{}}
	for i := range sessions {
		s := &sessions[i]
		g.wrote[s.ID] = s
		for _, f := range s.files {
			g.sessions[f.ID] = s
			if other, known := g.paths[f.Path]; known && other != s {
				s = nil
			}
			g.paths[f.Path] = s
			s = &sessions[i]
		}
	}
	for _, f := range files {
		g.add(v, f)
	}
	return g.groups
}

func (g *grouping) add(v *page.Request, f engine.File) {
	if at, ok := g.content[f.SHA256]; ok {
		row := &g.groups[at.group].Files[at.row]
		row.Same = append(row.Same, g.fileView(f))
		return
	}
	of := g.groupOf(v, f)
	key := fileKey{of.At, fileName(f)}
	if at, ok := g.names[key]; ok && of.Kind != "" && of.Kind != "Run" {
		row := &g.groups[at.group].Files[at.row]
		row.Versions = append(row.Versions, g.fileView(f))
		g.content[f.SHA256] = at
		return
	}
	at := len(g.groups)
	for i := range g.groups {
		if of.Kind != "" && g.groups[i].At == of.At { // what is uploaded stands between the others
			at = i
		}
	}
	if n := len(g.groups); of.Kind == "" && n > 0 && g.groups[n-1].At == of.At {
		at = n - 1
	}
	if at == len(g.groups) {
		g.groups = append(g.groups, of)
	}
	to := &g.groups[at]
	g.content[f.SHA256] = place{at, len(to.Files)}
	g.names[key] = g.content[f.SHA256]
	to.Files = append(to.Files, fileRow{fileView: g.fileView(f)})
}

// groupOf returns what a file belongs to.
func (g *grouping) groupOf(v *page.Request, f engine.File) fileGroup {
	group := fileGroup{When: f.CreatedAt}
	session := cmp.Or(g.sessions[f.ID], g.wrote[f.Run])
	var run *engine.Run
	if session == nil && !f.Run.IsZero() {
		if run = g.run(v, f.Run); run == nil {
			// Cells leave no run. A version of a file that a session has was that session's.
			session = g.paths[fileName(f)]
		}
	}
	switch {
	case session != nil:
		group.At, group.Kind, group.Title = session.At, session.Kind, session.Title
	case run != nil:
		group.At, group.Kind = "/runs/"+f.Run.String(), "Run"
		group.Title = cmp.Or(titleOfRun(run), "A run whose code was not kept")
	case f.Run.IsZero():
		group.Title = "Uploaded"
	default:
		group.Title, group.Kind, group.At = "From a run or a session that has expired", "", "gone"
	}
	return group
}

// run returns a run, or nil if it is not stored.
func (g *grouping) run(v *page.Request, id engine.ID) *engine.Run {
	run, known := g.runs[id]
	if !known {
		run, _ = g.Engine.GetRun(v.Context(), v.Caller, id) // the list shows its files all the same
		g.runs[id] = run
	}
	return run
}

// sessionRow is a session in the list.
type sessionRow struct {
	engine.Session
	Title string
	Kind  string // "Notebook" or "Session"
	At    string // its page
	Files int    // -1: not counted
	Bytes int64
	files []engine.File
}

const countedSessions = 30

func (p *filesPage) sessionRows(v *page.Request, sessions []engine.Session) []sessionRow {
	rows := make([]sessionRow, len(sessions))
	for i, s := range sessions {
		rows[i] = rowOf(s, nil)
		rows[i].Files = -1
		if i >= countedSessions {
			continue
		}
		// A session that ends meanwhile, or whose workspace is in use, is listed without.
		if files, places, err := p.Engine.SessionFiles(v.Context(), v.Caller, s.ID); err == nil {
			for j := range files {
				files[j].Path = places[j].Path
			}
			rows[i] = rowOf(s, files)
		}
	}
	return rows
}

// rowOf returns a session with its files, each under its path there.
func rowOf(s engine.Session, files []engine.File) sessionRow {
	row := sessionRow{Session: s, Title: page.Named(s.Name), Kind: "Session", At: "/sessions/" + s.ID.String(),
		Files: len(files), files: files}
	for _, f := range files {
		row.Bytes += f.Size
		name, ok := strings.CutSuffix(f.Path, ".ipynb")
		if ok && !strings.Contains(name, "/") && s.Kind == engine.SessionLive && row.Kind != "Notebook" {
			row.Kind, row.At = "Notebook", "/notebooks/"+s.ID.String()
			row.Title = cmp.Or(row.Title, page.Named(name))
		}
	}
	row.Title = cmp.Or(row.Title, "Session of "+s.CreatedAt.UTC().Format("2 Jan, 15:04 UTC"))
	return row
}
