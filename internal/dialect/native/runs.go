package native

import (
	"bytes"
	"cmp"
	"context"
	"iter"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
	"github.com/airlock-run/airlock/internal/wire"
)

// createRun runs code: to its end, as a stream of events, or, with "wait": false, in the
// background. A client that disconnects while it waits cancels its run, unless the request
// has an Idempotency-Key.
func (q *request) createRun() (any, error) {
	body := q.Object()
	req, answer, err := readRun(body)
	if err != nil {
		return nil, err
	}
	req.Profile.Client = clientOf(q.Header.Get("User-Agent"))
	req.IdempotencyKey = q.Header.Get("Idempotency-Key")

	stream := wantsEvents(q.Header)
	switch {
	case answer.all && (!stream || req.IdempotencyKey != ""):
		return nil, rest.Invalid(`"all_output" is of a stream of events that is read once: without an Idempotency-Key`)
	case stream && !answer.wait:
		return nil, rest.Invalid(`"wait": false has no stream: ask for its events`)
	case stream:
		return rest.Answer{}, q.streamRun(req, answer.all)
	case !answer.wait:
		run, err := q.api.engine.Start(q.Context(), q.Caller, req)
		if err != nil {
			return nil, err
		}
		return rest.Answer{Status: http.StatusAccepted, Location: "/runs/" + run.ID.String(), Body: runOf(run)}, nil
	}
	run, err := q.api.engine.Run(q.Context(), q.Caller, req)
	if err != nil {
		return nil, err
	}
	if len(run.Timings) > 0 {
		q.W.Header().Set("Server-Timing", timing(run.Timings))
	}
	return runOf(run), nil
}

// timing returns a Server-Timing header (https://www.w3.org/TR/server-timing/): the
// durations of the parts in milliseconds.
func timing(parts []engine.Timing) string {
	var b []byte
	for i, part := range parts {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, part.Name...), ";dur="...)
		b = strconv.AppendFloat(b, float64(part.Took)/float64(time.Millisecond), 'f', 3, 64)
	}
	return string(b)
}

// runAnswer is how a run is answered.
type runAnswer struct {
	wait bool // to its end
	all  bool // with all its output
}

func readRun(o *rest.Object) (req engine.RunRequest, answer runAnswer, err error) {
	req = engine.RunRequest{
		Language: o.NeedText("language"),
		Code:     o.NeedText("code"),
		Args:     o.Texts("args"),
		Files:    readFileRefs(o),
		Session:  o.ID("session"),
		Packages: o.Text("python_packages"),
		Image:    o.Text("image"),
		Wall:     engine.Wall(o.Text("wall")),
		Mounts:   readMounts(o),
		Volumes:  readVolumes(o),
		Network:  readNetwork(o),
		Secrets:  readSecrets(o),
		Profile: engine.Profile{Origin: engine.OriginNative,
			Program: engine.ProgramForm{Entry: o.Text("entry")}},
	}
	if stdin := o.Text("stdin"); stdin != "" {
		req.Stdin = []byte(stdin)
	}
	timeout := o.Millis("timeout_ms")
	req.Profile.Limits = readLimits(o.Object("limits"))
	switch within := &req.Profile.Limits.Timeout; {
	case *within == 0:
		*within = timeout
	case timeout != 0:
		o.Fail("timeout_ms", "is there twice: by itself and in limits")
	}
	req.Profile.Output.Merge = o.Flag("merge_output", false)
	req.Profile.Output.EchoLast = o.Flag("echo_last", false)
	req.DropCode = !o.Flag("keep_code", true)
	answer = runAnswer{wait: o.Flag("wait", true), all: o.Flag("all_output", false)}
	return req, answer, o.Done()
}

// clientOf returns the name of a client as History shows it: "CLI", "API, curl".
func clientOf(agent string) string {
	name, _, _ := strings.Cut(agent, "/")
	name = strings.TrimSpace(name)
	plain := func(r rune) bool { return r < ' ' || r > '~' }
	switch {
	case name == "airlock-cli":
		return "CLI"
	case name == "" || len(name) > 40 || strings.ContainsFunc(name, plain):
		return "API"
	}
	return "API, " + name
}

// wantsEvents reports whether the client takes an event stream.
func wantsEvents(h http.Header) bool {
	for _, accept := range h.Values("Accept") {
		for one := range strings.SplitSeq(accept, ",") {
			mediaType, params, err := mime.ParseMediaType(one)
			if err == nil && mediaType == "text/event-stream" && params["q"] != "0" {
				return true
			}
		}
	}
	return false
}

func (q *request) listRuns() (any, error) {
	ask := engine.RunQuery{Origin: engine.OriginNative, Kept: true}
	if s := q.URL.Query().Get("session"); s != "" {
		var err error
		if ask.Session, err = engine.ParseID(s); err != nil {
			return nil, rest.Invalid("session is not an id")
		}
	}
	encode := func(run engine.Run) runBody { return runOf(&run) }
	id := func(run runBody) engine.ID { return run.ID }
	return listPage(q, "runs", encode, id, func(page engine.Page) ([]engine.Run, error) {
		ask.Page = page
		return q.api.engine.ListRuns(q.Context(), q.Caller, ask)
	})
}

// runEvents streams the events of a run from any position. Disconnecting does not end the run.
func (q *request) runEvents(core *engine.Service) (any, error) {
	after, err := readLastEvent(q.Request.Request)
	if err != nil {
		return nil, err
	}
	events, err := core.Watch(q.Context(), q.Caller, q.id, int(after))
	if err != nil {
		return nil, err
	}
	return sendStream(q, events, appendEvent)
}

// readLastEvent returns the number of the last event that a client has received, from the header of
// browsers or ?after=; 0: none.
func readLastEvent(r *http.Request) (int64, error) {
	from := cmp.Or(r.Header.Get("Last-Event-ID"), r.URL.Query().Get("after"))
	if from == "" {
		return 0, nil
	}
	after, err := strconv.ParseInt(from, 10, 64)
	if err != nil || after < 0 {
		return 0, rest.Invalid("Last-Event-ID must be the number of an event")
	}
	return after, nil
}

const (
	keepAlive   = 15 * time.Second // proxies cut a silent stream at 30 or 60
	cancelLimit = 30 * time.Second // for the engine to end a run whose client disconnected
)

// streamRun starts a run and sends its events. If the client disconnects before the result,
// the run is cancelled, unless it has a key for a later request.
func (q *request) streamRun(req engine.RunRequest, all bool) error {
	watching, stop := context.WithCancel(q.Context())
	defer stop()
	var tapped <-chan engine.Event
	if all {
		tapped = tap(watching, &req)
	}
	run, _, err := q.api.engine.StartAttended(q.Context(), q.Caller, req)
	if err != nil {
		return err
	}
	q.W.Header().Set("Location", q.api.Prefix+"/runs/"+run.ID.String())
	events, err := q.api.engine.Watch(q.Context(), q.Caller, run.ID, 0)
	finished := false
	switch {
	case err != nil:
	case all:
		finished = sendFrames(q, withAll(watching, events, tapped), appendTapped)
		stop() // the program waits for nobody any more
	default:
		finished = sendFrames(q, events, appendEvent)
	}
	if !finished && req.IdempotencyKey == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), cancelLimit)
		defer cancel()
		if cancelErr := q.api.engine.CancelRun(ctx, q.Caller, run.ID); cancelErr != nil &&
			engine.KindOf(cancelErr) != engine.ErrNotFound {
			q.api.Log.ErrorContext(ctx, "cancel a run whose client left", "run", run.ID, "err", cancelErr)
		}
	}
	return err
}

// sendFrames answers with an event stream and reports whether the last event was written. add
// appends the frame of an event, and reports whether it is the last.
func sendFrames[E any](q *request, events iter.Seq[E], add func([]byte, E) ([]byte, bool)) (finished bool) {
	h := q.W.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	q.W.WriteHeader(http.StatusOK)
	return wire.Send(q.W, q.Request.Request, events, keepAlive, add)
}

func appendEvent(b []byte, e engine.Event) (frame []byte, last bool) {
	var data any
	switch e.Type {
	case engine.EventOutput:
		data = outputBody{Stream: e.Stream, Data: e.Data}
	default:
		data = runOf(e.Run)
	}
	return appendFrame(b, strconv.Itoa(e.Seq), string(e.Type), data), e.Type == engine.EventResult
}

// appendFrame appends an event. A stream cannot be resumed at an event without an id.
func appendFrame(b []byte, id, event string, data any) []byte {
	text := wire.Encode(data)
	if id != "" {
		b = append(append(append(b, "id: "...), id...), '\n')
	}
	if bytes.IndexByte(text, 0x7f) >= 0 { // DEL, the only other ASCII control character
		text = bytes.ReplaceAll(text, []byte{0x7f}, []byte(`\u007f`))
	}
	return wire.AppendFrame(b, event, text)
}

type outputBody struct {
	Stream engine.Stream `json:"stream"`
	Data   string        `json:"data"`
}
