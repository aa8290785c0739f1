package assignmenttest

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"
	"sync"

	"github.com/airlock-run/airlock/assignment"
)

// Memory is an assignment.Store in memory.
type Memory struct {
	mu    sync.Mutex
	lanes map[assignment.LaneID][]byte
	// Fail is asked before each change, if it is set; its error is the
	// change's. Set it before the store is used.
	Fail func(assignment.LaneID) error
}

// Change implements assignment.Store.
func (m *Memory) Change(ctx context.Context, id assignment.LaneID, do func(*assignment.Lane) error) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	if err := ctx.Err(); err != nil {
		return err
	}
	if m.Fail != nil {
		if err := m.Fail(id); err != nil {
			return err
		}
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
		m.lanes = map[assignment.LaneID][]byte{}
	}
	m.lanes[id] = text
	return nil
}

// lane decodes a lane. Lanes are kept as JSON, so that callers share no memory.
func (m *Memory) lane(id assignment.LaneID) (assignment.Lane, error) {
	lane := assignment.Lane{LaneID: id}
	if text := m.lanes[id]; text != nil {
		if err := json.Unmarshal(text, &lane); err != nil {
			return lane, err
		}
	}
	return lane, nil
}

// Load implements assignment.Store.
func (m *Memory) Load(ctx context.Context, q assignment.Query) ([]assignment.Lane, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	var lanes []assignment.Lane
	for id := range m.lanes {
		lane, err := m.lane(id)
		if err != nil {
			return nil, err
		}
		waits := slices.ContainsFunc(lane.Posts, func(p assignment.Post) bool {
			return p.State == assignment.Pending || p.State == assignment.Sending
		})
		if (q.API == "" || q.API == id.API) && (q.Project == "" || q.Project == id.Project) && (!q.Waiting || waits) {
			lanes = append(lanes, lane)
		}
	}
	slices.SortFunc(lanes, func(a, b assignment.Lane) int {
		return cmp.Or(cmp.Compare(a.API, b.API), cmp.Compare(a.Project, b.Project), cmp.Compare(a.Assignment, b.Assignment))
	})
	return lanes, ctx.Err()
}
