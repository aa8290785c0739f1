// Package api serves the assistant's part of Airlock's own API: replies, proposals, projects and
// their reports; conversations. openapi.yaml in internal/dialect/native describes it. Like every
// edge it decodes, calls, and encodes.
package api

import (
	"github.com/airlock-run/airlock/assist/assignment"
	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/internal/rest"
)

// Work has what the routes serve.
type Work struct {
	*changes.Scoped                    // replies and projects; nil: those addresses are not available
	Outbox          *assignment.Outbox // reports to projects
	Conversations   Conversations      // with models; nil: their addresses are not available
	// OneMachine returns why nothing is available when several nodes answer, "" if it is.
	OneMachine func() (why string)
}

// Routes returns the routes of replies, proposals, projects, reports and conversations, which
// only callers with a key have, and the machine itself.
func (w *Work) Routes() []rest.Route {
	return []rest.Route{
		{Method: "POST", Path: "/replies", Serve: w.about((*Work).createReply)},
		{Method: "GET", Path: "/proposals/{id}", Serve: w.proposal((*Work).getProposal)},
		{Method: "POST", Path: "/proposals/{id}/approve", Serve: w.proposal((*Work).approveProposal)},
		{Method: "POST", Path: "/proposals/{id}/undo", Serve: w.proposal((*Work).undoProposal)},
		{Method: "DELETE", Path: "/proposals/{id}", Serve: w.proposal((*Work).declineProposal)},
		{Method: "GET", Path: "/projects", Serve: w.about((*Work).listProjects)},
		{Method: "PUT", Path: "/projects/{id}", Serve: w.about((*Work).putProject)},
		{Method: "DELETE", Path: "/projects/{id}", Serve: w.about((*Work).deleteProject)},
		{Method: "POST", Path: "/projects/{id}/prompt", Serve: w.about((*Work).projectPrompt)},
		{Method: "POST", Path: "/projects/{id}/escalations/{escalation}", Serve: w.about((*Work).answerEscalation)},
		{Method: "GET", Path: "/outbox", Serve: w.about((*Work).listPosts)},
		{Method: "POST", Path: "/outbox/{id}", Serve: w.about((*Work).changePost)},

		{Method: "GET", Path: "/conversations", Serve: w.listConversations},
		{Method: "GET", Path: "/conversations/{id}", Serve: w.getConversation},
		{Method: "DELETE", Path: "/conversations/{id}", Serve: w.deleteConversation},
		{Method: "GET", Path: "/conversations/{id}/outputs/{sha256}", Serve: w.conversationOutput},
	}
}
