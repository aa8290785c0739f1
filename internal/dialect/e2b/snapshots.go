package e2b

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// Pausing, snapshots and forks. Where a sandbox has a kernel of its own they keep its memory too, as E2B does. With the
// shared kernel they keep files alone: variables and processes end, or stay with the source.

// memoryBody is what they have in common.
type memoryBody struct {
	Memory *bool `json:"memory"`
}

// wanted returns what is asked for; otherwise says it where the body does not.
func (b memoryBody) wanted(otherwise live.Memory) live.Memory {
	switch {
	case b.Memory == nil:
		return otherwise
	case *b.Memory:
		return live.WithMemory
	}
	return live.WithoutMemory
}

const noMemory = "the gVisor wall alone keeps memory, and this server does not have it: "

// retryPause is when a sandbox is asked again to pause whose files could not be stored.
const retryPause = time.Minute

func (h *Handler) pauseSandbox(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body memoryBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	paused, err := h.pause(r.Context(), sb, body.wanted(live.WithMemory))
	switch {
	case errors.Is(err, engine.ErrNoMemory):
		writeError(w, http.StatusNotImplemented, noMemory+`pause with mode "filesystem" (keep_memory=False) keeps the files`)
	case err != nil:
		return err
	case !paused: // SDKs answer False
		writeError(w, http.StatusConflict, "the sandbox is paused already")
	default:
		w.WriteHeader(http.StatusNoContent)
	}
	return nil
}

// pause leaves a sandbox to what is stored of it, unless it is paused already. If that cannot be stored, it goes on.
func (h *Handler) pause(ctx context.Context, sb *sandbox, memory live.Memory) (paused bool, err error) {
	sb.mu.Lock()
	if sb.paused || sb.timer == nil {
		sb.mu.Unlock()
		return false, nil
	}
	sb.paused = true // from here on requests find no sandbox
	ends := sb.ends
	sb.mu.Unlock()
	sb.quit()
	ctx = context.WithoutCancel(ctx)
	if err := h.Live.Pause(ctx, sb.caller, sb.session, memory); err != nil {
		sb.resume(time.Until(ends))
		return false, err
	}
	sb.mu.Lock()
	sb.ends = time.Now().Add(h.kept())
	if sb.timer != nil {
		sb.timer.Reset(h.kept())
	}
	sb.mu.Unlock()
	h.save(ctx, sb)
	return true, nil
}

// kept is how long a paused sandbox is kept.
func (h *Handler) kept() time.Duration { return max(h.Kept, maxLife) }

// resume ends the pause of a sandbox, and reports whether it was paused.
func (sb *sandbox) resume(left time.Duration) bool {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	if !sb.paused || sb.timer == nil {
		return false
	}
	sb.gone, sb.leave = context.WithCancel(context.Background())
	sb.paused, sb.ends = false, time.Now().Add(left)
	sb.timer.Reset(left)
	return true
}

type snapshotBody struct {
	ID    string   `json:"snapshotID"`
	Names []string `json:"names"`
}

func snapshotOf(s engine.Snapshot) snapshotBody {
	shown := snapshotBody{s.ID.String(), []string{}}
	if s.Name != "" {
		shown.Names = append(shown.Names, s.Name)
	}
	return shown
}

func (h *Handler) addSnapshot(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body struct {
		memoryBody
		Name string `json:"name"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	made, err := h.Live.AddSnapshot(r.Context(), sb.caller, sb.session, body.Name, body.wanted(live.MemoryIfKept))
	if errors.Is(err, engine.ErrNoMemory) {
		return invalid(noMemory + `a snapshot with mode "filesystem" has the files`)
	}
	if err == nil {
		writeJSON(w, http.StatusCreated, snapshotOf(made))
	}
	return err
}

func (h *Handler) listSnapshots(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
	query := engine.SnapshotQuery{Name: q.Get("name"), Page: engine.Page{Limit: 100}}
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return invalid("limit must be a positive number")
		}
		query.Page.Limit = min(n, query.Page.Limit)
	}
	if text := q.Get("nextToken"); text != "" {
		last, err := base64.RawURLEncoding.DecodeString(text)
		if err == nil {
			query.Page.After, err = engine.ParseID(string(last))
		}
		if err != nil {
			return invalid("nextToken is none of ours")
		}
	}
	list := []snapshotBody{}
	if id := q.Get("sandboxID"); id != "" {
		sb := h.find(r.Context(), id)
		if sb == nil || sb.caller.Owner != h.Caller(r).Owner {
			writeJSON(w, http.StatusOK, list)
			return nil
		}
		query.Session = sb.session
	}
	found, err := h.Store.ListSnapshots(r.Context(), h.Caller(r), query)
	if err != nil {
		return err
	}
	for _, each := range found {
		list = append(list, snapshotOf(each))
	}
	if n := len(list); n > 0 && n == query.Page.Limit {
		w.Header().Set("X-Next-Token", base64.RawURLEncoding.EncodeToString([]byte(list[n-1].ID)))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// deleteTemplate deletes a snapshot, which SDKs take for a template.
func (h *Handler) deleteTemplate(w http.ResponseWriter, r *http.Request) error {
	found, err := h.Store.GetSnapshot(r.Context(), h.Caller(r), r.PathValue("id"))
	if err == nil {
		err = h.Store.DeleteSnapshot(r.Context(), h.Caller(r), found.ID)
	}
	if err == nil {
		w.WriteHeader(http.StatusNoContent)
	}
	return err
}

// snapshotFor returns the snapshot that a template names; nil if it names none.
func (h *Handler) snapshotFor(ctx context.Context, caller engine.Caller, template string) (*engine.Snapshot, error) {
	if h.Store == nil {
		return nil, nil
	}
	found, err := h.Store.GetSnapshot(ctx, caller, template)
	if errors.Is(err, engine.ErrNotFound) {
		return nil, nil
	}
	return &found, err
}

// forkBody asks for forks.
type forkBody struct {
	memoryBody
	Timeout *int `json:"timeout"`
	Count   *int `json:"count"`
}

// forkResult is one fork: all are made, or the whole request is refused.
type forkResult struct {
	Sandbox madeBody `json:"sandbox"`
}

// forkSandbox makes sandboxes with copies of the files of one, and all that it was created with.
func (h *Handler) forkSandbox(w http.ResponseWriter, r *http.Request, of *sandbox) error {
	var body forkBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	left, err := life(body.Timeout, 1, usualLife)
	if err != nil {
		return err
	}
	count := 1
	if body.Count != nil {
		count = *body.Count
	}
	if count < 1 || count > engine.MaxCopies {
		return invalid("count must be 1 to " + strconv.Itoa(engine.MaxCopies))
	}
	var forks []*sandbox
	for range count {
		sb := h.newSandbox(of.caller, of.template, left)
		sb.labels, sb.env, sb.public, sb.mask, sb.domain, sb.autoPause, sb.limits = of.labels, of.env, of.public, of.mask,
			cmp.Or(h.domainFor(r), of.domain), of.autoPause, of.limits
		sb.https, sb.rules = of.https, of.rules
		of.mu.Lock()
		sb.contexts = []*codeContext{{ID: newSandboxID(0), Language: of.contexts[0].Language, Dir: home, standard: true}}
		of.mu.Unlock()
		forks = append(forks, sb)
	}
	made, _, err := h.Live.Copy(r.Context(), of.caller, engine.CopySource{Session: of.session},
		live.CopyRequest{Count: count, Secrets: of.rules, Origin: engine.OriginE2B, TTL: h.kept(), Limits: of.limits})
	if err != nil {
		return err
	}
	results := []forkResult{}
	for i, sb := range forks {
		if err := h.register(r.Context(), sb, made[i], left); err != nil {
			for _, other := range made[i+1:] {
				err = errors.Join(err, h.Live.Delete(context.WithoutCancel(r.Context()), of.caller, other.ID))
			}
			for _, other := range forks[:i] {
				err = errors.Join(err, h.kill(context.WithoutCancel(r.Context()), other))
			}
			return err
		}
		h.save(r.Context(), sb)
		results = append(results, forkResult{h.made(sb)})
	}
	writeJSON(w, http.StatusCreated, results)
	return nil
}

// sessionFor makes the session of a new sandbox: of a template, an image, or a snapshot.
func (h *Handler) sessionFor(
	ctx context.Context, sb *sandbox, network *engine.Network, volumes []engine.VolumeMount,
) (engine.Session, error) {
	snapshot, err := h.snapshotFor(ctx, sb.caller, sb.template)
	if err != nil {
		return engine.Session{}, err
	}
	if snapshot == nil {
		image, err := h.imageOf(sb.caller, sb.template)
		if err != nil {
			return engine.Session{}, err
		}
		scope, err := sb.record()
		if err != nil {
			return engine.Session{}, err
		}
		return h.Live.Create(ctx, sb.caller, live.Request{
			Network: network, Secrets: sb.rules, Image: image, Volumes: volumes,
			Origin: engine.OriginE2B, TTL: h.kept(), Limits: sb.limits, Scope: scope,
			Setup: live.Setup{Env: sb.env, Dir: home, Code: prelude},
		})
	}
	if len(volumes) > 0 {
		return engine.Session{}, invalid("volumeMounts: a sandbox of a snapshot has the volumes of its source, and no others")
	}
	given := sb.env
	sb.env = live.SetupOf(snapshot.Live).Env // of the source, under what the client gives
	if sb.env == nil {
		sb.env = map[string]string{}
	}
	maps.Copy(sb.env, given)
	scope, err := sb.record()
	if err != nil {
		return engine.Session{}, err
	}
	made, _, err := h.Live.Copy(ctx, sb.caller, engine.CopySource{Snapshot: snapshot.ID}, live.CopyRequest{
		Count: 1, Network: network, Secrets: sb.rules, Origin: engine.OriginE2B, TTL: h.kept(), Limits: sb.limits,
		Scope: scope, Setup: &live.Setup{Env: sb.env, Dir: home},
	})
	if err != nil {
		return engine.Session{}, err
	}
	if made[0].Kind != engine.SessionLive {
		err := h.Live.Delete(context.WithoutCancel(ctx), sb.caller, made[0].ID)
		return engine.Session{}, errors.Join(invalid("the snapshot "+strconv.Quote(sb.template)+
			" is of a session without an interpreter, which is no sandbox"), err)
	}
	return made[0], nil
}
