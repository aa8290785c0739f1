package librechat

import (
	"cmp"
	"context"
	"errors"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// python is the only language whose plots are left as files.
const python = "python"

// prepared is a parsed and validated request to run a program.
type prepared struct {
	engine.RunRequest
	inputs []input
}

// prepare returns the engine's request for a client's.
func (a *api) prepare(r *http.Request, caller engine.Caller, body *runBody, w *workspace) (*prepared, error) {
	if err := body.checkHint(); err != nil {
		return nil, err
	}
	if body.Code == nil {
		return nil, bad("code is required")
	}
	name := cmp.Or(body.Lang, body.Language)
	if name == "" {
		return nil, bad("lang is required")
	}
	lang, known := a.Language(strings.ToLower(name))
	if !known {
		return nil, bad("Unsupported language: %.40s", name)
	}
	args, err := body.arguments()
	if err != nil {
		return nil, err
	}
	_, maxima := a.engine.Limits()
	limit, err := body.limit(maxima.Timeout)
	if err != nil {
		return nil, err
	}
	user := body.user(r)
	if err := a.checkUser(caller, user); err != nil {
		return nil, err
	}
	inputs, err := a.inputs(r.Context(), caller, body, user, w)
	if err != nil {
		return nil, err
	}
	p := &prepared{inputs: inputs, RunRequest: engine.RunRequest{
		Language: lang.Name, Code: lang.Source(*body.Code), Packages: body.Packages, Args: args, Stdin: []byte("\n"),
		Files: fileRefs(inputs),
		Profile: engine.Profile{
			Origin: engine.OriginLibreChat, Scope: scope{user: user}.mark(caller),
			Program: engine.ProgramForm{Root: "/mnt/data", Entry: entry(lang.Entry, inputs),
				Locale: "en_US.UTF-8", // as in the image of LibreChat's code interpreter
				Shown:  engine.Shown{Language: lang.Name, Code: *body.Code}},
			Files: engine.FileRules{TTL: a.FileTTL, Plots: lang.Name == python, Folders: true},
		},
	}}
	p.Profile.Limits.Timeout = limit
	if w != nil {
		p.lasting(w)
	}
	return p, nil
}

func (a *api) exec(w http.ResponseWriter, r *http.Request) error {
	body, caller, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	if err := a.profile(w, r); err != nil {
		return err
	}
	r, leave, err := a.enter(r, caller)
	if err != nil {
		return err
	}
	defer leave(nil)
	workspace, err := a.workspace(r.Context(), caller, body, body.user(r))
	if err != nil {
		return err
	}
	p, err := a.prepare(r, caller, body, workspace)
	if err != nil {
		return err
	}
	out := newLongAnswer(w)
	run, err := await(out, func() (*engine.Run, error) { return a.engine.Run(r.Context(), caller, p.RunRequest) })
	if err != nil {
		err = a.runError(body, err)
		if !out.begun() {
			return err
		}
		return out.finish(a.failedReply(r, err))
	}
	answer := reply(run, p.inputs)
	if run.Status == engine.StatusError && p.Profile.Program.Shown.Language == python &&
		asksInput.MatchString(*body.Code) {
		answer.Stderr = withReason(answer.Stderr, noInput)
	}
	workspace.tell(answer)
	return out.finish(answer)
}

// asksInput matches Python code that may ask a person.
var asksInput = regexp.MustCompile(`(?m)^[^#\n]*\binput\(`)

// noInput tells the model why its program failed: the standard input of programs is one empty line,
// as in the official service, so that the first input() returns "".
const noInput = "Nobody answers input() here: it returns one empty line, then it fails. " +
	"Write the values into the program."

// runError translates the errors of a run for clients of this API.
func (a *api) runError(body *runBody, err error) error {
	e, ok := errors.AsType[*engine.Error](err)
	switch {
	case !ok:
	case e.Kind == engine.ErrNotFound && strings.HasPrefix(e.ID, "files"):
		return errBadRef()
	case e.Kind == engine.ErrNoLanguage:
		return bad("The language %.40s is not available on this server: %s", cmp.Or(body.Lang, body.Language),
			wire.Sentence(e))
	}
	return err
}

// failedReply returns the answer to a request that failed after the status was sent.
func (a *api) failedReply(r *http.Request, err error) *runReply {
	status, body := describe(r, err)
	if status >= 500 && r.Context().Err() == nil {
		a.Log.ErrorContext(context.WithoutCancel(r.Context()), "a run failed after its answer had begun", "status", status,
			"err", err)
	}
	reason := body.Error
	if body.Message != "" {
		reason = body.Message
	}
	return &runReply{SessionID: engine.NewID().String(), Stderr: withReason("", reason), Files: []fileBody{},
		Message: &reason}
}

// pulse is how often an answer that takes long gets a space. Old clients, and
// some proxies, hang up on a connection that is silent for five seconds.
const pulse = 3 * time.Second

// longAnswer is the answer to a request that may take minutes. JSON may begin with white space, so
// spaces are sent meanwhile. The first space sends the status, 200.
type longAnswer struct {
	w       http.ResponseWriter
	started bool
}

func newLongAnswer(w http.ResponseWriter) *longAnswer { return &longAnswer{w: w} }

func (a *longAnswer) begun() bool { return a.started }

// beat sends a space.
func (a *longAnswer) beat() {
	if !a.started {
		a.started = true
		a.w.Header().Set("Content-Type", "application/json; charset=utf-8")
		a.w.Header().Set("X-Accel-Buffering", "no") // nginx
		a.w.WriteHeader(http.StatusOK)
	}
	_, _ = a.w.Write([]byte(" ")) // a client that left ends the request's context
	_ = http.NewResponseController(a.w).Flush()
}

// finish sends the body.
func (a *longAnswer) finish(body any) error {
	if !a.started {
		writeJSON(a.w, http.StatusOK, body)
		return nil
	}
	_, _ = a.w.Write(wire.Encode(body)) // the peer may be gone
	return nil
}

// await waits for a result and keeps the client waiting too.
func await[T any](a *longAnswer, get func() (T, error)) (result T, err error) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		result, err = get()
	}()
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	for {
		select {
		case <-done:
			return result, err
		case <-tick.C:
			a.beat()
		}
	}
}
