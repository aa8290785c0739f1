package onyx

import (
	"context"
	"errors"
	"iter"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	entry          = "__main__.py"
	defaultTimeout = 2000 // ms
	marker         = "\n...[truncated]"
	noMaximum      = 1<<63 - 1
)

// executeRequest is a request to run a program, with or without a stream.
type executeRequest struct {
	code  string
	stdin *string
	limit int64 // ms
	echo  bool
	files []fileRef

	packages *string // set of Python packages; no field of the original
}

// readExecute reads a request, and returns the engine's for it.
func (a *api) readExecute(
	w http.ResponseWriter, r *http.Request, caller engine.Caller,
) (in executeRequest, req engine.RunRequest, err error) {
	body, err := a.readBody(w, r)
	if err != nil {
		return in, req, err
	}
	in = executeRequest{
		code:     body.text("code"),
		stdin:    body.optionalText("stdin"),
		limit:    body.whole("timeout_ms", defaultTimeout, noMaximum),
		echo:     body.flag("last_line_interactive", true),
		files:    body.files(),
		packages: body.optionalText("python_packages"),
	}
	if err := body.done(); err != nil {
		return in, req, err
	}
	req, err = a.prepare(r.Context(), caller, in)
	return in, req, err
}

// maxTimeout returns the longest time limit that the engine accepts, in milliseconds.
func (a *api) maxTimeout() int64 {
	most := a.MaxTimeout
	if _, maxima := a.engine.Limits(); maxima.Timeout > 0 {
		most = min(most, maxima.Timeout)
	}
	return most.Milliseconds()
}

func (a *api) checkTimeout(ms int64) (time.Duration, error) {
	if most := a.maxTimeout(); ms > most {
		return 0, unprocessable("timeout_ms exceeds maximum of %d ms", most)
	}
	return time.Duration(ms) * time.Millisecond, nil
}

// profile returns the profile of Onyx's programs.
func (a *api) profile(timeout time.Duration) engine.Profile {
	limits := a.limits()
	limits.Timeout = timeout
	return engine.Profile{
		Origin:  engine.OriginOnyx,
		Program: engine.ProgramForm{Root: "/workspace", Home: "/"},
		Limits:  limits,
		Files:   engine.FileRules{TTL: a.FileTTL},
	}
}

// limits returns the limits that do not depend on the request, within the operator's maxima.
func (a *api) limits() engine.Limits {
	_, maxima := a.engine.Limits()
	limits := engine.Limits{
		Memory: a.Memory, CPUTime: a.CPUTime,
		Output: engine.OutputLimit{Bytes: a.MaxOutput, HeadOnly: true, Marker: marker},
		Files:  maxima.Files,
	}
	if most := maxima.Output.Bytes; most > 0 {
		limits.Output.Bytes = min(limits.Output.Bytes, most)
	}
	if most := maxima.Memory; most > 0 {
		limits.Memory = min(limits.Memory, most)
	}
	return limits
}

// prepare returns the engine's request for a client's request.
func (a *api) prepare(ctx context.Context, caller engine.Caller, in executeRequest) (engine.RunRequest, error) {
	timeout, err := a.checkTimeout(in.limit)
	if err != nil {
		return engine.RunRequest{}, err
	}
	req := engine.RunRequest{Language: "python", Code: in.code, Profile: a.profile(timeout)}
	req.Profile.Program.Entry = entry
	req.Profile.Output.EchoLast = in.echo
	if in.packages != nil {
		req.Packages = *in.packages
	}
	if in.stdin != nil {
		req.Stdin = []byte(*in.stdin)
	}
	if req.Files, err = a.stage(ctx, caller, in.files, entry); err != nil {
		return engine.RunRequest{}, err
	}
	for _, text := range []string{in.code, string(req.Stdin)} {
		if problem := surrogates(text); problem != "" {
			return engine.RunRequest{}, unprocessable("%s", problem)
		}
	}
	return req, nil
}

func (a *api) execute(w http.ResponseWriter, r *http.Request) error {
	caller := a.Caller(r)
	in, req, err := a.readExecute(w, r, caller)
	if err != nil {
		return err
	}
	count := a.meter.startOperation("execute")
	run, err := a.engine.Run(r.Context(), caller, req)
	count.end(run, err)
	if err != nil {
		return a.runError(r.Context(), caller, in.files, err)
	}
	writeJSON(w, http.StatusOK, executeBody{bodyOf(run), filesOf(run)})
	return nil
}

// stage returns the engine's references to the files of a request. Of two files at one path
// the later wins. An unknown file is reported before a bad path.
func (a *api) stage(
	ctx context.Context, caller engine.Caller, files []fileRef, reserved string,
) ([]engine.FileRef, error) {
	refs := make([]engine.FileRef, 0, len(files))
	places := map[string]int{}
	for _, f := range files {
		id, err := engine.ParseUUID(f.id)
		if err != nil {
			return nil, a.missing(ctx, caller, files, err)
		}
		path, err := cleanPath(f.path, reserved)
		if err != nil {
			return nil, a.missing(ctx, caller, files, err)
		}
		ref := engine.FileRef{ID: id, Path: path}
		if at, twice := places[path]; twice {
			if _, err := a.engine.GetFile(ctx, caller, refs[at].ID); err != nil {
				return nil, a.missing(ctx, caller, files, err)
			}
			refs[at] = ref
			continue
		}
		places[path] = len(refs)
		refs = append(refs, ref)
	}
	return refs, nil
}

// missing returns the error of the first file that does not exist, or otherwise if all exist.
func (a *api) missing(ctx context.Context, caller engine.Caller, files []fileRef, otherwise error) error {
	for _, f := range files {
		id, err := engine.ParseUUID(f.id)
		if err == nil {
			_, err = a.engine.GetFile(ctx, caller, id)
		}
		if engine.KindOf(err) == engine.ErrNotFound && err != nil {
			return wire.Refuse(http.StatusNotFound, "File with ID '%s' not found for path '%s'.", f.id, f.path)
		}
	}
	return otherwise
}

// runError returns the error of a run, with the file that the engine did not find.
func (a *api) runError(ctx context.Context, caller engine.Caller, files []fileRef, err error) error {
	if errors.Is(err, engine.ErrNotFound) {
		return a.missing(ctx, caller, files, err)
	}
	return err
}

// cleanPath checks the path of a file and returns its clean form.
func cleanPath(raw, reserved string) (string, error) {
	if strings.HasPrefix(raw, "/") {
		return "", unprocessable("File paths must be relative.")
	}
	var kept []string
	for part := range strings.SplitSeq(raw, "/") {
		switch part {
		case "", ".":
		case "..":
			return "", unprocessable("File paths must not contain '..'.")
		default:
			// Onyx stages every file of a chat and counts characters, not bytes: one long name must
			// not fail each call of the chat.
			kept = append(kept, wire.ShortName(part))
		}
	}
	if len(kept) == 0 {
		return "", unprocessable("File path must not be empty.")
	}
	path := strings.Join(kept, "/")
	if path == reserved {
		return "", unprocessable("File path '%s' is reserved for the execution entrypoint.", reserved)
	}
	if problem := surrogates(path); problem != "" {
		return "", unprocessable("%s", problem)
	}
	clean, err := engine.CleanPath(path)
	if err != nil {
		return "", unprocessable("File path %q %v.", raw, err)
	}
	return clean, nil
}

// exitCode returns null if the program timed out, and only then.
func exitCode(run *engine.Run) *int {
	const killed = 128 + 9
	switch {
	case run.Status == engine.StatusTimeout:
		return nil
	case run.ExitCode == nil, run.Signal == "SIGXCPU", run.Status == engine.StatusOOM:
		code := killed
		return &code
	}
	return run.ExitCode
}

// explanation returns the end of a program's stderr: why it was stopped, and which of its files are
// lost. The original reports neither.
func explanation(run *engine.Run) string {
	ended := run.Status != engine.StatusOK && run.Status != engine.StatusError
	lost := false
	for _, d := range run.Dropped {
		lost = lost || d.Reason != engine.DropNotRegular // links and pipes are not expected back
	}
	if run.Message == "" || !ended && !lost {
		return ""
	}
	text := "[" + run.Message + "]\n"
	if run.Stderr != "" && !strings.HasSuffix(run.Stderr, "\n") {
		text = "\n" + text
	}
	return text
}

// cancelLimit is how long the engine may take to end a run whose client disconnected.
const cancelLimit = 30 * time.Second

// executeStream runs a program and streams its output. An invalid request is answered as usual; the
// stream starts with the run.
func (a *api) executeStream(w http.ResponseWriter, r *http.Request) error {
	caller := a.Caller(r)
	in, req, err := a.readExecute(w, r, caller)
	if err != nil {
		return err
	}
	count := a.meter.startOperation("execute_stream")
	run, turn, err := a.engine.StartAttended(r.Context(), caller, req)
	if err == nil {
		if err = turn.Await(r.Context()); errors.Is(err, engine.ErrCanceled) {
			a.cancel(r.Context(), caller, run.ID)
		}
	}
	if err != nil {
		count.end(nil, err)
		return a.runError(r.Context(), caller, in.files, err)
	}
	events, err := a.engine.Watch(r.Context(), caller, run.ID, 0)
	var result *engine.Run
	if err == nil {
		result = sendEvents(w, r, events)
	}
	count.end(result, err)
	if result == nil {
		a.cancel(r.Context(), caller, run.ID)
	}
	return err
}

// cancel ends a run whose client disconnected.
func (a *api) cancel(ctx context.Context, caller engine.Caller, id engine.ID) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), cancelLimit)
	defer cancel()
	if err := a.engine.CancelRun(ctx, caller, id); err != nil && engine.KindOf(err) != engine.ErrNotFound {
		a.Log.ErrorContext(ctx, "cancel a run whose client left", "run", id, "err", err)
	}
}

// sendEvents answers with an event stream. It returns the run at its end, or nil if the
// client disconnected before. After the first byte no other answer is possible, so errors
// of the connection end it silently.
func sendEvents(w http.ResponseWriter, r *http.Request, events iter.Seq[engine.Event]) *engine.Run {
	h := w.Header()
	// Without the charset a client takes the text for Latin-1.
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no")
	if h.Get("Connection") == "" {
		h.Set("Connection", "keep-alive")
	}
	w.WriteHeader(http.StatusOK)
	var result *engine.Run
	finished := wire.Send(w, r, events, 0, func(b []byte, e engine.Event) ([]byte, bool) {
		result = e.Run
		return appendEvent(b, e), e.Type == engine.EventResult
	})
	if !finished {
		return nil
	}
	return result
}

// appendEvent appends the frames of an event that clients of Onyx know.
func appendEvent(b []byte, e engine.Event) []byte {
	switch e.Type {
	case engine.EventOutput:
		return wire.AppendFrame(b, "output", wire.EncodePlain(outputEvent{e.Stream, e.Data}))
	case engine.EventResult:
		run := e.Run
		if run.Status == engine.StatusInterrupted {
			return wire.AppendFrame(b, "error", wire.EncodePlain(errorEvent{run.Message}))
		}
		if text := explanation(run); text != "" {
			b = wire.AppendFrame(b, "output", wire.EncodePlain(outputEvent{engine.Stderr, text}))
		}
		return wire.AppendFrame(b, "result", wire.EncodePlain(resultEvent{endOfRun(run), filesOf(run)}))
	}
	return b
}
