package native

import (
	"cmp"
	"mime"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// createRun runs code: to its end, as a stream of events, or, with
// "wait": false, in the background. A client that leaves while it waits takes
// its run with it, unless the request has an Idempotency-Key.
func (a *api) createRun(w http.ResponseWriter, r *http.Request) error {
	body, err := a.readObject(w, r)
	if err != nil {
		return err
	}
	req, wait, err := readRun(body)
	if err != nil {
		return err
	}
	req.IdempotencyKey = r.Header.Get("Idempotency-Key")
	if n := req.Profile.Limits.Output.Bytes; n > 0 {
		defaults, _ := a.engine.Limits()
		req.Profile.Limits.Output = defaults.Output // how text is left out is not for the request to say
		req.Profile.Limits.Output.Bytes = n
	}

	caller := a.Caller(r)
	stream := wantsEvents(r.Header)
	switch {
	case stream && !wait:
		return invalid(`"wait": false has no stream: ask for its events`)
	case stream:
		return a.streamRun(w, r, caller, req)
	case !wait:
		run, err := a.engine.Start(r.Context(), caller, req)
		if err != nil {
			return err
		}
		w.Header().Set("Location", a.Prefix+"/runs/"+run.ID.String())
		writeJSON(w, http.StatusAccepted, runOf(run))
		return nil
	}
	run, err := a.engine.Run(r.Context(), caller, req)
	if err != nil {
		return err
	}
	if len(run.Laps) > 0 {
		w.Header().Set("Server-Timing", timing(run.Laps))
	}
	writeJSON(w, http.StatusOK, runOf(run))
	return nil
}

// timing is a Server-Timing header (https://www.w3.org/TR/server-timing/):
// where the time went, in milliseconds.
func timing(laps []engine.Lap) string {
	var b []byte
	for i, lap := range laps {
		if i > 0 {
			b = append(b, ", "...)
		}
		b = append(append(b, lap.Name...), ";dur="...)
		b = strconv.AppendFloat(b, float64(lap.Took)/float64(time.Millisecond), 'f', 3, 64)
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
	wait = o.flag("wait", true)
	return req, wait, o.done()
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

func (a *api) listRuns(w http.ResponseWriter, r *http.Request) error {
	query := r.URL.Query()
	page, err := readPage(query)
	if err != nil {
		return err
	}
	ask := engine.RunQuery{Origin: engine.OriginNative, Page: page}
	if s := query.Get("session"); s != "" {
		if ask.Session, err = engine.ParseID(s); err != nil {
			return invalid("session is not an id")
		}
	}
	runs, err := a.engine.ListRuns(r.Context(), a.Caller(r), ask)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		Runs []runBody `json:"runs"`
		Next string    `json:"next"`
	}{
		each(runs, func(run engine.Run) runBody { return runOf(&run) }),
		next(runs, page, func(run engine.Run) engine.ID { return run.ID }),
	})
	return nil
}

func (a *api) getRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	run, err := a.engine.GetRun(r.Context(), a.Caller(r), id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, runOf(run))
	return nil
}

func (a *api) cancelRun(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	if err := a.engine.CancelRun(r.Context(), a.Caller(r), id); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// runEvents follows a run from anywhere. Leaving does it no harm.
func (a *api) runEvents(w http.ResponseWriter, r *http.Request) error {
	id, err := pathID(r)
	if err != nil {
		return err
	}
	after, err := readLastEvent(r)
	if err != nil {
		return err
	}
	events, err := a.engine.Watch(r.Context(), a.Caller(r), id, int(after))
	if err != nil {
		return err
	}
	_, err = sendEvents(w, r, events)
	return err
}

// readLastEvent reads which event a client has seen last, from where its browser
// says it, or from ?after=; 0: none.
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
