package live

import (
	"context"
	"encoding/json"
	"errors"
	"iter"

	"github.com/airlock-run/airlock/internal/engine"
)

// CommMessage is a message of a comm: a connection of Jupyter's between an object of Python, as a
// widget, and its counterpart on a page.
type CommMessage struct {
	Kind     string          `json:"msg_type"` // comm_open, comm_msg or comm_close
	Content  json.RawMessage `json:"content"`  // an object, with comm_id and data
	Metadata json.RawMessage `json:"metadata"` // an object; nil: none
	Buffers  [][]byte        `json:"buffers"`
}

// Limits of what the comms of a cell say.
const (
	maxComms  = 10_000
	commBytes = 32 << 20
)

func (m *CommMessage) size() int {
	size := len(m.Content) + len(m.Metadata)
	for _, b := range m.Buffers {
		size += len(b)
	}
	return size
}

// Comm describes an open comm.
type Comm struct {
	Target string `json:"target_name"`
}

// errNoComms is of a session that has no comms: its language has none, or it has no interpreter.
var errNoComms = errors.New("this session has no comms")

// hasComms returns a session that may have comms.
func (s *Service) hasComms(ctx context.Context, caller engine.Caller, session engine.ID) (*session, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	at.mu.Lock()
	defer at.mu.Unlock()
	if at.settings.Language != "python" || at.interpreter == nil || at.interpreter.ending != "" {
		return nil, &engine.Error{Op: "comm", Kind: engine.ErrConflict, ID: session.String(), Err: errNoComms}
	}
	return at, nil
}

// Comms returns the open comms with a target, by their ids; an empty target is any.
func (s *Service) Comms(
	ctx context.Context, caller engine.Caller, session engine.ID, target string,
) (map[string]Comm, error) {
	if _, err := s.hasComms(ctx, caller, session); err != nil {
		return nil, err
	}
	var answer struct{ Comms map[string]Comm }
	err := s.question(ctx, caller, session, asked{Do: "comm_info", Target: target}, &answer)
	return answer.Comms, err
}

// SendComm sends a page's message to a comm, after the cells before it, and yields what comes of it,
// up to its done. It is not among the cells of the session. parent is CellRequest.Parent. It is
// ErrConflict where there are no comms.
func (s *Service) SendComm(
	ctx context.Context, caller engine.Caller, session engine.ID, parent string, m CommMessage,
) (iter.Seq[Event], error) {
	switch m.Kind {
	case "comm_open", "comm_msg", "comm_close":
	default:
		return nil, engine.Invalid("msg_type", "%.20q is neither comm_open, comm_msg nor comm_close", m.Kind)
	}
	if m.Content == nil {
		return nil, engine.Invalid("content", "is missing")
	}
	if m.size() > largestCell {
		return nil, &engine.Error{Op: "comm", Kind: engine.ErrTooLarge, ID: "message",
			Err: errors.New("a message of a comm may have 16 MiB")}
	}
	at, err := s.hasComms(ctx, caller, session)
	if err != nil {
		return nil, err
	}
	c, err := at.start(ctx, CellRequest{Silent: true, Parent: parent}, &m)
	if err != nil {
		return nil, err
	}
	return c.log.events.Watch(ctx, 0), nil
}
