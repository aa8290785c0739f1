package openai

import (
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"path"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// workspace is the folder of a container's files.
const workspace = "/mnt/data"

const (
	usualMinutes = 20
	mostMinutes  = 24 * 60
)

// scope is stored in the session of a container.
type scope struct {
	Name    string   `json:"name"`
	Memory  string   `json:"memory,omitempty"`
	Domains []string `json:"domains,omitempty"` // that its programs may contact
}

// wanted describes a container that a client asks for.
type wanted struct {
	Name    string   `json:"name"`
	FileIDs []string `json:"file_ids"`
	Memory  *string  `json:"memory_limit"`
	Expires *struct {
		Anchor  string `json:"anchor"`
		Minutes int    `json:"minutes"`
	} `json:"expires_after"`
	Network *networkPolicy    `json:"network_policy"`
	Skills  []json.RawMessage `json:"skills"`
}

// sizes are the memory sizes of containers by OpenAI's names.
var sizes = map[string]int64{"1g": 1 << 30, "4g": 4 << 30, "16g": 16 << 30, "64g": 64 << 30}

// session returns the request for a container. It looks the files up, so that errors come
// before an answer begins.
func (q *request) session(ask *wanted) (live.Request, error) {
	defaults, maxima := q.Engine.Limits()
	req := live.Request{
		Origin: engine.OriginOpenAI, TTL: usualMinutes * time.Minute, Idle: usualMinutes * time.Minute,
		Setup: live.Setup{Dir: workspace},
	}
	kept := scope{Name: ask.Name}
	for name, size := range sizes {
		switch {
		case ask.Memory == nil && size == defaults.Memory, ask.Memory != nil && *ask.Memory == name:
			kept.Memory, req.Limits.Memory = name, size
		}
	}
	switch {
	case ask.Memory != nil && kept.Memory == "":
		return req, invalid("memory_limit", "invalid_value",
			"Invalid value for 'memory_limit': there are 1g, 4g, 16g and 64g.")
	case ask.Memory != nil && req.Limits.Memory > maxima.Memory:
		return req, unsupported("memory_limit",
			"A container may have at most %d MiB here: the operator can set max_memory.", maxima.Memory>>20)
	case len(ask.Skills) > 0:
		return req, unsupported("skills", "Airlock has no skills.")
	}
	if ask.Network != nil {
		if err := ask.Network.apply(&req); err != nil {
			return req, err
		}
		kept.Domains = ask.Network.Domains
	}
	if e := ask.Expires; e != nil {
		if e.Anchor != "last_active_at" || e.Minutes < 1 || e.Minutes > mostMinutes {
			return req, invalid("expires_after", "invalid_value",
				"Invalid value for 'expires_after': the anchor is last_active_at, and minutes are 1 to %d.", mostMinutes)
		}
		req.TTL = time.Duration(e.Minutes) * time.Minute
		req.Idle = req.TTL
	}
	for _, id := range ask.FileIDs {
		f, err := q.known(id)
		if err != nil {
			return req, err
		}
		req.Files = append(req.Files, engine.FileRef{ID: f.ID, Path: stagedName(f)})
	}
	text, err := json.Marshal(kept)
	req.Scope = string(text)
	return req, err
}

// known returns an upload of the caller.
func (q *request) known(id string) (f engine.File, err error) {
	parsed, err := parseID(filePrefix, id)
	if err == nil {
		f, err = q.Engine.GetFile(q.Context(), q.caller, parsed)
	}
	return f, missing(err, noFile(id))
}

// stagedName is the name of an upload in a container. Its form tells uploads from files
// that code has made.
func stagedName(f engine.File) string { return filePrefix + f.ID.String() + "-" + cleanName(f.Name) }

var staged = regexp.MustCompile(`^file-[A-Za-z0-9_-]{21}-.`)

// shownName is a staged name without its prefix.
func shownName(at string) string {
	name := path.Base(at)
	if staged.MatchString(name) {
		return name[len(filePrefix)+22:]
	}
	return name
}

func containerBody(s engine.Session, status string) map[string]any {
	var kept scope
	_ = json.Unmarshal([]byte(s.Scope), &kept)
	policy := map[string]any{"type": "disabled"}
	if len(kept.Domains) > 0 {
		policy = map[string]any{"type": "allowlist", "allowed_domains": kept.Domains}
	}
	return map[string]any{
		"id": containerPrefix + s.ID.String(), "object": "container", "name": kept.Name, "status": status,
		"created_at": s.CreatedAt.Unix(), "last_active_at": s.ExpiresAt.Add(-s.TTL).Unix(),
		"memory_limit":   orNull(kept.Memory),
		"expires_after":  map[string]any{"anchor": "last_active_at", "minutes": int(s.TTL / time.Minute)},
		"network_policy": policy,
	}
}

func (q *request) createContainer() (any, error) {
	var ask wanted
	if err := q.readJSON(&ask); err != nil {
		return nil, err
	}
	if ask.Name == "" {
		return nil, required("name")
	}
	if len(ask.Name) > 256 {
		return nil, invalid("name", "invalid_value", "Invalid value for 'name': at most 256 bytes.")
	}
	req, err := q.session(&ask)
	if err != nil {
		return nil, err
	}
	made, err := q.Live.Create(q.Context(), q.caller, req)
	if err == nil {
		q.see(seen{Session: made})
	}
	return containerBody(made, "running"), err
}

// container returns a container of the caller with its files. It counts as a use.
func (q *request) container(id string) (engine.Session, []insideFile, error) {
	gone := notFound("Container with id '%.80s' not found.", id)
	parsed, err := parseID(containerPrefix, id)
	if err != nil {
		return engine.Session{}, nil, gone
	}
	before, known := q.seen.Get(id)
	known = known && before.Owner == q.caller.Owner
	now := seen{looked: time.Now()}
	if info, err := q.Live.Info(q.Context(), q.caller, parsed); err == nil && info.State != live.StateNone {
		// It exists. Some requests look it up nevertheless, which counts as a use of its files.
		if now.stored = info.Stored; known && before.stored == now.stored && now.looked.Sub(before.looked) < before.TTL/16 {
			return q.see(before), before.files, nil
		}
	}
	s, files, places, err := q.Engine.UseSession(q.Context(), q.caller, parsed)
	if known && errors.Is(err, engine.ErrNotFound) && before.ExpiresAt.Before(time.Now()) {
		return before.Session, nil, errExpired
	}
	if err != nil {
		return s, nil, missing(err, gone)
	}
	if s.Kind != engine.SessionLive || live.Language(s) != "python" {
		return s, nil, gone
	}
	inside := make([]insideFile, len(files))
	for i := range files {
		inside[i] = insideFile{files[i], places[i].Path}
	}
	now.Session, now.files = s, inside
	return q.see(now), inside, nil
}

// errExpired is the error of a container that was the caller's.
var errExpired = &refusal{http.StatusBadRequest, problem{Message: "Container is expired.", Type: invalidRequest}}

// seen is the last known state of a container.
type seen struct {
	engine.Session
	files  []insideFile
	stored uint64 // live.Info.Stored when files was read; 0: unknown
	looked time.Time
}

// see records a container that is used now.
func (a *api) see(s seen) engine.Session {
	s.ExpiresAt = time.Now().Add(s.TTL)
	a.seen.Put(s.Owner, containerPrefix+s.ID.String(), s)
	return s.Session
}

// insideFile is a file in a container.
type insideFile struct {
	engine.File
	at string
}

func insideBody(container engine.ID, f insideFile) map[string]any {
	source := "assistant"
	if staged.MatchString(path.Base(f.at)) {
		source = "user"
	}
	return map[string]any{
		"id": insidePrefix + f.ID.String(), "object": "container.file", "container_id": containerPrefix +
			container.String(),
		"created_at": f.CreatedAt.Unix(), "bytes": f.Size, "path": workspace + "/" + f.at, "source": source,
	}
}

func (q *request) getContainer() (any, error) {
	s, _, err := q.container(q.PathValue("id"))
	if errors.Is(err, errExpired) {
		return containerBody(s, "expired"), nil
	}
	return containerBody(s, "running"), err
}

// deleteContainer answers as OpenAI's reference says. Its SDKs do not read it, LiteLLM does.
func (q *request) deleteContainer() (any, error) {
	s, _, err := q.container(q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	if err := q.Live.Delete(q.Context(), q.caller, s.ID); err != nil {
		return nil, missing(err, notFound("Container with id '%.80s' not found.", q.PathValue("id")))
	}
	q.seen.Delete(q.PathValue("id")) // lest it count as expired
	return deletedBody(q.PathValue("id"), "container.deleted"), nil
}

func (q *request) listContainers() (any, error) {
	sessions, err := every(func(p engine.Page) ([]engine.Session, error) {
		return q.Engine.ListSessions(q.Context(), q.caller, engine.SessionQuery{Origin: engine.OriginOpenAI, Page: p})
	}, func(s *engine.Session) engine.ID { return s.ID })
	if err != nil {
		return nil, err
	}
	var all []map[string]any
	for _, s := range sessions {
		body := containerBody(s, "running")
		if name := q.URL.Query().Get("name"); name == "" || body["name"] == name {
			all = append(all, body)
		}
	}
	return q.list(all, 100, 20)
}

// addContainerFile puts the file of a form, or an upload, into a container.
func (q *request) addContainerFile() (any, error) {
	s, _, err := q.container(q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	var at, id string
	if kind, _, _ := mime.ParseMediaType(q.Header.Get("Content-Type")); kind == "application/json" {
		var body struct {
			FileID string `json:"file_id"`
		}
		err = q.readJSON(&body)
		id = body.FileID
	} else {
		var fields form
		fields, err = q.readForm("file", func(name string, content io.Reader) error {
			at = filePrefix + engine.NewID().String() + "-" + cleanName(name)
			_, err := q.Live.WriteFile(q.Context(), q.caller, s.ID, at, content)
			return err
		})
		id = fields["file_id"]
	}
	switch {
	case err != nil:
		return nil, err
	case at == "" && id == "":
		return nil, invalid("file", "missing_required_parameter", "Missing required parameter: 'file' or 'file_id'.")
	case at == "":
		if at, err = q.stage(s.ID, id); err != nil {
			return nil, err
		}
	}
	f, err := q.stored(s.ID, at)
	return insideBody(s.ID, f), err
}

// stage puts an upload into a container and returns its path there.
func (q *request) stage(container engine.ID, id string) (at string, err error) {
	f, err := q.known(id)
	if err != nil {
		return "", err
	}
	_, content, err := q.Engine.OpenFile(q.Context(), q.caller, f.ID)
	if err != nil {
		return "", missing(err, noFile(id))
	}
	defer content.Close()
	_, err = q.Live.WriteFile(q.Context(), q.caller, container, stagedName(f), content)
	return stagedName(f), err
}

// stored returns a file that was put into a container.
func (q *request) stored(container engine.ID, at string) (insideFile, error) {
	_, files, err := q.container(containerPrefix + container.String())
	if err != nil {
		return insideFile{}, err
	}
	i := slices.IndexFunc(files, func(f insideFile) bool { return f.at == at })
	if i < 0 {
		return insideFile{}, &engine.Error{Op: "store file", Kind: engine.ErrFull, ID: at,
			Err: errors.New("the file could not be kept: the container is full, or has changed it")}
	}
	return files[i], nil
}

func (q *request) listContainerFiles() (any, error) {
	s, files, err := q.container(q.PathValue("id"))
	if err != nil {
		return nil, err
	}
	files = slices.Clone(files)
	slices.SortStableFunc(files, func(a, b insideFile) int { return b.CreatedAt.Compare(a.CreatedAt) })
	var all []map[string]any
	for _, f := range files {
		all = append(all, insideBody(s.ID, f))
	}
	return q.list(all, 100, 20)
}

// inside returns the file in a container that the request names.
func (q *request) inside() (container engine.ID, f insideFile, err error) {
	s, _, err := q.container(q.PathValue("id"))
	if err != nil {
		return container, f, err
	}
	id, err := parseID(insidePrefix, q.PathValue("file"))
	if err != nil {
		return container, f, notFound("File not found.")
	}
	_, file, place, err := q.Engine.SessionFile(q.Context(), q.caller, s.ID, id)
	return s.ID, insideFile{file, place.Path}, missing(err, notFound("File not found."))
}

func (q *request) getContainerFile() (any, error) {
	container, f, err := q.inside()
	return insideBody(container, f), err
}

func (q *request) containerFileContent() error {
	_, f, err := q.inside()
	if err != nil {
		return err
	}
	return q.send(f.ID, notFound("File not found."))
}

func (q *request) deleteContainerFile() (any, error) {
	container, f, err := q.inside()
	if err != nil {
		return nil, err
	}
	if err := q.Live.RemoveFile(q.Context(), q.caller, container, f.at, false); err != nil {
		return nil, missing(err, notFound("File not found."))
	}
	return deletedBody(q.PathValue("file"), "container.file"), nil
}

// listing lists the files of a container for the model.
func listing(files []insideFile) string {
	const most = 50
	var b strings.Builder
	for i, f := range files {
		if i == most {
			b.WriteString("\n- and more: list the folder")
			break
		}
		b.WriteString("\n- " + workspace + "/" + f.at)
		if name := shownName(f.at); name != path.Base(f.at) {
			b.WriteString(" (" + name + ")")
		}
	}
	return b.String()
}
