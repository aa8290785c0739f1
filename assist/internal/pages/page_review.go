package pages

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/reply"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// Review configures the pages about replies, projects and reports.
type Review struct {
	*changes.Scoped
	Replies Replies
}

// Replies lists replies.
type Replies interface {
	// Recent returns the newest replies of an owner, newest first: either the settled or
	// the pending ones.
	Recent(ctx context.Context, owner string, settled bool, limit int) ([]*changes.ReplyRecord, error)
}

// reviewPage shows proposals of models, and lets the user decide.
type reviewPage struct {
	*page.Site
	*Review
}

// add adds the pages to a site.
func (review *Review) add(s *page.Site) {
	p := &reviewPage{s, review}
	s.Nav = append(s.Nav, page.Entry{Name: "review", Title: "Review", Path: "/review", Machine: true})
	for _, page := range []string{"review_reply", "review_file", "review_files", "projects", "timeline", "transaction",
		"outbox"} {
		s.Sections[page] = "review"
	}
	look := map[string]page.Handler{
		"/review":                           p.list,
		"/review/{id}":                      page.With(p.find, p.reply),
		"/review/{id}/files.zip":            page.With(p.find, p.zip),
		"/review/{id}/files/{file}":         page.With(p.find, p.file),
		"/review/{id}/files/{file}/content": page.With(p.find, p.content),
		"/projects":                         p.projects,
		"/projects/{project}":               page.With(p.linked, p.timeline),
		"/projects/{project}/history/{txn}": page.With(p.linked, p.transaction),
		"/outbox":                           p.outbox,
	}
	for path, serve := range look {
		s.Mux.HandleFunc("GET "+path, s.Handle(p.worded(serve)))
	}
	do := map[string]page.Handler{
		"/review":                                      p.propose,
		"/review/files.zip":                            p.zipText,
		"/review/{id}/apply":                           page.With(p.find, p.apply),
		"/review/{id}/decline":                         page.With(p.find, p.decline),
		"/review/{id}/rebase":                          page.With(p.openToChange, p.rebase),
		"/review/{id}/undo":                            page.With(p.find, p.undoReply),
		"/review/{id}/files/{file}":                    page.With(p.openToChange, p.resolve),
		"/projects":                                    p.link,
		"/projects/{project}/unlink":                   p.unlink,
		"/projects/{project}/undo":                     page.With(p.linked, p.undo),
		"/projects/{project}/redo":                     page.With(p.linked, p.redo),
		"/projects/{project}/escalations/{escalation}": page.With(p.linked, p.answer),
		"/outbox":                                      p.retryAll,
		"/outbox/{id}":                                 p.changePost,
	}
	for path, serve := range do {
		s.Mux.HandleFunc("POST "+path, s.Decision(p.worded(serve)))
	}
	p.localRoutes()
}

// waiting is a reply with its proposal, which is nil if none can be approved.
type waiting struct {
	*changes.ReplyRecord
	proposal *workspace.Proposal
}

// find returns the reply that a request is about.
func (p *reviewPage) find(v *page.Request) (waiting, error) {
	h, proposal, err := p.OpenReply(v.Context(), v.Owner(), v.PathValue("id"))
	return waiting{h, proposal}, err
}

// linked returns the project that a request is about.
func (p *reviewPage) linked(v *page.Request) (changes.Link, error) {
	return p.Linked(v.Context(), v.Owner(), v.PathValue("project"))
}

// listView lists replies.
type listView struct {
	Projects []projectView
	Waiting  []replyEntry
	Settled  []replyEntry
	Beyond   int // that wait in folders that this service was not given
	Text     string
}

// replyEntry is a reply in a list.
type replyEntry struct {
	*changes.ReplyRecord
	What    string
	Files   []string
	More    int
	Reports int
	State   string
	Class   string
}

const mostListed = 50

func (p *reviewPage) list(w http.ResponseWriter, v *page.Request) error {
	body := listView{}
	links, err := p.links(v)
	if err != nil {
		return err
	}
	for _, l := range links {
		body.Projects = append(body.Projects, p.projectView(l))
	}
	waiting, err := p.Replies.Recent(v.Context(), v.Owner(), false, mostListed)
	if err != nil {
		return err
	}
	files := map[string][]string{} // by folder and transaction
	for _, h := range waiting {
		if h.Root != "" && !p.Allows(h.Root) {
			body.Beyond++
			continue
		}
		if h.Root != "" && files[h.Root] == nil {
			p.waitingFiles(v.Context(), h.Root, files)
		}
		body.Waiting = append(body.Waiting, entryOf(h, files[h.Root+"\x00"+h.ID]))
	}
	settled, err := p.Replies.Recent(v.Context(), v.Owner(), true, mostListed)
	if err != nil {
		return err
	}
	for _, h := range settled {
		if h.Root == "" || p.Allows(h.Root) {
			body.Settled = append(body.Settled, entryOf(h, resultFiles(h.Result)))
		}
	}
	p.Render(w, v, http.StatusOK, "review", "Review", body)
	return nil
}

// waitingFiles lists the files of a folder's proposals. If it cannot open the folder, the
// page of the reply shows the error.
func (p *reviewPage) waitingFiles(ctx context.Context, root string, files map[string][]string) {
	files[root] = []string{}
	ws, err := p.Workspace(ctx, root)
	if err != nil {
		return
	}
	found, err := ws.History(ctx, 0, workspace.Proposed)
	if err != nil {
		p.Log.WarnContext(ctx, "proposals cannot be listed", "err", err)
		return
	}
	for _, t := range found {
		for i := range t.Files {
			files[root+"\x00"+t.ID] = append(files[root+"\x00"+t.ID], summary(&t.Files[i]))
		}
	}
}

func resultFiles(r *changes.Result) []string {
	all := r.Files()
	for i, file := range all {
		all[i] = page.Named(file)
	}
	return all
}

func entryOf(h *changes.ReplyRecord, files []string) replyEntry {
	const most = 4
	e := replyEntry{ReplyRecord: h, What: kindWords(h.Kind), Files: files, Reports: len(h.Batch.Posts)}
	e.State, e.Class = stateWords(h)
	if len(files) > most {
		e.Files, e.More = files[:most], len(files)-most
	}
	return e
}

func kindWords(kind string) string {
	return cmp.Or(map[string]string{"undo": "Undo", "redo": "Redo"}[kind], "Reply")
}

// stateWords returns the state of a reply, and its CSS class.
func stateWords(h *changes.ReplyRecord) (words, class string) {
	w := map[changes.State]wording{changes.Proposed: {"waits for you", "running"}, changes.Applied: {"applied", "ok"},
		changes.Declined: {"declined", ""}, changes.ShownOnly: {"only shown", ""},
		changes.Failed: {"not applied yet: look again", "error"}}[h.Result.State]
	return w.words, w.class
}

// links returns the projects whose replies can be applied here.
func (p *reviewPage) links(v *page.Request) ([]changes.Link, error) {
	all, err := p.Store.Links(v.Context(), v.Owner())
	var allowed []changes.Link
	for _, l := range all {
		if p.Allows(l.Root) {
			allowed = append(allowed, l)
		}
	}
	return allowed, err
}

// propose proposes a pasted reply.
func (p *reviewPage) propose(w http.ResponseWriter, v *page.Request) error {
	text := strings.ReplaceAll(v.PostForm.Get("text"), "\r\n", "\n") // browsers send forms that way
	if strings.TrimSpace(text) == "" {
		return page.Refuse(http.StatusBadRequest, "There is no reply to look at.", "Paste what the model has written.")
	}
	policy, err := policyOf(v.PostForm.Get("policy"))
	if err != nil {
		return err
	}
	project := v.PostForm.Get("project")
	if project == "" {
		return p.unlinked(w, v, text)
	}
	if _, err := p.Linked(v.Context(), v.Owner(), project); err != nil {
		return err
	}
	h, proposal, err := p.Propose(v.Context(), v.Owner(), changes.Message{Text: text, Project: project},
		reply.Parse([]byte(text)))
	if err != nil {
		return err
	}
	if err := p.Keep(v.Context(), h, proposal); err != nil {
		return err
	}
	if policy != nil && h.Gate == "" && !h.Done {
		if consent, held := changes.CoveredBy(*policy, proposal, false); consent.Covers(held) {
			if _, err := p.Apply(v.Context(), h, proposal, changes.Token(h, proposal), consent); err != nil &&
				!errors.Is(err, workspace.ErrConflict) {
				return err
			}
		}
	}
	return p.Redirect(w, v, "/review/"+h.ID)
}

// policyOf parses the policy in a form, nil for none.
func policyOf(text string) (*workspace.Policy, error) {
	if strings.TrimSpace(text) == "" {
		return nil, nil
	}
	policy, err := workspace.ParsePolicy([]byte(text))
	if err != nil {
		return nil, page.Refuse(http.StatusBadRequest, "The rules are not a policy: "+err.Error()+".",
			"Write them as in a file for --policy, or leave the field empty.")
	}
	return &policy, nil
}

// unlinkedView is a reply without a folder.
type unlinkedView struct {
	Text  string
	Files []looseFile
	Shown []changes.Shown // status blocks
	Any   bool            // there is something for an archive
}

// looseFile is a file to copy by hand.
type looseFile struct {
	changeView
	Body  string
	Lines sideView
}

const looseBytes = 256 << 10 // of one file, to be copied

// unlinked shows a reply without a folder, whose files can be copied one by one or
// downloaded as an archive. It saves nothing.
func (p *reviewPage) unlinked(w http.ResponseWriter, v *page.Request, text string) error {
	parsed := reply.Parse([]byte(text))
	proposal, err := p.Unlinked(v.Context(), parsed)
	if err != nil {
		return err
	}
	body := unlinkedView{Text: text}
	for i := range proposal.Files {
		f := &proposal.Files[i]
		file := looseFile{changeView: changeOf(f, &budget{line: lineBytes})}
		if file.Open() && f.After() != nil {
			body.Any = true
		}
		if draft, ok, err := f.Draft(v.Context(), looseBytes); err == nil && ok && file.Open() {
			file.Body, file.Lines = draft, sideOf(file.Label, draft, nil, newBudget())
		}
		body.Files = append(body.Files, file)
	}
	for _, it := range parsed.Items {
		if it.Kind == reply.KindBlock && it.Block != nil {
			body.Shown = append(body.Shown, changes.Shown{Block: it.Block.Type,
				Reason: "is reported only for a project that is linked"})
		}
	}
	p.Render(w, v, http.StatusOK, "review_files", "A reply without a folder", body)
	return nil
}

// zipText packs the files of a reply without a folder.
func (p *reviewPage) zipText(w http.ResponseWriter, v *page.Request) error {
	proposal, err := p.Unlinked(v.Context(), reply.Parse([]byte(strings.ReplaceAll(v.PostForm.Get("text"), "\r\n", "\n"))))
	if err != nil {
		return err
	}
	return p.sendZip(w, v, proposal, "reply.zip")
}

// zip packs the proposed files.
func (p *reviewPage) zip(w http.ResponseWriter, v *page.Request, h waiting) error {
	if h.proposal == nil {
		return page.ErrNotFound
	}
	return p.sendZip(w, v, h.proposal, "reply-"+h.ID+".zip")
}
