package pages

import (
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/assist/internal/conversation"
	"github.com/airlock-run/airlock/internal/page"
)

// answer answers a question that waits. The first tab to answer wins.
func (p *askPage) answer(w http.ResponseWriter, v *page.Request) error {
	id := v.PathValue("id")
	pending, err := p.Live.Pending(v.Owner(), id)
	if err != nil {
		return err
	}
	at := slices.IndexFunc(pending, func(q conversation.Ask) bool { return q.ID == v.PathValue("question") })
	if at < 0 {
		return conversation.ErrAnswered
	}
	a, err := answerOf(pending[at], v.PostForm)
	if err != nil {
		return err
	}
	if err := p.Live.Answer(v.Owner(), id, pending[at].ID, a); err != nil {
		return err
	}
	if h := pending[at].Handled; h != nil && v.PostForm.Get("answer") == "review" {
		return p.created(w, v, h.ID, "/review/"+h.ID)
	}
	return p.created(w, v, id, "/ask/"+id)
}

// answerOf reads the answer to a question from a form. It picks only what was marked, and
// only outputs with the hash that was shown.
func answerOf(q conversation.Ask, form url.Values) (a conversation.Answer, err error) {
	switch form.Get("answer") {
	case "yes":
		a.OK = true
	case "no":
		return a, nil
	case "later", "review": // the review page shows all of it
		a.Later = q.Kind == conversation.AskApply
		return a, nil
	default:
		return a, page.Refuse(http.StatusBadRequest, "This is not an answer.", "Use one of the buttons of the question.")
	}
	a.Picks = []conversation.Pick{}
	marked := func(id string) bool { return slices.Contains(form["pick"], id) }
	switch q.Kind {
	case conversation.AskSkip:
		a.Picks = nil
	case conversation.AskSend, conversation.AskMore, conversation.AskInline:
		for _, f := range q.Files {
			if marked(f.ID) {
				a.Picks = append(a.Picks, conversation.Pick{ID: f.ID})
			}
		}
	case conversation.AskSave:
		for _, o := range q.Outputs {
			if !marked(o.ID) || o.Refused != "" {
				continue
			}
			clash, err := clashOf(form.Get("clash-" + o.ID))
			if err != nil {
				return a, err
			}
			a.Picks = append(a.Picks, conversation.Pick{ID: o.ID, SHA256: form.Get("sha256-" + o.ID), Clash: clash,
				As: strings.TrimSpace(form.Get("as-" + o.ID))})
		}
	default: // changes are approved on the review page, which shows all of them
		return conversation.Answer{}, page.Refuse(http.StatusBadRequest,
			"Changes of the project are agreed to on their own page.", "Open them in Review.")
	}
	a.OK = a.Picks == nil || len(a.Picks) > 0 // nothing marked is a no
	return a, nil
}

func clashOf(text string) (conversation.Clash, error) {
	switch c := conversation.Clash(text); c {
	case "", conversation.ClashReplace, conversation.ClashRename, conversation.ClashSkip:
		return c, nil
	}
	return "", page.Refuse(http.StatusBadRequest,
		"An existing file can be replaced, kept beside the new one, or left alone.", "Choose one of the three.")
}

// decideOutput saves or discards an output of a turn that has ended.
func (p *askPage) decideOutput(w http.ResponseWriter, v *page.Request) error {
	id, output := v.PathValue("id"), v.PathValue("output")
	number, err := strconv.Atoi(v.PathValue("turn"))
	if err != nil {
		return page.ErrNotFound
	}
	var t *conversation.Turn
	switch v.PostForm.Get("do") {
	case "discard":
		t, err = p.Live.Host.Discard(v.Context(), v.Owner(), id, number, output)
	case "save":
		t, err = p.save(v, id, number, output)
	default:
		return page.Refuse(http.StatusBadRequest, "A file can be saved or discarded.", "Use one of the buttons.")
	}
	if err != nil {
		return err
	}
	if !v.Wants("application/x-part") {
		return p.Redirect(w, v, "/ask/"+id+"#turn-"+strconv.Itoa(t.Number))
	}
	projects, err := p.Projects(v.Context(), v.Owner())
	if err != nil {
		return err
	}
	return p.SendPart(w, v, "ask", "outputs", p.outputsOf(v, id, t.Number, t.Outputs, projects,
		v.PostForm.Get("project"), true, t.Ended))
}

func (p *askPage) save(v *page.Request, id string, turn int, output string) (*conversation.Turn, error) {
	link, err := p.project(v, v.PostForm.Get("project"))
	if err != nil {
		return nil, err
	}
	clash, err := clashOf(v.PostForm.Get("clash"))
	if err != nil {
		return nil, err
	}
	sum := v.PostForm.Get("sha256")
	if sum == "" {
		return nil, page.Refuse(http.StatusBadRequest, "It is not said which file was looked at.", "Load the page again.")
	}
	if clash == conversation.ClashSkip {
		return p.Live.Host.Discard(v.Context(), v.Owner(), id, turn, output)
	}
	return p.Live.Host.SaveOutputs(v.Context(), v.Owner(), id, turn, conversation.Answer{
		OK: true, Folder: link.Root, Picks: []conversation.Pick{{ID: output, SHA256: sum, Clash: clash}}})
}
