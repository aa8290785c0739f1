package native

import (
	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/workspace"
)

// proposalBody is a reply on its way: what it would do, and what it did.
type proposalBody struct {
	ID        string                 `json:"id"`
	Message   string                 `json:"message"`
	Project   string                 `json:"project"`
	Root      string                 `json:"root"`
	Phase     string                 `json:"phase,omitempty"`
	CreatedAt string                 `json:"created_at"`
	State     conversation.State     `json:"state"`
	Token     string                 `json:"token"` // empty: it cannot be approved
	Files     []workspace.FileChange `json:"files"`
	Findings  []workspace.Finding    `json:"findings"`
	Reports   []reportBody           `json:"reports"`
	Held      []workspace.Held       `json:"held,omitzero"` // what the policy of the request does not cover
	Metadata  metadataBody           `json:"metadata"`
}

type metadataBody struct {
	ExecutionResult *conversation.Result `json:"executionResult"`
}

// reportBody is what would be told to the project.
type reportBody struct {
	ID         string            `json:"id"`
	Kind       assignment.Kind   `json:"kind"`
	Assignment string            `json:"assignment"`
	Summary    string            `json:"summary"`
	Holds      []assignment.Hold `json:"holds"`
}

func proposalOf(h *conversation.ReplyRecord, p *workspace.Proposal) proposalBody {
	b := proposalBody{ID: h.ID, Message: h.Message, Project: h.Project, Root: h.Root, Phase: h.Phase,
		CreatedAt: timeOf(h.Created),
		State:     h.Result.State, Token: tokenOf(h, p), Files: []workspace.FileChange{}, Findings: []workspace.Finding{},
		Reports: []reportBody{}, Metadata: metadataBody{h.Result}}
	if p != nil {
		b.Files, b.Findings = append(b.Files, p.Files...), append(b.Findings, p.Findings...)
	}
	for i := range h.Batch.Posts {
		post := &h.Batch.Posts[i]
		b.Reports = append(b.Reports, reportBody{reportID(i), post.Kind, post.Assignment, post.Summary(),
			append([]assignment.Hold{}, post.Holds...)})
	}
	return b
}

// tokenOf stands for what somebody was shown.
func tokenOf(h *conversation.ReplyRecord, p *workspace.Proposal) string {
	switch {
	case h.Done || h.Gate != "":
		return ""
	case p == nil:
		return h.ID
	}
	return p.Token
}
