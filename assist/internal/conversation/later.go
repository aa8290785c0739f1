package conversation

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"
)

// SaveOutputs saves the picked outputs of a turn that has ended. The others stay
// undecided.
func (h *Host) SaveOutputs(ctx context.Context, owner, id string, turn int, a Answer) (*Turn, error) {
	if a.Folder == "" || a.Picks == nil {
		return nil, fmt.Errorf("%w: a folder and the outputs to save into it are missing", ErrInvalid)
	}
	return h.decide(ctx, owner, id, turn, func(c *Conversation, t *Turn) error {
		var open []int
		for i := range t.Outputs {
			if _, meant := a.pick(t.Outputs[i].ID); !meant && t.Outputs[i].State == OutputFetched {
				open = append(open, i)
			}
		}
		s := saving{host: h, conversation: c, turn: t}
		err := s.write(ctx, a.Folder, a)
		for _, i := range open {
			t.Outputs[i].State = OutputFetched
		}
		return err
	})
}

// Preview returns what saving an output of a turn that has ended would meet in a folder,
// even if it was decided about before.
func (h *Host) Preview(ctx context.Context, owner, id string, turn int, output, folder string) (OutputAsked, error) {
	c, err := h.Conversation(ctx, owner, id)
	if err != nil {
		return OutputAsked{}, err
	}
	for _, t := range c.Turns {
		at := slices.IndexFunc(t.Outputs, func(o Output) bool { return o.ID == output && o.savable() })
		if t.Number != turn || at < 0 {
			continue
		}
		s := saving{host: h, conversation: c, turn: t}
		list := []OutputAsked{{Output: t.Outputs[at], Path: t.Outputs[at].Name}}
		err := s.meet(ctx, folder, list, Answer{OK: true, Picks: []Pick{{ID: output}}})
		return list[0], err
	}
	return OutputAsked{}, fmt.Errorf("output %s of turn %d: %w", output, turn, ErrNotFound)
}

// Discard declines outputs of a turn that has ended. They stay in quarantine until they
// expire, and can still be saved.
func (h *Host) Discard(ctx context.Context, owner, id string, turn int, outputs ...string) (*Turn, error) {
	return h.decide(ctx, owner, id, turn, func(_ *Conversation, t *Turn) error {
		for i := range t.Outputs {
			if o := &t.Outputs[i]; slices.Contains(outputs, o.ID) && o.savable() {
				o.State, o.Problem = OutputDeclined, nil
			}
		}
		return nil
	})
}

// decide changes a turn that has ended, and saves it.
func (h *Host) decide(
	ctx context.Context, owner, id string, turn int, change func(*Conversation, *Turn) error,
) (*Turn, error) {
	c, err := h.Conversation(ctx, owner, id)
	if err != nil {
		return nil, err
	}
	at := slices.IndexFunc(c.Turns, func(t *Turn) bool { return t.Number == turn })
	if at < 0 {
		return nil, fmt.Errorf("turn %d: %w", turn, ErrNotFound)
	}
	t := c.Turns[at]
	if t.State == TurnRunning {
		return nil, ErrTurn
	}
	err = change(c, t)
	return t, errors.Join(err, h.PutConversation(context.WithoutCancel(ctx), c, t))
}

// Until returns when the session of a conversation in progress expires, unless it is used
// before; zero: there is none, or its time is not known.
func (l *Live) Until(owner, id string) (time.Time, error) {
	c, err := l.find(owner, id)
	if err != nil {
		return time.Time{}, err
	}
	return c.chat.tracker.Until(), nil
}
