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
	"github.com/airlock-run/airlock/internal/wire"
)

// createRun runs code: to its end, as a stream of events, or, with "wait": false, in the
// background. A client that disconnects while it waits cancels its run, unless the request
// has an Idempotency-Key.
func (q *request) createRun() (any, error) {
	body := q.object()
	req, wait, err := readRun(body)
	if err != nil {
		return nil, err
	}
	req.Profile.Client = clientOf(q.Header.Get("User-Agent"))
	req.IdempotencyKey = q.Header.Get("Idempotency-Key")

	stream := wantsEvents(q.Header)
	switch {
	case stream && !wait:
		return nil, invalid(`"wait": false has no stream: ask for its events`)
	case stream:
		return answer{}, q.streamRun(req)
	case !wait:
		run, err := q.engine.Start(q.Context(), q.caller, req)
		if err != nil {
			return nil, err
		}
		return answer{http.StatusAccepted, "/runs/" + run.ID.String(), runOf(run)}, nil
	}
	run, err := q.engine.Run(q.Context(), q.caller, req)
	if err != nil {
		return nil, err
	}
	if len(run.Timings) > 0 {
		q.w.Header().Set("Server-Timing", timing(run.Timings))
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

func readRun(o *object) (req engine.RunRequest, wait bool, err error) {
	req = engine.RunRequest{
		Language: o.needText("language"),
		Code:     o.needText("code"),
		Args:     o.texts("args"),
		Files:    readFileRefs(o),
		Session:  o.id("session"),
		Packages: o.text("python_packages"),
		Network:  readNetwork(o),
		Profile:  engine.Profile{Origin: engine.OriginNative, Entry: o.text("entry")},
	}
	if stdin := o.text("stdin"); stdin != "" {
		req.Stdin = []byte(stdin)
	}
	timeout := o.millis("timeout_ms")
	req.Profile.Limits = readLimits(o.object("limits"))
	switch within := &req.Profile.Limits.Timeout; {
	case *within == 0:
		*within = timeout
	case timeout != 0:
		o.fail("timeout_ms", "is there twice: by itself and in limits")
	}
	req.Profile.MergeOutput = o.flag("merge_output", false)
	req.Profile.EchoLast = o.flag("echo_last", false)
	req.DropCode = !o.flag("keep_code", true)
	wait = o.flag("wait", true)
	return req, wait, o.done()
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
	ask := engine.RunQuery{Origin: engine.OriginNative}
	if s := q.URL.Query().Get("session"); s != "" {
		var err error
		if ask.Session, err = engine.ParseID(s); err != nil {
			return nil, invalid("session is not an id")
		}
	}
	encode := func(run engine.Run) runBody { return runOf(&run) }
	id := func(run runBody) engine.ID { return run.ID }
	return listPage(q, "runs", encode, id, func(page engine.Page) ([]engine.Run, error) {
		ask.Page = page
		return q.engine.ListRuns(q.Context(), q.caller, ask)
	})
}

// runEvents streams the events of a run from any position. Disconnecting does not end the run.
func (q *request) runEvents(core *engine.Service) (any, error) {
	after, err := readLastEvent(q.Request)
	if err != nil {
		return nil, err
	}
	events, err := core.Watch(q.Context(), q.caller, q.id, int(after))
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
		return 0, invalid("Last-Event-ID must be the number of an event")
	}
	return after, nil
}

const (
	keepAlive   = 15 * time.Second // proxies cut a silent stream at 30 or 60
	cancelLimit = 30 * time.Second // for the engine to end a run whose client disconnected
)

// streamRun starts a run and sends its events. If the client disconnects before the result,
// the run is cancelled, unless it has a key for a later request.
func (q *request) streamRun(req engine.RunRequest) error {
	req.Attended = true
	run, err := q.engine.Start(q.Context(), q.caller, req)
	if err != nil {
		return err
	}
	q.w.Header().Set("Location", q.Prefix+"/runs/"+run.ID.String())
	events, err := q.engine.Watch(q.Context(), q.caller, run.ID, 0)
	finished := false
	if err == nil {
		finished = sendFrames(q, events, appendEvent)
	}
	if !finished && req.IdempotencyKey == "" {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(q.Context()), cancelLimit)
		defer cancel()
		if cancelErr := q.engine.CancelRun(ctx, q.caller, run.ID); cancelErr != nil &&
			engine.KindOf(cancelErr) != engine.ErrNotFound {
			q.Log.ErrorContext(ctx, "cancel a run whose client left", "run", run.ID, "err", cancelErr)
		}
	}
	return err
}

// sendFrames answers with an event stream and reports whether the last event was written. add
// appends the frame of an event, and reports whether it is the last.
func sendFrames[E any](q *request, events iter.Seq[E], add func([]byte, E) ([]byte, bool)) (finished bool) {
	h := q.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-store")
	h.Set("X-Accel-Buffering", "no") // nginx
	q.w.WriteHeader(http.StatusOK)
	return wire.Send(q.w, q.Request, events, keepAlive, add)
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
