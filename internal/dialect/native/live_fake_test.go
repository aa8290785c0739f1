package native

import (
	"context"
	"encoding/json"
	"iter"
	"slices"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// The tree, the comms and the network of fakeLive.

func (f *fakeLive) Tree(
	_ context.Context, caller engine.Caller, session engine.ID,
) ([]live.TreeProcess, bool, error) {
	return []live.TreeProcess{{ID: "2-50", PID: 2, Command: "python3", State: "S", Interpreter: true, Memory: 5,
		StartedAt: someTime}, {ID: "3-51", PID: 3, Parent: 2, Command: nasty, State: "R", Process: f.process,
		CPU: time.Second, StartedAt: someTime}}, true, f.find(caller, session)
}

func (f *fakeLive) EndTreeProcess(_ context.Context, caller engine.Caller, session engine.ID, id string) error {
	return f.note(caller, session, "end "+id)
}

func (f *fakeLive) Comms(
	_ context.Context, caller engine.Caller, session engine.ID, target string,
) (map[string]live.Comm, error) {
	return map[string]live.Comm{"c": {Target: target}}, f.find(caller, session)
}

func (f *fakeLive) SendComm(
	_ context.Context, caller engine.Caller, session engine.ID, parent string, m live.CommMessage,
) (iter.Seq[live.Event], error) {
	cell := f.snapshot()
	said := live.CommMessage{Kind: "comm_msg", Content: json.RawMessage(`{"comm_id":"c"}`), Buffers: [][]byte{{0, 255}}}
	return slices.Values([]live.Event{{Seq: 1, Output: live.Output{Type: live.CommEvent}, Comm: &said},
		{Seq: 2, Output: live.Output{Type: live.DoneEvent}, Cell: &cell}}), f.note(caller, session, sentComm{parent, m})
}

type sentComm struct {
	Parent  string
	Message live.CommMessage
}

func (f *fakeLive) Network(_ context.Context, caller engine.Caller, session engine.ID) (live.NetworkState, error) {
	return live.NetworkState{Allow: []string{"a.example.com"}, May: []string{"packages"}, MayOfKey: true},
		f.find(caller, session)
}

func (f *fakeLive) SetNetwork(
	_ context.Context, caller engine.Caller, session engine.ID, network *engine.Network,
) error {
	return f.note(caller, session, *network)
}

func (f *fakeLive) Install(
	ctx context.Context, caller engine.Caller, session engine.ID, names []string,
) (iter.Seq[live.Event], error) {
	events, _ := f.Watch(ctx, caller, session, f.cell, 0)
	return events, f.note(caller, session, names)
}
