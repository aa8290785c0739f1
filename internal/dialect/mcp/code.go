package mcp

import (
	"context"
	"crypto/rand"
	"errors"
	"strconv"
	"sync"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/toolcall"
)

// Upstream has tools of other servers that programs call.
type Upstream interface {
	// Search finds tools by words and describes how programs call them. Detail is names, signatures
	// or full.
	Search(ctx context.Context, query, detail string, limit int) string
	// Host answers the calls of one program. ask puts a question to the person.
	Host(ask func(ctx context.Context, question string) (bool, error)) live.Host
}

func (s *Server) searchTools(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	return answer(s.Upstream.Search(ctx, c.text("query"), c.text("detail"), c.int("limit"))), nil
}

// dialogs are the questions of running programs, by handle. The client that waits for a program
// answers them.
type dialogs struct{ byRun sync.Map }

func (d *dialogs) of(run string) *toolcall.Queue {
	found, _ := d.byRun.Load(run)
	talk, _ := found.(*toolcall.Queue)
	return talk
}

// ask puts a question of a program to the person, and returns the answer.
func ask(ctx context.Context, talk *toolcall.Queue, text string) (agreed bool, err error) {
	question := toolcall.NewCall(text, nil)
	question.ID = rand.Text()
	answer, err := talk.Ask(ctx, question)
	if err != nil {
		return false, errors.New("nobody answered")
	}
	return string(answer) == "true", nil
}

// reply answers the oldest question of a program.
func (d *dialogs) reply(run string, agreed bool) {
	d.of(run).Answer(toolcall.Answer{Result: strconv.AppendBool(nil, agreed)})
}

// put returns a result that makes the client ask the person. Clients of older versions are asked in
// place.
func (s *Server) put(c *call, run string, q *toolcall.Call) *sdk.CallToolResult {
	return &sdk.CallToolResult{InputRequests: form(q.Name), RequestState: s.questions.put(c.caller.Owner, run)}
}

// answered passes the answer of a person on to a program and returns the program. It
// returns nil if the call answers no question.
func (s *Server) answered(ctx context.Context, c *call) (*cell, error) {
	given, asked := c.request.Params.InputResponses[question].(*sdk.ElicitResult)
	if !asked {
		return nil, nil //nolint:nilnil // a first call
	}
	run, ok := s.askedOf(c)
	if !ok {
		return nil, refused("that question was answered before, or is older than 10 minutes: call run_code again")
	}
	p, err := s.program(ctx, c.caller, run)
	if err == nil {
		s.dialogs.reply(run, given.Action == "accept")
	}
	return p, err
}
