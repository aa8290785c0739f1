package native

import (
	"context"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

func (f *fakeLive) Pause(_ context.Context, caller engine.Caller, session engine.ID, memory live.Memory) error {
	if memory == live.WithMemory {
		return engine.RefuseMemory("pause")
	}
	return f.note(caller, session, "pause")
}

func (f *fakeLive) AddSnapshot(
	_ context.Context, caller engine.Caller, session engine.ID, name string, memory live.Memory,
) (engine.Snapshot, error) {
	if memory == live.WithMemory {
		return engine.Snapshot{}, engine.RefuseMemory("snapshot")
	}
	return engine.Snapshot{ID: engine.NewID(), Name: name, Session: session, Kind: engine.SessionLive,
		Live: `{"language":"python"}`, Files: 2, Bytes: 3, CreatedAt: someTime, ExpiresAt: someTime,
		Dropped: []engine.DroppedFile{{Path: "c", Reason: "too large"}}}, f.note(caller, session, name)
}

func (f *fakeLive) Copy(
	_ context.Context, caller engine.Caller, from engine.CopySource, req live.CopyRequest,
) ([]engine.Session, []engine.DroppedFile, error) {
	if req.Memory == live.WithMemory {
		return nil, nil, engine.RefuseMemory("fork")
	}
	if err := f.note(caller, from.Session, req); err != nil {
		return nil, nil, err
	}
	made := make([]engine.Session, req.Count)
	for i := range made {
		made[i] = engine.Session{ID: engine.NewID(), Kind: engine.SessionLive, Live: `{"language":"python"}`,
			CreatedAt: someTime, ExpiresAt: someTime}
	}
	return made, []engine.DroppedFile{{Path: "c", Reason: "too large"}}, nil
}
