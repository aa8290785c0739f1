package demo

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/assist/assignment"
)

// work carries out a request.
func (p *Project) work(r *http.Request, text []byte) (int, string) {
	p.mu.Lock()
	defer p.mu.Unlock()
	token := r.Header.Get("Authorization")
	if p.Token != "" && token != "Bearer "+p.Token {
		return refuse(http.StatusUnauthorized, "a token is needed")
	}
	parts := strings.Split(strings.TrimPrefix(r.URL.Path, "/api/v1/projects/"), "/")
	if !strings.HasPrefix(r.URL.Path, "/api/v1/projects/") || len(parts) < 2 {
		return refuse(http.StatusNotFound, "nothing lives here")
	}
	if r.Method == http.MethodGet {
		return p.read(parts, r.URL.Query().Get("state"))
	}
	if r.Method != http.MethodPost {
		return refuse(http.StatusMethodNotAllowed, "only GET and POST")
	}
	key := r.Header.Get("Idempotency-Key")
	if before, seen := p.answers[key]; seen && key != "" && !p.Forgetful {
		if before.request != r.URL.Path+"\n"+string(text) {
			return refuse(http.StatusConflict, "the key was used for something else")
		}
		return http.StatusOK, before.answer
	}
	status, body := p.write(parts, text)
	if status < 300 {
		if p.answers == nil {
			p.answers = map[string]stored{}
		}
		p.answers[key] = stored{r.URL.Path + "\n" + string(text), body}
		p.deliveries = append(p.deliveries, Delivery{Path: r.URL.Path, Key: key, Body: string(text), Token: token})
	}
	return status, body
}

func (p *Project) read(parts []string, state string) (int, string) {
	switch {
	case p.Blind:
		return refuse(http.StatusNotFound, "nothing can be read here")
	case len(parts) == 3 && parts[1] == "assignments":
		return http.StatusOK, encode(p.assignment(parts[0], parts[2]))
	case len(parts) == 2 && parts[1] == "escalations":
		list := []*Escalation{}
		for key, e := range p.escalations {
			if strings.HasPrefix(key, parts[0]+"/") && (state == "" || state == e.State) {
				list = append(list, e)
			}
		}
		slices.SortFunc(list, func(a, b *Escalation) int { return strings.Compare(a.ID, b.ID) })
		return http.StatusOK, encode(map[string]any{"escalations": list})
	case len(parts) == 3 && parts[1] == "escalations" && p.escalations[parts[0]+"/"+parts[2]] != nil:
		return http.StatusOK, encode(p.escalations[parts[0]+"/"+parts[2]])
	}
	return refuse(http.StatusNotFound, "nothing lives here")
}

func (p *Project) write(parts []string, text []byte) (int, string) {
	switch {
	case len(parts) == 4 && parts[1] == "assignments" && parts[3] == "progress":
		return p.progress(parts[0], parts[2], text)
	case len(parts) == 4 && parts[1] == "assignments" && parts[3] == "submit":
		return p.submit(parts[0], parts[2], text)
	case len(parts) == 2 && parts[1] == "escalations":
		return p.escalate(parts[0], text)
	case len(parts) == 4 && parts[1] == "escalations" && parts[3] == "decision":
		return p.decide(parts[0]+"/"+parts[2], text)
	}
	return refuse(http.StatusNotFound, "nothing lives here")
}

// read decodes a body, and reports whether it has all of the fields.
func read(text []byte, into any, fields ...string) bool {
	var members map[string]json.RawMessage
	if json.Unmarshal(text, &members) != nil || json.Unmarshal(text, into) != nil {
		return false
	}
	for _, f := range fields {
		if _, there := members[f]; !there {
			return false
		}
	}
	return true
}

func (p *Project) progress(project, id string, text []byte) (int, string) {
	var b assignment.ProgressBody
	if !read(text, &b, "progress_percent", "progress_notes", "remaining_items") || b.Percent < 0 || b.Percent > 100 {
		return refuse(http.StatusUnprocessableEntity, "this is no progress")
	}
	a := p.assignment(project, id)
	a.Percent, a.Notes, a.Remaining = b.Percent, b.Notes, b.Remaining
	return http.StatusOK, encode(a)
}

func (p *Project) submit(project, id string, text []byte) (int, string) {
	var b assignment.SubmissionBody
	if !read(text, &b, "submission_summary", "submission_evidence") {
		return refuse(http.StatusUnprocessableEntity, "this is no submission")
	}
	a := p.assignment(project, id)
	a.Status, a.Summary, a.Evidence = "SUBMITTED", b.Summary, b.Evidence
	return http.StatusOK, encode(a)
}

func (p *Project) escalate(project string, text []byte) (int, string) {
	var b assignment.QuestionBody
	if !read(text, &b, "escalation_id", "question", "options") || b.ID == "" {
		return refuse(http.StatusUnprocessableEntity, "this is no escalation")
	}
	if p.escalations == nil {
		p.escalations = map[string]*Escalation{}
	}
	key := project + "/" + b.ID
	if p.escalations[key] == nil {
		p.escalations[key] = &Escalation{QuestionBody: b, State: "open"}
	}
	return http.StatusCreated, encode(p.escalations[key])
}

func (p *Project) decide(key string, text []byte) (int, string) {
	e := p.escalations[key]
	if e == nil {
		return refuse(http.StatusNotFound, "there is no such escalation")
	}
	var b assignment.DecisionBody
	if !read(text, &b, "choice", "verdict", "decided_at") {
		return refuse(http.StatusUnprocessableEntity, "this is no decision")
	}
	if e.Decision != nil {
		return refuse(http.StatusConflict, "it was decided already")
	}
	e.State, e.Decision = "decided", &b
	return http.StatusOK, encode(e)
}
