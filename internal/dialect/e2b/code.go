package e2b

import (
	"bytes"
	"cmp"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// The code interpreter, port 49999: pieces of code in contexts, each an interpreter.
// Its errors are plain text.

// prelude sets up the displays of this protocol in Python.
//
//go:embed prelude.py
var prelude string

// codeContext is an interpreter of a sandbox.
type codeContext struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`

	interpreter engine.ID
	standard    bool // of its language
}

func (h *Handler) codeRoutes() *http.ServeMux {
	mux := http.NewServeMux()
	handle := func(pattern string, do func(http.ResponseWriter, *http.Request, *sandbox) error) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := do(w, r, sandboxOf(r.Context())); err != nil {
				status, message := h.status(w, err)
				switch {
				case errors.Is(err, errLanguage):
					status = http.StatusInternalServerError
				case errors.Is(err, errBody):
					status = http.StatusUnprocessableEntity
				}
				http.Error(w, message, status)
			}
		})
	}
	handle("POST /execute", h.execute)
	handle("POST /contexts", h.addContext)
	handle("GET /contexts", func(w http.ResponseWriter, _ *http.Request, sb *sandbox) error {
		sb.mu.Lock()
		list := slices.Clone(sb.contexts)
		sb.mu.Unlock()
		writeJSON(w, http.StatusOK, list)
		return nil
	})
	handle("POST /contexts/{context}/restart", h.restartContext)
	handle("DELETE /contexts/{context}", h.removeContext)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, _ *http.Request) { writeJSON(w, http.StatusOK, "OK") })
	return mux
}

var errLanguage = errors.New("unknown language")

func (sb *sandbox) context(id string) (*codeContext, error) {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	for _, c := range sb.contexts {
		if c.ID == id {
			return c, nil
		}
	}
	return nil, &engine.Error{Op: "context", Kind: engine.ErrNotFound, Err: errors.New("Context " + id + " not found")}
}

// language returns the language of code that names none: Python, or what the image has.
func (sb *sandbox) language() string {
	sb.mu.Lock()
	defer sb.mu.Unlock()
	return sb.contexts[0].Language
}

// standardContext returns the default context of a language, and makes it on the first use.
func (h *Handler) standardContext(ctx context.Context, sb *sandbox, language string) (*codeContext, error) {
	spelled := live.Named(language)
	sb.mu.Lock()
	defer sb.mu.Unlock()
	for _, c := range sb.contexts {
		if c.standard && c.Language == spelled {
			return c, nil
		}
	}
	return h.newContext(ctx, sb, codeContext{Language: language, standard: true})
}

// newContext adds a context. The caller holds the sandbox's mu.
func (h *Handler) newContext(ctx context.Context, sb *sandbox, c codeContext) (*codeContext, error) {
	spelled := live.Named(c.Language)
	if spelled == "" {
		return nil, &engine.Error{Op: "context", Kind: engine.ErrInvalid, Err: errLanguage,
			Hint: "There are " + strings.Join(live.Languages(nil), ", ") + "."}
	}
	dir := cmp.Or(c.Dir, home)
	start := absolute(dir)
	if start != home {
		if _, err := h.folder(ctx, sb, start); err != nil { // E2B's kernels stay at home then
			start = home
		}
	}
	fork, err := h.fork(ctx, sb, spelled, start)
	if err != nil {
		return nil, err
	}
	made := &codeContext{ID: cmp.Or(c.ID, newSandboxID(0)), Language: spelled, Dir: dir, interpreter: fork,
		standard: c.standard}
	sb.contexts = append(sb.contexts, made)
	return made, nil
}

func (h *Handler) addContext(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body struct {
		Language string `json:"language"`
		Dir      string `json:"cwd"`
	}
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	body.Language = cmp.Or(body.Language, sb.language())
	sb.mu.Lock()
	made, err := h.newContext(r.Context(), sb, codeContext{Language: body.Language, Dir: body.Dir})
	sb.mu.Unlock()
	if err == nil {
		h.save(r.Context(), sb)
		writeJSON(w, http.StatusOK, made)
	}
	return err
}

func (h *Handler) restartContext(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	c, err := sb.context(r.PathValue("context"))
	if err == nil {
		err = h.Live.Restart(r.Context(), sb.caller, c.interpreter)
	}
	if err == nil {
		writeJSON(w, http.StatusOK, nil)
	}
	return err
}

func (h *Handler) removeContext(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	c, err := sb.context(r.PathValue("context"))
	if err != nil {
		return err
	}
	if c.interpreter == sb.session { // the sandbox lives as long as this session
		err = h.Live.Restart(r.Context(), sb.caller, c.interpreter)
	} else {
		sb.mu.Lock()
		sb.contexts = slices.DeleteFunc(sb.contexts, func(other *codeContext) bool { return other == c })
		sb.mu.Unlock()
		h.save(r.Context(), sb)
		err = h.Live.EndFork(r.Context(), sb.caller, c.interpreter)
	}
	if err != nil && engine.KindOf(err) != engine.ErrNotFound {
		return err
	}
	writeJSON(w, http.StatusOK, nil)
	return nil
}

// executeBody asks for code to be run. Null counts as absent.
type executeBody struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
}

// execute runs code and streams its output. A client that leaves interrupts the code.
func (h *Handler) execute(w http.ResponseWriter, r *http.Request, sb *sandbox) error {
	var body executeBody
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	c, err := h.contextFor(r.Context(), sb, &body)
	if err != nil {
		return err
	}
	cell, err := h.Live.Start(r.Context(), sb.caller, c.interpreter, live.CellRequest{Code: body.Code, Env: body.Env})
	if err != nil {
		return err
	}
	done := false
	defer func() {
		if !done {
			ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), endTime)
			defer cancel()
			_ = h.Live.CancelCell(ctx, sb.caller, c.interpreter, cell.ID) // its session may have been deleted
		}
	}()
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	events, err := h.Live.Watch(ctx, sb.caller, c.interpreter, cell.ID, 0)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	w.Header().Set("X-Accel-Buffering", "no")
	out := http.NewResponseController(w)
	next, stop := wire.Follow(ctx, events, 16)
	defer func() { cancel(); stop() }()
	silence := time.NewTicker(keepAlive)
	defer silence.Stop()
	var begun bool
	var early []byte
	for more := true; more && !done; {
		var lines []byte
		select {
		case <-r.Context().Done():
			return nil
		case <-silence.C:
			lines = appendLine(nil, map[string]any{"type": "keepalive"})
		case e, ok := <-next:
			if !ok {
				return nil
			}
			silence.Reset(keepAlive)
			for pending := &e; pending != nil; {
				e := *pending
				pending, more = whole(&e, next)
				done = e.Type == live.DoneEvent
				switch {
				case begun:
					lines = appendEvent(lines, &e)
				case done: // without a beginning: it was cancelled
					lines = appendEvent(append(lines, early...), &e)
				case e.Type == live.StartedEvent: // clients expect the number first
					begun, lines = true, append(appendEvent(lines, &e), early...)
				default: // what a process writes itself can be faster
					early = appendEvent(early, &e)
				}
				if pending == nil && more && !done { // send complete events without delay
					select {
					case e, ok := <-next:
						if more = ok; ok {
							pending = &e
						}
					default:
					}
				}
			}
		}
		if _, err := w.Write(lines); err != nil || out.Flush() != nil {
			return nil
		}
	}
	return nil
}

// partTime is how long whole waits for the rest of a line.
const partTime = 5 * time.Millisecond

// whole appends the text that follows at once to a part of a line: clients show each event as lines
// of its own. It returns the event that was read beyond, if any, and whether there may be more.
func whole(e *live.Event, next <-chan live.Event) (beyond *live.Event, more bool) {
	if e.Type != live.Stdout && e.Type != live.Stderr {
		return nil, true
	}
	timer := time.NewTimer(partTime)
	defer timer.Stop()
	for !strings.HasSuffix(e.Text, "\n") {
		select {
		case <-timer.C:
			return nil, true
		case following, ok := <-next:
			if !ok {
				return nil, false
			}
			if following.Type != e.Type {
				return &following, true
			}
			e.Text += following.Text
		}
	}
	return nil, true
}

// keepAlive is the silence after which a keep-alive line is sent.
const keepAlive = 5 * time.Second

func (h *Handler) contextFor(ctx context.Context, sb *sandbox, body *executeBody) (*codeContext, error) {
	switch {
	case body.Context != "" && body.Language != "":
		return nil, invalid("Only one of context_id or language can be provided")
	case body.Context != "":
		return sb.context(body.Context)
	}
	return h.standardContext(ctx, sb, cmp.Or(body.Language, sb.language()))
}

// appendLine appends an object in ASCII: U+2028 and U+0085 end a line for some readers, and some
// decode each chunk by itself.
func appendLine(b []byte, line any) []byte {
	return append(wire.AppendASCII(b, wire.Encode(line)), '\n')
}

func appendEvent(b []byte, e *live.Event) []byte {
	stamp := time.Now().UTC().Format("2006-01-02T15:04:05.000000+00:00")
	textLine := func(kind live.OutputType, text string) map[string]any {
		return map[string]any{"type": string(kind), "text": text, "timestamp": stamp}
	}
	switch e.Type {
	case live.StartedEvent:
		b = appendLine(b, map[string]any{"type": "number_of_executions", "execution_count": e.Cell.ExecutionCount})
		if e.Cell.Restarted {
			b = appendLine(b, textLine(live.Stderr, e.Cell.Message+"\n"))
		}
	case live.Stdout, live.Stderr:
		b = appendLine(b, textLine(e.Type, e.Text))
	case live.Display, live.Result:
		if !e.Update {
			b = appendLine(b, resultOf(&e.Output))
		}
	case live.Error, live.ExitEvent:
		b = appendLine(b, map[string]any{"type": "error", "name": e.Name, "value": e.Value,
			"traceback": strings.Join(e.Traceback, "\n")})
	case live.DoneEvent:
		switch e.Cell.Status {
		case live.StatusLost:
			b = appendLine(b, map[string]any{"type": "error", "name": "ContextRestarting", "value": "Context was restarted",
				"traceback": e.Cell.Message})
		case live.StatusTimeout:
			b = appendLine(b, textLine(live.Stderr, e.Cell.Message+"\n"))
		}
		b = appendLine(b, map[string]any{"type": "end_of_execution"})
	}
	return b
}

// forms are the names that this protocol has for MIME types.
var forms = map[string]string{
	"text/plain": "text", "text/html": "html", "text/markdown": "markdown", "image/svg+xml": "svg", "image/png": "png",
	"image/jpeg":      "jpeg",
	"application/pdf": "pdf", "text/latex": "latex", "application/json": "json", "application/javascript": "javascript",
	"e2b/data": "data", "e2b/chart": "chart",
}

// resultOf is a value that is displayed.
func resultOf(o *live.Output) map[string]any {
	line := map[string]any{"type": "result", "is_main_result": o.Type == live.Result}
	extra := map[string]json.RawMessage{}
	for kind, value := range o.Data {
		name, known := forms[kind]
		switch {
		case kind == "text/plain":
			var text string
			if json.Unmarshal(value, &text) == nil {
				line[name] = unquoted(text)
			}
		case kind == "image/png" || kind == "image/jpeg":
			line[name] = json.RawMessage(bytes.ReplaceAll(value, []byte(`\n`), nil))
		case known:
			line[name] = value
		default:
			extra[kind] = value
		}
	}
	if len(extra) > 0 {
		line["extra"] = extra
	}
	return line
}

// unquoted removes a pair of outer quotes, as E2B does.
func unquoted(text string) string {
	if n := len(text); n >= 2 && text[0] == text[n-1] && (text[0] == '\'' || text[0] == '"') {
		return text[1 : n-1]
	}
	return text
}
