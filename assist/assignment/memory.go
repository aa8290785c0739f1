package assignment

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"
)

// Memory is a [Store] in the memory of one process, without its promise: a post that waits is lost
// when the process ends. The zero value is empty.
type Memory struct {
	mu    sync.Mutex
	lanes map[LaneID][]byte // JSON, so that callers share no memory
}

// Change implements Store.
func (m *Memory) Change(ctx context.Context, id LaneID, do func(*Lane) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	lane, err := m.lane(id)
	if err != nil {
		return err
	}
	if err := do(&lane); err != nil {
		return err
	}
	text, err := json.Marshal(lane)
	if err != nil {
		return err
	}
	if m.lanes == nil {
		m.lanes = map[LaneID][]byte{}
	}
	m.lanes[id] = text
	return nil
}

func (m *Memory) lane(id LaneID) (Lane, error) {
	lane := Lane{LaneID: id}
	if text := m.lanes[id]; text != nil {
		if err := json.Unmarshal(text, &lane); err != nil {
			return lane, err
		}
	}
	return lane, nil
}

// Load implements Store.
func (m *Memory) Load(ctx context.Context, q Query) ([]Lane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lanes []Lane
	for id := range m.lanes {
		lane, err := m.lane(id)
		if err != nil {
			return nil, err
		}
		if q.covers(id) && (!q.Waiting || lane.Waiting()) {
			lanes = append(lanes, lane)
		}
	}
	slices.SortFunc(lanes, func(a, b Lane) int {
		return cmp.Or(cmp.Compare(a.API, b.API), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Assignment, b.Assignment))
	})
	return lanes, ctx.Err()
}

// covers reports whether q asks for a lane with the id.
func (q Query) covers(id LaneID) bool {
	return (q.API == "" || q.API == id.API) && (q.Project == "" || q.Project == id.Project)
}
