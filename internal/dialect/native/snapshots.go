package native

import (
	"cmp"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/rest"
)

type snapshotBody struct {
	ID        engine.ID            `json:"id"`
	Name      string               `json:"name,omitempty"`
	Session   engine.ID            `json:"session"`
	Kind      engine.SessionKind   `json:"kind"`
	Language  string               `json:"language,omitempty"` // of a live one
	Wall      engine.Wall          `json:"wall,omitempty"`
	Memory    bool                 `json:"memory"`
	Files     int                  `json:"files"`
	Bytes     int64                `json:"bytes"`
	CreatedAt string               `json:"created_at"`
	ExpiresAt string               `json:"expires_at"`
	Dropped   []client.DroppedFile `json:"dropped,omitempty"` // only in the answer that made it
}

func snapshotOf(s engine.Snapshot) snapshotBody {
	return snapshotBody{ID: s.ID, Name: s.Name, Session: s.Session, Kind: s.Kind, Wall: s.Wall,
		Language: live.Language(engine.Session{Live: s.Live}), Memory: s.Memory, Files: s.Files, Bytes: s.Bytes,
		CreatedAt: rest.TimeOf(s.CreatedAt), ExpiresAt: rest.TimeOf(s.ExpiresAt), Dropped: droppedOf(s.Dropped)}
}

// readMemory reads whether memory is wanted; otherwise says it where the body does not.
func readMemory(body *rest.Object, otherwise live.Memory) live.Memory {
	wanted, ok := rest.Take[bool](body, "memory", "true or false")
	switch {
	case !ok:
		return otherwise
	case wanted:
		return live.WithMemory
	}
	return live.WithoutMemory
}

func (q *request) pauseSession(on live.Sessions) (any, error) {
	body := q.Object()
	memory := readMemory(body, live.WithMemory)
	if err := body.Done(); err != nil {
		return nil, err
	}
	return nil, on.Pause(q.Context(), q.Caller, q.id, memory)
}

func (q *request) createSnapshot(on live.Sessions) (any, error) {
	body := q.Object()
	name, memory := body.Text("name"), readMemory(body, live.MemoryIfKept)
	if err := body.Done(); err != nil {
		return nil, err
	}
	made, err := on.AddSnapshot(q.Context(), q.Caller, q.id, name, memory)
	if err != nil {
		return nil, err
	}
	return rest.Created("/snapshots/"+made.ID.String(), snapshotOf(made)), nil
}

func (q *request) listSnapshots() (any, error) {
	query := engine.SnapshotQuery{Name: q.URL.Query().Get("name")}
	if text := q.URL.Query().Get("session"); text != "" {
		id, err := engine.ParseID(text)
		if err != nil {
			return nil, rest.Invalid("session is not an id")
		}
		query.Session = id
	}
	id := func(s snapshotBody) engine.ID { return s.ID }
	return listPage(q, "snapshots", snapshotOf, id, func(page engine.Page) ([]engine.Snapshot, error) {
		query.Page = page
		return q.api.engine.ListSnapshots(q.Context(), q.Caller, query)
	})
}

func (q *request) getSnapshot() (any, error) {
	found, err := q.api.engine.GetSnapshot(q.Context(), q.Caller, q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	return snapshotOf(found), nil
}

// copiesBody is what a fork is answered with.
type copiesBody struct {
	Sessions []sessionBody        `json:"sessions"`
	Memory   bool                 `json:"memory"`
	Dropped  []client.DroppedFile `json:"dropped,omitempty"`
}

func (q *request) forkSession(on live.Sessions) (any, error) {
	body := q.Object()
	count, ttl := body.Count("count", engine.MaxCopies), body.Seconds("ttl_seconds")
	memory := readMemory(body, live.MemoryIfKept)
	secrets, wall := readSecrets(body), engine.Wall(body.Text("wall"))
	if err := body.Done(); err != nil {
		return nil, err
	}
	made, dropped, err := on.Copy(q.Context(), q.Caller, engine.CopySource{Session: q.id},
		live.CopyRequest{Count: int(cmp.Or(count, 1)), Origin: engine.OriginNative, TTL: ttl, Secrets: secrets,
			Wall: wall, Memory: memory})
	if err != nil {
		return nil, err
	}
	return rest.Created("/sessions/"+made[0].ID.String(),
		copiesBody{Memory: memory != live.WithoutMemory && made[0].Wall.KeepsMemory(),
			Sessions: rest.Each(made, sessionOf), Dropped: droppedOf(dropped)}), nil
}

// restoreSession makes a session of a snapshot.
func (q *request) restoreSession(called string, req live.CopyRequest) (any, error) {
	if q.api.Live == nil {
		return nil, errNoLive
	}
	snapshot, err := q.api.engine.GetSnapshot(q.Context(), q.Caller, called)
	if err != nil {
		return nil, err
	}
	made, _, err := q.api.Live.Copy(q.Context(), q.Caller, engine.CopySource{Snapshot: snapshot.ID}, req)
	if err != nil {
		return nil, err
	}
	return rest.Created("/sessions/"+made[0].ID.String(), sessionOf(made[0])), nil
}
