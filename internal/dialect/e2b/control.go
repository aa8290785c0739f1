package e2b

import (
	"cmp"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// The control plane. Its errors always have a body {"code", "message"}: SDKs parse that
// before they look at the status.

// envdVersion selects how SDKs use envd. This version has metadata of files, and entries in the events
// of watches.
const envdVersion = "0.6.13"

// templates are the names that start the usual sandbox. Others are names of images.
var templates = []string{"base", "code-interpreter-v1"}

func (h *Handler) controlRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request) error) {
		h.patterns = append(h.patterns, pattern)
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if h.Caller(r).Owner == "" {
				writeError(w, http.StatusUnauthorized, "a valid key is needed, as X-API-KEY")
				return
			}
			if err := do(w, r); err != nil {
				h.fail(w, err)
			}
		})
	}
	owned := func(pattern string, do func(http.ResponseWriter, *http.Request, *sandbox) error) {
		handle(pattern, func(w http.ResponseWriter, r *http.Request) error {
			sb, err := h.sandbox(r)
			if err != nil {
				return err
			}
			return do(w, r, sb)
		})
	}
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	for _, version := range []string{"", "/v2"} {
		handle("POST "+version+"/sandboxes", h.create)
		handle("GET "+version+"/sandboxes", h.list)
		owned("POST "+version+"/sandboxes/{id}/connect", h.connect)
	}
	owned("POST /sandboxes/{id}/resume", h.connect)
	owned("GET /sandboxes/{id}", func(w http.ResponseWriter, _ *http.Request, sb *sandbox) error {
		writeJSON(w, http.StatusOK, h.detail(sb))
		return nil
	})
	owned("DELETE /sandboxes/{id}", h.delete)
	owned("POST /sandboxes/{id}/timeout", h.setTimeout)
	owned("POST /sandboxes/{id}/refreshes", h.refresh)
	owned("POST /sandboxes/{id}/pause", h.pauseSandbox)
	owned("POST /sandboxes/{id}/snapshots", h.addSnapshot)
	owned("POST /sandboxes/{id}/fork", h.forkSandbox)
	owned("GET /sandboxes/{id}/metrics", h.metrics)
	handle("GET /snapshots", h.listSnapshots)
	handle("DELETE /templates/{id}", h.deleteTemplate)
	handle("POST /volumes", h.addVolume)
	handle("GET /volumes", h.listVolumes)
	handle("GET /volumes/{id}", h.getVolume)
	handle("DELETE /volumes/{id}", h.deleteVolume)
	handle("/", func(w http.ResponseWriter, r *http.Request) error {
		writeError(w, http.StatusNotImplemented,
			"Airlock does not have "+r.Method+" "+r.URL.Path+
				": no templates, no secrets, and no content of volumes outside of sandboxes")
		return nil
	})
	return mux
}

// sandbox returns the caller's sandbox that an address names.
func (h *Handler) sandbox(r *http.Request) (*sandbox, error) {
	id := r.PathValue("id")
	sb := h.find(r.Context(), id)
	if sb == nil || sb.caller.Owner != h.Caller(r).Owner {
		return nil, &engine.Error{Op: "find sandbox", Kind: engine.ErrNotFound,
			Err: errors.New("there is no sandbox " + strconv.Quote(id))}
	}
	return sb, nil
}

var errBody = errors.New("the body is not what is asked for")

// readBody reads JSON. An empty body is an empty object.
func readBody(w http.ResponseWriter, r *http.Request, into any) error {
	text, err := io.ReadAll(http.MaxBytesReader(w, r.Body, maxJSON))
	if err != nil {
		if wire.IsTooLarge(err) {
			return &engine.Error{Op: "read", Kind: engine.ErrTooLarge, Err: errors.New("the body is too large")}
		}
		return &engine.Error{Op: "read", Kind: engine.ErrCanceled, Err: err}
	}
	if len(text) == 0 {
		return nil
	}
	if err := json.Unmarshal(text, into); err != nil {
		return &engine.Error{Op: "check", Kind: engine.ErrInvalid, Err: fmt.Errorf("%w: %w", errBody, err)}
	}
	return nil
}

func invalid(message string) error {
	return &engine.Error{Op: "check", Kind: engine.ErrInvalid, Err: errors.New(message)}
}

type createBody struct {
	TemplateID string            `json:"templateID"`
	Timeout    *int              `json:"timeout"`
	Metadata   map[string]string `json:"metadata"`
	EnvVars    map[string]string `json:"envVars"`
	Network    networkBody       `json:"network"`
	AutoPause  bool              `json:"autoPause"`
	Internet   *bool             `json:"allow_internet_access"`
	MCP        json.RawMessage   `json:"mcp"`
	IAM        json.RawMessage   `json:"iam"`
	Volumes    []volumeMount     `json:"volumeMounts"`
}

// maxFields bounds the variables and metadata of a sandbox, which are in memory while it lives.
const maxFields = 64 << 10

// check refuses unsupported options. Pausing at the timeout is accepted with memory, which is not
// kept: some clients always ask for it.
func (b *createBody) check() error {
	for name, asked := range map[string]json.RawMessage{
		"network.egressProxy": b.Network.EgressProxy, "network.dnsServers": b.Network.DNSServers,
		"mcp": b.MCP, "iam": b.IAM,
	} {
		if !slices.Contains([]string{"", "null", "[]", "{}"}, string(asked)) {
			return invalid(name + " is not supported: a sandbox contacts what allowOut names")
		}
	}
	size := 0
	for _, fields := range []map[string]string{b.EnvVars, b.Metadata} {
		for name, value := range fields {
			size += len(name) + len(value)
		}
	}
	if size > maxFields {
		return invalid(fmt.Sprintf("envVars and metadata may have %d bytes together: put more into a file", maxFields))
	}
	if err := b.Network.check(); err != nil {
		return err
	}
	for name, value := range b.EnvVars {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return invalid("envVars: " + strconv.Quote(name) + " cannot be set")
		}
	}
	return nil
}

// imageOf returns the name of the image that a template is; "" for the usual sandbox.
func (h *Handler) imageOf(caller engine.Caller, template string) (string, error) {
	if slices.Contains(templates, template) {
		return "", nil
	}
	images, err := h.Images(caller)
	if err != nil {
		return "", err
	}
	there := slices.Clone(templates)
	for i := range images {
		if images[i].Name == template {
			return template, nil
		}
		there = append(there, images[i].Name)
	}
	if more := len(there) - maxListed; more > 0 {
		there = append(there[:maxListed], fmt.Sprintf("%d more", more))
	}
	return "", &engine.Error{Op: "create", Kind: engine.ErrNotFound,
		Err:  errors.New("there is no template " + strconv.Quote(template)),
		Hint: "There are " + strings.Join(there[:len(there)-1], ", ") + " and " + there[len(there)-1] + "."}
}

// maxListed is how many templates an error lists.
const maxListed = 20

func (h *Handler) create(w http.ResponseWriter, r *http.Request) error {
	var body createBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	if err := body.check(); err != nil {
		return err
	}
	otherwise := usualLife // of the older address
	if strings.HasPrefix(r.URL.Path, "/v2/") {
		otherwise = 5 * time.Minute
	}
	left, err := life(body.Timeout, 1, otherwise)
	if err != nil {
		return err
	}
	caller, key := h.Caller(r), r.Header.Get("Idempotency-Key")
	if key != "" {
		for _, sb := range h.sandboxes.all() {
			if sb.key == key && sb.caller.Owner == caller.Owner {
				writeJSON(w, http.StatusCreated, h.made(sb))
				return nil
			}
		}
	}
	sb := h.newSandbox(caller, body.TemplateID, left)
	sb.labels, sb.key, sb.domain, sb.mask, sb.autoPause = map[string]string{}, key, h.domainFor(r),
		body.Network.MaskRequestHost, body.AutoPause
	sb.public = body.Network.AllowPublicTraffic == nil || *body.Network.AllowPublicTraffic
	sb.https = body.Network.HTTPSPorts
	if sb.rules, err = body.Network.Rules.secrets(); err != nil {
		return err
	}
	sb.env = map[string]string{"HOME": home, "USER": user, "LOGNAME": user, "E2B_SANDBOX": "true", "PWD": home}
	maps.Copy(sb.env, body.EnvVars)
	maps.Copy(sb.labels, body.Metadata)
	defaults, maxima := h.Limits()
	sb.limits = limitsOf(maxima)
	sb.contexts = []*codeContext{{ID: newSandboxID(0), Dir: home, standard: true},
		{ID: newSandboxID(0), Language: "javascript", Dir: home, standard: true}}
	session, err := h.sessionFor(r.Context(), sb, body.contacts(), mountsOf(body.Volumes))
	if err != nil {
		return err
	}
	sb.limits = sb.limits.Or(defaults)
	if err := h.register(r.Context(), sb, session, left); err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, h.made(sb))
	return nil
}

// register begins the life of a sandbox, whose session was made, or ends the session. The contexts are those of its
// languages: the first is that of the session, and JavaScript's is beside Python's.
func (h *Handler) register(ctx context.Context, sb *sandbox, session engine.Session, left time.Duration) error {
	sb.session = session.ID
	first, others := sb.contexts[0], sb.contexts[1:]
	first.Language, first.interpreter = cmp.Or(live.Language(session), "python"), session.ID
	sb.contexts = sb.contexts[:1]
	err := error(nil)
	if first.Language == "python" {
		second := codeContext{Language: "javascript", standard: true}
		if len(others) > 0 {
			second.ID = others[0].ID
		}
		if _, err = h.newContext(ctx, sb, second); errors.Is(err, engine.ErrNoLanguage) { // an image may lack it
			err = nil
		}
	}
	if err == nil && !h.sandboxes.add(sb, left) {
		err = &engine.Error{
			Op: "create sandbox", Kind: engine.ErrBusy, RetryAfter: time.Minute,
			Hint: fmt.Sprintf("You have %d sandboxes, as many as one key may have at once: kill one, or wait until one ends.",
				maxSandboxes),
		}
	}
	if err != nil {
		return cmp.Or(h.Live.Delete(context.WithoutCancel(ctx), sb.caller, session.ID), err)
	}
	return nil
}

// domainFor returns the domain of the names of sandboxes for a client: the configured one, or
// localhost for a client that uses that name.
func (h *Handler) domainFor(r *http.Request) string {
	if h.Domain != "" {
		return h.Domain
	}
	name, port, _ := strings.Cut(r.Host, ":")
	if name != "localhost" && name != "127.0.0.1" {
		return ""
	}
	return strings.TrimSuffix("localhost:"+port, ":")
}

type madeBody struct {
	TemplateID   string  `json:"templateID"`
	SandboxID    string  `json:"sandboxID"`
	ClientID     string  `json:"clientID"`
	EnvdVersion  string  `json:"envdVersion"`
	EnvdToken    string  `json:"envdAccessToken"`
	TrafficToken string  `json:"trafficAccessToken"`
	Domain       *string `json:"domain"`
	Alias        string  `json:"alias"`
}

// clientID is a required field that clients do not use.
const clientID = "airlock"

func (h *Handler) made(sb *sandbox) madeBody {
	made := madeBody{sb.template, sb.id, clientID, envdVersion, sb.token, sb.token, &sb.domain, sb.template}
	if sb.domain == "" {
		made.Domain = nil
	}
	return made
}

type detailBody struct {
	madeBody
	StartedAt  string            `json:"startedAt"`
	EndAt      string            `json:"endAt"`
	CPUCount   int               `json:"cpuCount"`
	MemoryMB   int64             `json:"memoryMB"`
	DiskSizeMB int64             `json:"diskSizeMB"`
	State      string            `json:"state"`
	Metadata   map[string]string `json:"metadata"`
	Lifecycle  json.RawMessage   `json:"lifecycle"`
	Internet   bool              `json:"allowInternetAccess"`
	Network    networkInfo       `json:"network"`
}

func (h *Handler) detail(sb *sandbox) detailBody {
	return detailBody{
		madeBody: h.made(sb), StartedAt: timeOf(sb.started), EndAt: timeOf(sb.end()), CPUCount: sb.cpus(),
		MemoryMB: sb.limits.Memory >> 20, DiskSizeMB: sb.limits.Workspace >> 20, State: sb.state(), Metadata: sb.labels,
		Lifecycle: json.RawMessage(`{"autoResume":false,"onTimeout":"` + sb.onTimeout() + `"}`),
		Network:   networkInfo{sb.public, sb.mask, sb.https},
	}
}

func (sb *sandbox) state() string {
	if _, paused := sb.life(); paused {
		return "paused"
	}
	return "running"
}

func (sb *sandbox) onTimeout() string {
	if sb.autoPause {
		return "pause"
	}
	return "kill"
}

func (sb *sandbox) cpus() int {
	if sb.limits.CPUs > 0 {
		return max(1, int(sb.limits.CPUs))
	}
	return engine.Processors()
}

// Times are given to microseconds, by which lists are ordered, too.
const (
	timeFormat = "2006-01-02T15:04:05.000000Z"
	precision  = time.Microsecond
)

func timeOf(t time.Time) string { return t.UTC().Format(timeFormat) }

// list answers with a page of the caller's sandboxes.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	q, caller := r.URL.Query(), h.Caller(r)
	var after time.Time
	if text := q.Get("startedAfter"); text != "" {
		var err error
		if after, err = time.Parse(time.RFC3339, text); err != nil {
			return invalid("startedAfter is no time")
		}
	}
	limit, ascending := 100, q.Get("order") == "asc"
	if text := q.Get("limit"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return invalid("limit must be a positive number")
		}
		limit = min(n, limit)
	}
	last, err := base64.RawURLEncoding.DecodeString(q.Get("nextToken"))
	if err != nil {
		return invalid("nextToken is none of ours")
	}
	if h.inCluster() {
		own, _ := engine.WithRedirect(r.Context()) // of sandboxes that others have: they list them themselves
		h.adopt(own, false, func(r *record) bool { return r.Caller.Owner == caller.Owner })
	}
	list, more, err := h.gather(w, r, limit)
	if err != nil {
		return err
	}
	states := strings.FieldsFunc(strings.Join(q["state"], ","), func(r rune) bool { return r == ',' })
	for _, sb := range h.sandboxes.all() {
		ok, err := sb.matches(q.Get("metadata"))
		switch {
		case err != nil:
			return invalid("metadata is no query")
		case !ok, sb.caller.Owner != h.Caller(r).Owner, sb.started.Before(after),
			len(states) > 0 && !slices.Contains(states, sb.state()), q.Get("template") != "" && q.Get("template") != sb.template:
		default:
			d := h.detail(sb)
			d.EnvdToken, d.TrafficToken = "", ""
			list = append(list, d)
		}
	}
	list = slices.DeleteFunc(list, func(d detailBody) bool {
		order := strings.Compare(d.place(), string(last))
		return len(last) > 0 && (order == 0 || (order > 0) != ascending)
	})
	slices.SortFunc(list, func(a, b detailBody) int {
		if ascending {
			a, b = b, a
		}
		return strings.Compare(b.place(), a.place())
	})
	if len(list) > limit {
		list, more = list[:limit], true
	}
	if more && len(list) > 0 {
		w.Header().Set("X-Next-Token", base64.RawURLEncoding.EncodeToString([]byte(list[len(list)-1].place())))
	}
	writeJSON(w, http.StatusOK, list)
	return nil
}

// gather returns the sandboxes of other nodes, and whether a node may have more, which the next page
// then contains.
func (h *Handler) gather(w http.ResponseWriter, r *http.Request, limit int) (list []detailBody, more bool, err error) {
	list = []detailBody{}
	if h.Gather == nil {
		return list, false, nil
	}
	for _, answer := range h.Gather(w, r) {
		var remote []detailBody
		if err := json.Unmarshal(answer, &remote); err != nil {
			return nil, false, fmt.Errorf("a node's part of a list: %w", err)
		}
		list = append(list, remote...)
		more = more || len(remote) >= limit
	}
	return list, more, nil
}

// place is the position of a sandbox in a list, which stays valid when the sandbox has ended.
func (d *detailBody) place() string { return d.StartedAt + " " + d.SandboxID }
