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
	"math"
	"net/http"
	"regexp"
	"runtime"
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

// templates are the accepted names. All of them start the same sandbox.
var templates = []string{"base", "code-interpreter-v1"}

func (h *Handler) controlRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request) error) {
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
	owned("POST /sandboxes/{id}/refreshes", refresh)
	owned("GET /sandboxes/{id}/metrics", h.metrics)
	handle("GET /snapshots", func(w http.ResponseWriter, _ *http.Request) error {
		writeJSON(w, http.StatusOK, []any{})
		return nil
	})
	handle("/", func(w http.ResponseWriter, r *http.Request) error {
		writeError(w, http.StatusNotImplemented,
			"Airlock does not have "+r.Method+" "+r.URL.Path+": no pausing, snapshots, forks, templates, volumes or secrets")
		return nil
	})
	return mux
}

// sandbox returns the caller's sandbox that an address names.
func (h *Handler) sandbox(r *http.Request) (*sandbox, error) {
	id := r.PathValue("id")
	sb := h.sandboxes.find(id)
	if sb == nil || sb.caller.Owner != h.Caller(r).Owner {
		return nil, &engine.Error{Op: "find sandbox", Kind: engine.ErrNotFound,
			Err: errors.New("there is no sandbox " + strconv.Quote(id))}
	}
	return sb, nil
}

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
		return invalid("the body is not what is asked for: " + err.Error())
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
	Network    struct {
		AllowPublicTraffic *bool           `json:"allowPublicTraffic"`
		MaskRequestHost    string          `json:"maskRequestHost"`
		AllowOut           []string        `json:"allowOut"`
		DenyOut            []string        `json:"denyOut"`
		Rules              json.RawMessage `json:"rules"`
		EgressProxy        json.RawMessage `json:"egressProxy"`
	} `json:"network"`
	Internet *bool           `json:"allow_internet_access"`
	MCP      json.RawMessage `json:"mcp"`
	IAM      json.RawMessage `json:"iam"`
	Volumes  json.RawMessage `json:"volumeMounts"`
}

// check refuses unsupported options. Pausing at the timeout is accepted: some clients always ask
// for it, and the answer says how the life ends.
// maxFields bounds the variables and metadata of a sandbox, which are in memory while it lives.
const maxFields = 64 << 10

func (b *createBody) check() error {
	if !slices.Contains(templates, b.TemplateID) {
		return &engine.Error{Op: "create", Kind: engine.ErrNotFound,
			Err:  errors.New("there is no template " + strconv.Quote(b.TemplateID)),
			Hint: "There are " + strings.Join(templates, " and ") + "."}
	}
	for name, asked := range map[string]json.RawMessage{
		"network.rules": b.Network.Rules, "network.egressProxy": b.Network.EgressProxy,
		"mcp": b.MCP, "iam": b.IAM, "volumeMounts": b.Volumes,
	} {
		if !slices.Contains([]string{"", "null", "[]", "{}"}, string(asked)) {
			return invalid(name + " is not supported: a sandbox contacts what allowOut names, and nothing is mounted into it")
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
	if mask := b.Network.MaskRequestHost; !maskPattern.MatchString(mask) {
		return invalid("network.maskRequestHost " + strconv.Quote(mask) + " is no host: give a name, and a port or " +
			maskPort)
	}
	for name, value := range b.EnvVars {
		if name == "" || strings.ContainsAny(name, "=\x00") || strings.Contains(value, "\x00") {
			return invalid("envVars: " + strconv.Quote(name) + " cannot be set")
		}
	}
	return nil
}

// maskPort stands in network.maskRequestHost for the port that a request is for.
const maskPort = "${PORT}"

var maskPattern = regexp.MustCompile(`^([A-Za-z0-9._-]|\$\{PORT\})*(:(\d{1,5}|\$\{PORT\}))?$`)

// contacts returns the network that a client asks for; nil: that of its key. With E2B the default
// is everything.
func (b *createBody) contacts() *engine.Network {
	everything := func(rule string) bool { return rule == "0.0.0.0/0" || rule == "::/0" }
	closed := b.Internet != nil && !*b.Internet || slices.ContainsFunc(b.Network.DenyOut, everything)
	n := &engine.Network{Allow: b.Network.AllowOut, Deny: slices.DeleteFunc(slices.Clone(b.Network.DenyOut), everything)}
	if n.Allow == nil && !closed && len(n.Deny) == 0 {
		return nil
	}
	if closed && n.Allow == nil {
		n.Allow = []string{}
	}
	return n
}

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
	sb := &sandbox{
		caller: caller, template: body.TemplateID, labels: map[string]string{}, key: key, domain: h.domainFor(r),
		mask:   body.Network.MaskRequestHost,
		public: body.Network.AllowPublicTraffic == nil || *body.Network.AllowPublicTraffic,
		env:    map[string]string{"HOME": home, "USER": user, "LOGNAME": user, "E2B_SANDBOX": "true", "PWD": home},
	}
	maps.Copy(sb.env, body.EnvVars)
	maps.Copy(sb.labels, body.Metadata)
	defaults, maxima := h.Limits()
	sb.limits = engine.Limits{Timeout: maxima.Timeout, Output: engine.OutputLimit{Bytes: maxima.Output.Bytes}}
	session, err := h.Live.Create(r.Context(), caller, live.Request{
		Network:  body.contacts(),
		Language: "python", Origin: engine.OriginE2B, TTL: maxLife, Limits: sb.limits,
		Setup: live.Setup{Env: sb.env, Dir: home, Code: prelude},
	})
	if err != nil {
		return err
	}
	sb.limits, sb.session = sb.limits.Or(defaults), session.ID
	sb.contexts = []*codeContext{{ID: newSandboxID(0), Language: "python", Dir: home, interpreter: session.ID,
		standard: true}}
	if _, err := h.newContext(r.Context(), sb, codeContext{Language: "javascript", standard: true}); err != nil {
		return errors.Join(err, h.Live.Delete(context.WithoutCancel(r.Context()), caller, session.ID))
	}
	if h.Self != nil {
		sb.node = h.Self()
	}
	if !h.sandboxes.add(sb, left) {
		err := h.Live.Delete(context.WithoutCancel(r.Context()), caller, session.ID)
		return cmp.Or(err, error(&engine.Error{
			Op: "create sandbox", Kind: engine.ErrBusy, RetryAfter: time.Minute,
			Hint: fmt.Sprintf("You have %d sandboxes, as many as one key may have at once: kill one, or wait until one ends.",
				maxSandboxes),
		}))
	}
	writeJSON(w, http.StatusCreated, h.made(sb))
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
}

func (h *Handler) detail(sb *sandbox) detailBody {
	return detailBody{
		madeBody: h.made(sb), StartedAt: timeOf(sb.started), EndAt: timeOf(sb.end()), CPUCount: sb.cpus(),
		MemoryMB: sb.limits.Memory >> 20, DiskSizeMB: sb.limits.Workspace >> 20, State: "running", Metadata: sb.labels,
		Lifecycle: json.RawMessage(`{"autoResume":false,"onTimeout":"kill"}`),
	}
}

func (sb *sandbox) cpus() int {
	if sb.limits.CPUs > 0 {
		return max(1, int(sb.limits.CPUs))
	}
	return runtime.NumCPU()
}

// Times are given to microseconds, by which lists are ordered, too.
const (
	timeFormat = "2006-01-02T15:04:05.000000Z"
	precision  = time.Microsecond
)

func timeOf(t time.Time) string { return t.UTC().Format(timeFormat) }

// list answers with a page of the caller's sandboxes.
func (h *Handler) list(w http.ResponseWriter, r *http.Request) error {
	q := r.URL.Query()
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
			len(states) > 0 && !slices.Contains(states, "running"), q.Get("template") != "" && q.Get("template") != sb.template:
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

type sampleBody struct {
	Timestamp string  `json:"timestamp"`
	Unix      int64   `json:"timestampUnix"`
	CPUs      int     `json:"cpuCount"`
	CPUUsed   float64 `json:"cpuUsedPct"`
	MemUsed   int64   `json:"memUsed"`
	MemTotal  int64   `json:"memTotal"`
	MemCache  int64   `json:"memCache"` // not measured separately
	DiskUsed  int64   `json:"diskUsed"`
	DiskTotal int64   `json:"diskTotal"`
}

// metrics answers with one sample: nothing is measured between requests. The use of the processor
// is that since the last sample, in percent of one processor.
func (h *Handler) metrics(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	now := time.Now()
	for name, misses := range map[string]func(asked int64) bool{
		"start": func(asked int64) bool { return now.Unix() < asked },
		"end":   func(asked int64) bool { return now.Unix() > asked },
	} {
		text := r.URL.Query().Get(name)
		at, err := strconv.ParseInt(text, 10, 64)
		switch {
		case text != "" && err != nil:
			return invalid(name + " must be seconds since 1970")
		case text != "" && misses(at):
			writeJSON(w, http.StatusOK, []sampleBody{})
			return nil
		}
	}
	use, err := h.Live.Usage(r.Context(), sb.caller, sb.session)
	if err != nil {
		return err
	}
	sb.mu.Lock()
	since, before := sb.measured, sb.used
	if since.IsZero() {
		since = sb.started
	}
	sb.measured, sb.used = now, use.CPU
	sb.mu.Unlock()
	percent := max(0, float64(use.CPU-before)/float64(max(now.Sub(since), time.Millisecond))*100)
	writeJSON(w, http.StatusOK, []sampleBody{{
		Timestamp: timeOf(now), Unix: now.Unix(), CPUs: sb.cpus(), CPUUsed: math.Round(percent*100) / 100,
		MemUsed: use.Memory, MemTotal: sb.limits.Memory, DiskUsed: use.Workspace, DiskTotal: sb.limits.Workspace,
	}})
	return nil
}
