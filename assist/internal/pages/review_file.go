package pages

import (
	"bytes"
	"cmp"
	"io"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/page"
)

// editBytes bounds a text that is edited in the page.
const editBytes = 1 << 20

// proposedView is one file of a proposal.
type proposedView struct {
	Reply    string
	Revision string
	Change   changeView
	Sides    []sideView // of a conflict: base, ours, theirs
	Draft    string
	CanEdit  bool
	Readings []readingView
	CanTake  bool // the proposed version can be taken
	Take     string
	Notice   string
}

// file shows one file: its whole diff, the three versions of a conflict, and an editor.
func (p *reviewPage) file(w http.ResponseWriter, v *page.Request, h waiting) (err error) {
	if h.proposal == nil {
		return p.Redirect(w, v, "/review/"+h.ID) // the reply is already settled
	}
	f := h.proposal.File(v.PathValue("file"))
	if f == nil {
		return page.ErrNotFound
	}
	body := proposedView{Reply: h.ID, Revision: h.proposal.Token, Change: changeOf(f, soloBudget())}
	if h.Gate != "" {
		body.Notice = h.Gate
	}
	if body.Draft, body.CanEdit, err = f.Draft(v.Context(), editBytes); err != nil {
		return err
	}
	body.CanEdit = body.CanEdit && !body.Change.Refused && h.Gate == ""
	if body.Change.Conflict {
		versions := f.Versions()
		body.CanTake, body.Take = h.Gate == "" && (versions.Theirs != nil && f.Op != workspace.OpUnchanged ||
			versions.Theirs == nil), "Take the proposed version"
		if versions.Theirs == nil {
			body.Take = "Delete it all the same"
		}
		for _, side := range []struct {
			title   string
			content *workspace.Content
			none    string
			differs map[int]bool
		}{
			{"Base: what both began with", versions.Base, "It is not known which version the author of the change saw.", nil},
			{"In the folder now", versions.Mine, "There is no such file in the folder.", differing(f.Hunks, "-")},
			{"Theirs: proposed", versions.Theirs, "The file would be gone.", differing(f.Hunks, "+")},
		} {
			body.Sides = append(body.Sides, p.side(v, side.title, side.content, side.none, side.differs))
		}
	}
	for _, r := range f.Readings {
		body.Readings = append(body.Readings, readingView{r.ID, p.side(v, r.What, r.Content, "", nil),
			r.Post.Hash == f.Post.Hash})
	}
	p.Render(w, v, http.StatusOK, "review_file", body.Change.Label, body)
	return nil
}

// readingView is a possible reading of the file.
type readingView struct {
	ID    string
	Side  sideView
	Taken bool // whether this is the proposed reading
}

func (p *reviewPage) side(
	v *page.Request, title string, c *workspace.Content, none string, differs map[int]bool,
) sideView {
	if c == nil {
		return sideView{Title: title, None: none}
	}
	data, err := c.Bytes(v.Context(), editBytes)
	if err != nil {
		return sideView{Title: title, None: page.ByteCount(c.Size()) + " that cannot be shown here."}
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return sideView{Title: title, None: page.ByteCount(c.Size()) + " that are no text."}
	}
	return sideOf(title, string(data), differs, soloBudget())
}

// resolve applies the user's resolution of a file. The result is a new proposal that needs
// its own approval.
func (p *reviewPage) resolve(w http.ResponseWriter, v *page.Request, h waiting) error {
	f := h.proposal.File(v.PathValue("file"))
	if f == nil {
		return page.ErrNotFound
	}
	ws, err := p.Workspace(v.Context(), h.proposal.Root)
	if err != nil {
		return err
	}
	choices := map[string]workspace.Choice{"mine": workspace.Mine, "theirs": workspace.Theirs, "edited": workspace.Edited,
		"skip": workspace.Skip}
	choice, known := choices[v.PostForm.Get("choice")]
	if id := v.PostForm.Get("choice"); slices.ContainsFunc(f.Readings,
		func(r workspace.Reading) bool { return r.ID == id }) {
		choice, known = workspace.Choice(id), true
	}
	if !known {
		return page.Refuse(http.StatusBadRequest, "This choice is not one of those on the page.", "Load the page again.")
	}
	var content []byte
	if choice == workspace.Edited {
		if _, ok, err := f.Draft(v.Context(), editBytes); err != nil || !ok {
			return page.Refuse(http.StatusBadRequest, "This file cannot be edited as a text.", "")
		}
		text := v.PostForm.Get("text")
		if marks := conflictMark(text); f.Verdict() == workspace.Conflict && marks != "" {
			return page.Refuse(http.StatusBadRequest, "The text still has the conflict mark "+marks+".",
				"Go back, choose what stays between the marks, and delete the marks.")
		}
		if content, err = f.Undraft(v.Context(), text, editBytes); err != nil {
			return err
		}
	}
	next, err := ws.Resolve(v.Context(), h.proposal, f.ID, choice, content)
	if err != nil {
		return err
	}
	if err := p.Revise(v.Context(), h.ReplyRecord, next); err != nil {
		return err
	}
	return p.Redirect(w, v, "/review/"+h.ID+"#"+f.ID)
}

// conflictMark returns a conflict mark of Draft that a text still has, "" for none.
func conflictMark(text string) string {
	for line := range strings.Lines(text) {
		switch line = strings.TrimRight(line, "\r\n"); line {
		case "<<<<<<< in the folder", ">>>>>>> proposed":
			return line
		}
	}
	return ""
}

// content serves the proposed content of a file. Browsers show only pictures of types that
// cannot have scripts; they download the rest.
func (p *reviewPage) content(w http.ResponseWriter, v *page.Request, h waiting) error {
	if h.proposal == nil {
		return page.ErrNotFound
	}
	f := h.proposal.File(v.PathValue("file"))
	if f == nil || f.After() == nil || f.Verdict() == workspace.Refuse {
		return page.ErrNotFound
	}
	kind := ""
	if f.Preview() == "image" {
		kind = f.Binary.Type
	}
	return sendContent(w, v, f.After(), f.Path, kind)
}

// sendContent serves the bytes of a file in a folder: a picture of a kind, or a download.
func sendContent(w http.ResponseWriter, v *page.Request, c *workspace.Content, name, picture string) error {
	content, err := c.Open(v.Context())
	if err != nil {
		return err
	}
	defer content.Close()
	if picture != "" && !v.URL.Query().Has("download") {
		name = ""
	}
	page.Untrusted(w, cmp.Or(picture, "application/octet-stream"), name)
	if _, err := io.Copy(w, content); err != nil {
		panic(http.ErrAbortHandler) // only a cut connection can still report the error
	}
	return nil
}

func (p *reviewPage) sendZip(w http.ResponseWriter, v *page.Request, proposal *workspace.Proposal, name string) error {
	page.Untrusted(w, "application/zip", name)
	if err := proposal.WriteZip(v.Context(), w); err != nil {
		p.Log.WarnContext(v.Context(), "archive not finished", "err", err)
		panic(http.ErrAbortHandler)
	}
	return nil
}
