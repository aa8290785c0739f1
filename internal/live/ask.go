package live

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"unicode/utf8"

	"github.com/airlock-run/airlock/internal/engine"
)

// Completion has the texts that can replace the code between two offsets, in characters.
type Completion struct {
	Matches []string `json:"matches"`
	Start   int      `json:"start"`
	End     int      `json:"end"`
}

// Inspection describes a name, by MIME type.
type Inspection struct {
	Found bool                       `json:"found"`
	Data  map[string]json.RawMessage `json:"data"`
}

// Variable describes a name that the session's code defined.
type Variable struct {
	Name  string `json:"name"`
	Type  string `json:"type"`
	Shape string `json:"shape"` // "(3, 4)", or a length; empty: none
	Repr  string `json:"repr"`  // short; empty where it would run code
	Size  int64  `json:"size"`  // bytes, without referenced objects; 0: not known
}

// asked is a question about code.
type asked struct {
	Do     string `json:"do"`
	Code   string `json:"code"`
	Cursor int    `json:"cursor"`
	Detail int    `json:"detail,omitempty"`
	Target string `json:"target,omitempty"`
}

// Complete returns how code may continue at an offset in characters. It waits for the cells
// before it.
func (s *Service) Complete(
	ctx context.Context, caller engine.Caller, session engine.ID, code string, cursor int,
) (c Completion, err error) {
	err = s.question(ctx, caller, session, asked{Do: "complete", Code: code, Cursor: cursor}, &c)
	return c, err
}

// Inspect describes the name at an offset in characters.
func (s *Service) Inspect(
	ctx context.Context, caller engine.Caller, session engine.ID, code string, cursor, detail int,
) (i Inspection, err error) {
	err = s.question(ctx, caller, session, asked{Do: "inspect", Code: code, Cursor: cursor, Detail: detail}, &i)
	return i, err
}

// IsComplete reports whether code can run unchanged: complete, incomplete (and how the
// next line is indented), invalid or unknown.
func (s *Service) IsComplete(
	ctx context.Context, caller engine.Caller, session engine.ID, code string,
) (status, indent string, err error) {
	var answer struct{ Status, Indent string }
	err = s.question(ctx, caller, session, asked{Do: "is_complete", Code: code}, &answer)
	return answer.Status, answer.Indent, err
}

// Variables lists the names that the session's code made.
func (s *Service) Variables(ctx context.Context, caller engine.Caller, session engine.ID) ([]Variable, error) {
	var answer struct{ Variables []Variable }
	err := s.question(ctx, caller, session, asked{Do: "variables"}, &answer)
	return answer.Variables, err
}

// question queues a question for an interpreter and waits for the reply.
func (s *Service) question(ctx context.Context, caller engine.Caller, session engine.ID, q asked, answer any) error {
	if len(q.Code) > largestCell {
		return &engine.Error{Op: "ask", Kind: engine.ErrTooLarge, ID: "code", Err: errors.New("code may have 16 MiB")}
	}
	if q.Cursor < 0 || q.Cursor > utf8.RuneCountInString(q.Code) {
		return engine.Invalid("cursor", "is not in the code")
	}
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return err
	}
	return at.query(ctx, &order{do: q.Do, text: q, reply: make(chan reply, 1)}, answer)
}

// query is question for any order. An order that nobody waits for any more is taken back.
func (at *session) query(ctx context.Context, o *order, answer any) error {
	if err := at.enqueue(ctx, o); err != nil {
		return err
	}
	select {
	case r := <-o.reply:
		if r.err != nil {
			return r.err
		}
		if err := json.Unmarshal(r.report, answer); err != nil {
			return &engine.Error{Op: o.do, Kind: engine.ErrInternal, Err: errors.New("the interpreter's answer makes no sense")}
		}
		return nil
	case <-ctx.Done():
		at.mu.Lock()
		at.orders = slices.DeleteFunc(at.orders, func(waiting *order) bool { return waiting == o })
		at.mu.Unlock()
		return canceled(ctx)
	}
}
