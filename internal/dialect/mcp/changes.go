package mcp

import (
	"context"
	"fmt"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
)

// Changes stores plans for a person's folders. `airlock apply` finds the same plans.
type Changes interface {
	// Propose plans the changes of a reply.
	Propose(ctx context.Context, response, root string) (Plan, error)
	// Plan returns an earlier plan.
	Plan(ctx context.Context, id string) (Plan, error)
	// Apply applies a plan, or a part of it, and describes what was done. The person has agreed.
	Apply(ctx context.Context, id string, only []string) (string, error)
}

// Plan is a proposed change of a folder.
type Plan struct {
	ID      string
	Summary string // "3 files: +40 -12 in /home/ada/site"
	Diff    string
	Done    string // the outcome; empty: it is pending
	Agreed  bool   // the person has approved it in advance
	Review  string // how to approve it elsewhere
	Page    string // address for the approval; empty: there is none
}

func (s *Server) proposeChanges(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	plan, err := s.Changes.Propose(ctx, c.text("response"), c.text("root"))
	if err != nil {
		return nil, err
	}
	if plan.Done != "" {
		return answer(plan.Done + "."), nil
	}
	return answer(fmt.Sprintf("Plan %s. %s. Nothing was changed: apply_changes with plan_id=%q asks the person.\n\n%s",
		plan.ID, plan.Summary, plan.ID, shorten(plan.Diff, defaultChars))), nil
}

// question is the key of the confirmation in a request for input.
const question = "confirm"

// applyChanges applies a plan once the person has agreed. The model cannot agree: an answer is
// bound to a question that was asked.
func (s *Server) applyChanges(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	id := c.text("plan_id")
	plan, err := s.Changes.Plan(ctx, id)
	if err != nil {
		return nil, err
	}
	given, asked := c.request.Params.InputResponses[question].(*sdk.ElicitResult)
	about := "" // no question was asked
	if asked {
		about, _ = s.askedOf(c)
	}
	switch {
	case plan.Done != "" && about == onPage+id:
		return answer("The person has decided: the plan is " + plan.Done + "."), nil
	case plan.Done != "":
		return nil, refused("this plan is used: it is %s", plan.Done)
	case plan.Agreed:
	case !asked:
		return s.askFor(c, plan), nil
	case about != id && about != onPage+id:
		return nil, refused("that question was answered before, or is older than 10 minutes: call apply_changes again")
	case given.Action != "accept":
		return answer("The person did not agree. Nothing was changed."), nil
	case about == onPage+id: // the person only agreed to open the page
		return waiting(plan), nil
	}
	done, err := s.Changes.Apply(ctx, id, c.list("only"))
	if err != nil {
		return nil, err
	}
	return answer(done), nil
}

// askedOf returns the subject of the question that a call answers. A question can be answered once,
// by the client that was asked.
func (s *Server) askedOf(c *call) (about string, ok bool) {
	if is, ok := s.questions.redeem(c.request.Params.RequestState); ok && is.owner == c.caller.Owner {
		return is.about, true
	}
	return "", false
}

// onPage marks a question that is answered on a page, not in the client.
const onPage = "on a page: "

func waiting(plan Plan) *sdk.CallToolResult {
	return answer("Waiting for approval: " + plan.Review + ", then call again.")
}

// askFor asks the person, if the client can show a question or open a page.
func (s *Server) askFor(c *call, plan Plan) *sdk.CallToolResult {
	can := c.request.ClientCapabilities()
	switch {
	case canAsk(c):
		return &sdk.CallToolResult{
			InputRequests: form("Change " + plan.Summary + "?"),
			RequestState:  s.questions.put(c.caller.Owner, plan.ID),
		}
	case plan.Page != "" && can != nil && can.Elicitation != nil && can.Elicitation.URL != nil:
		state := s.questions.put(c.caller.Owner, onPage+plan.ID)
		return &sdk.CallToolResult{RequestState: state, InputRequests: sdk.InputRequestMap{question: &sdk.ElicitParams{
			Mode: "url", URL: plan.Page, ElicitationID: state, Message: "Review: change " + plan.Summary,
		}}}
	}
	return waiting(plan)
}

// canAsk reports whether the client can show a question.
func canAsk(c *call) bool {
	can := c.request.ClientCapabilities()
	return can != nil && can.Elicitation != nil && (can.Elicitation.Form != nil || can.Elicitation.URL == nil)
}

// form returns a yes-or-no question.
func form(text string) sdk.InputRequestMap {
	return sdk.InputRequestMap{question: &sdk.ElicitParams{
		Mode: "form", Message: text, RequestedSchema: map[string]any{"type": "object", "properties": map[string]any{}},
	}}
}
