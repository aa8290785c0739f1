package librechat

import (
	"cmp"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"regexp"
	"strconv"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/toolcall"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxSource = 16 << 20
	bash      = "bash"
)

// roundReply answers a request about a program that calls tools. It always has every key,
// because some clients read all of them.
type roundReply struct {
	Status        string      `json:"status"`
	Token         *string     `json:"continuation_token"`
	Calls         []callBody  `json:"tool_calls"`
	Error         *string     `json:"error"`
	SessionID     string      `json:"session_id"`
	PartialStdout *string     `json:"partial_stdout,omitempty"`
	PartialStderr *string     `json:"partial_stderr,omitempty"`
	Stdout        *string     `json:"stdout,omitempty"`
	Stderr        *string     `json:"stderr,omitempty"`
	Files         *[]fileBody `json:"files,omitempty"`
	leftovers
}

type callBody struct {
	ID    string          `json:"id"`
	Name  string          `json:"name"`
	Input json.RawMessage `json:"input"`
}

// Messages that the client shows unchanged. It replaces other messages by a general text.
const (
	errFailed = "Execution failed or timed out"
	errMemory = "Out of memory"
	errExit   = "Sandbox exited with code %d"
)

func expired() error { return refuse(http.StatusNotFound, "Execution not found or expired") }

func (a *api) programmatic(w http.ResponseWriter, r *http.Request) error {
	body, caller, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	if err := a.profile(w, r); err != nil {
		return err
	}
	begin := a.startProgram
	if body.Token != nil || body.ToolResults != nil {
		begin = a.goOn
	}
	r, leave, err := a.enter(r, caller)
	if err != nil {
		return err
	}
	var waits *toolcall.Program
	defer func() { leave(waits) }()
	p, again, err := begin(r, caller, body)
	if err != nil {
		return a.peerError(w, r, a.runError(body, err))
	}
	if again != nil {
		writeJSON(w, http.StatusOK, a.roundReply(p, again))
		return nil
	}
	out := newLongAnswer(w)
	next, err := await(out, func() (*toolcall.Round, error) { return p.Next(r.Context()) })
	if err != nil && next != nil && out.begun() { // the status was already sent
		_, body := describe(r, err)
		return out.finish((&roundReply{SessionID: next.Session.String()}).fail(cmp.Or(body.Message, body.Error), "", ""))
	}
	if err != nil {
		return err
	}
	if !next.Ended {
		waits = p
	}
	return out.finish(a.roundReply(p, next))
}

// peerError answers with 200 and the error in the body, like other servers, if PeerErrors
// is set.
func (a *api) peerError(w http.ResponseWriter, r *http.Request, err error) error {
	status, body := describe(r, err)
	if !a.PeerErrors || status != http.StatusBadRequest && status != http.StatusNotFound {
		return err
	}
	empty, none := "", []fileBody{}
	writeJSON(w, http.StatusOK, roundReply{
		Status: "error", Error: &body.Error, SessionID: engine.NewID().String(), Stdout: &empty, Stderr: &empty, Files: &none,
	})
	return nil
}

// startProgram starts a program.
func (a *api) startProgram(
	r *http.Request, caller engine.Caller, body *runBody,
) (*toolcall.Program, *toolcall.Round, error) {
	name := strings.ToLower(cmp.Or(body.Lang, body.Language))
	lang, known := a.Language(cmp.Or(name, python))
	if !known || lang.Name != python && lang.Name != bash {
		return nil, nil, bad("Unsupported language: %.40s", name)
	}
	body.Lang = lang.Name
	if err := nameTools(body.Tools, lang.Name == bash); err != nil {
		return nil, nil, err
	}
	for i := range body.Files {
		if body.Files[i].Name == "_ptc_history.json" {
			return nil, nil, bad("files[%d].name is reserved", i)
		}
	}
	p, err := a.prepare(r, caller, body, nil)
	if err != nil {
		return nil, nil, err
	}
	if len(p.Code) > maxSource {
		return nil, nil, bad("code has %d bytes, at most %d are allowed", len(p.Code), maxSource)
	}
	// Both languages run in a driver in Python.
	p.Profile.Program.InStdin = true
	p.Stdin = wire.Encode(program{Source: p.Code, Tools: append([]tool{}, body.Tools...),
		Args: append([]string{}, p.Args...)})
	if lang.Name == bash {
		p.Code = driverCode(shellDriver, "")
	} else {
		p.Code = driverCode(pythonDriver, p.Code)
	}
	p.Language = python
	names := make([]string, len(body.Tools))
	for i := range body.Tools {
		names[i] = body.Tools[i].Name
	}
	started, err := a.programs.Start(r.Context(), caller, p.RunRequest, names, p)
	return started, nil, err
}

// goOn resumes a program with the answers to its calls.
func (a *api) goOn(r *http.Request, caller engine.Caller, body *runBody) (*toolcall.Program, *toolcall.Round, error) {
	if body.Token == nil {
		return nil, nil, bad("continuation_token is required")
	}
	p, round, err := a.programs.Find(r.Context(), *body.Token)
	switch {
	case errors.Is(err, engine.ErrNotFound), err != nil && officialToken(*body.Token):
		return nil, nil, expired()
	case err != nil:
		return nil, nil, err
	case p.Caller.Owner != caller.Owner,
		!(scope{user: body.user(r)}).admits(caller, engine.Session{Scope: p.Note.(*prepared).Profile.Scope}):
		return nil, nil, errForbidden()
	}
	answers, err := readResults(body.ToolResults)
	if err != nil {
		return nil, nil, err
	}
	again, err := p.Resume(round, answers)
	if errors.Is(err, engine.ErrNotFound) {
		err = expired()
	}
	return p, again, err
}

// officialToken reports whether a token has the form of the official server's: the base64
// of a JSON object. Clients still send old tokens after a migration.
func officialToken(token string) bool {
	token = strings.TrimRight(token, "=")
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		var content map[string]any
		if raw, err := encoding.DecodeString(token); err == nil && json.Unmarshal(raw, &content) == nil && len(content) > 0 {
			return true
		}
	}
	return false
}

// roundReply returns the answer with the calls of a program, or with its end.
func (a *api) roundReply(p *toolcall.Program, r *toolcall.Round) *roundReply {
	out := &roundReply{SessionID: r.Session.String()}
	if !r.Ended {
		out.Status, out.Token = "tool_call_required", &r.Token
		out.PartialStdout, out.PartialStderr = &r.Stdout, &r.Stderr
		for _, c := range r.Calls {
			out.Calls = append(out.Calls, callBody{c.ID, c.Name, c.Input})
		}
		return out
	}
	out.Status = "completed"
	if r.Result == nil {
		return out.fail(errFailed, r.Stdout, r.Stderr)
	}
	full := reply(r.Result, p.Note.(*prepared).inputs)
	out.Stdout, out.Stderr, out.Files, out.leftovers = &full.Stdout, &full.Stderr, &full.Files, full.leftovers
	switch run := r.Result; {
	case run.Status == engine.StatusOK:
		return out
	case run.Status == engine.StatusOOM:
		return out.fail(errMemory, full.Stdout, full.Stderr)
	case run.ExitCode != nil && (run.Status == engine.StatusError || run.Status == engine.StatusKilled):
		return out.fail(fmt.Sprintf(errExit, *run.ExitCode), full.Stdout, full.Stderr)
	}
	return out.fail(errFailed, full.Stdout, full.Stderr)
}

func (r *roundReply) fail(reason, stdout, stderr string) *roundReply {
	r.Status, r.Error, r.Stdout, r.Stderr = "error", &reason, &stdout, &stderr
	if r.Files == nil {
		r.Files = &[]fileBody{}
	}
	return r
}

// The drivers run inside the sandbox. Their own comments describe them.
var (
	//go:embed channel.py
	channelDriver string
	//go:embed driver.py
	pythonDriver string
	//go:embed shell.py
	shellDriver string
	//go:embed state.py
	stateDriver string
)

// program is the input of a driver. The client's text is not changed.
type program struct {
	Source string   `json:"source"`
	Tools  []tool   `json:"tools"`
	Args   []string `json:"args"`
}

var importLine = regexp.MustCompile(`(?m)^[ \t]*(?:import|from)[ \t]+\w.*$`)

// driverCode returns the Python program that runs: a driver in one line, and the imports of the
// program as a text without effect. The sandbox selects an interpreter that has these packages
// loaded.
func driverCode(driver, source string) string {
	var b strings.Builder
	b.WriteString("exec(compile(")
	b.WriteString(strconv.QuoteToASCII(channelDriver + "\n" + driver))
	b.WriteString(`, "<tools>", "exec"), {"__name__": "<tools>", "MAIN": globals()})` + "\n\"\"\"\n")
	for _, line := range importLine.FindAllString(source, 200) {
		b.WriteString(strings.NewReplacer(`\`, "", `"`, "", "\r", "").Replace(line) + "\n")
	}
	for _, word := range usual.FindAllString(source, 20) {
		b.WriteString(usualImports[word] + "\n")
	}
	b.WriteString("\"\"\"\n")
	return b.String()
}

// The modules that the driver imports for a program without imports.
var (
	usual        = regexp.MustCompile(`\b(?:pd|np|plt)\.`)
	usualImports = map[string]string{"pd.": "import pandas", "np.": "import numpy", "plt.": "import matplotlib"}
)

// requestHeader names a request, so that another request can cancel it.
const requestHeader = "X-Librechat-Code-Request-Id"

const maxRequestID = 128

// enter registers a request until it is answered. The returned request replaces it; leave is called
// with the program that waits afterwards, or nil.
func (a *api) enter(r *http.Request, caller engine.Caller) (_ *http.Request, leave func(*toolcall.Program), _ error) {
	id := r.Header.Get(requestHeader)
	if len(id) > maxRequestID {
		return nil, nil, bad("%s is too long", requestHeader)
	}
	ctx, leave, err := a.programs.Enter(r.Context(), caller.Owner, id)
	if err != nil {
		return nil, nil, err
	}
	return r.WithContext(ctx), leave, nil
}

func (a *api) cancelProgrammatic(w http.ResponseWriter, r *http.Request) error {
	caller, err := a.caller(r)
	if err != nil {
		return err
	}
	var body struct {
		ID string `json:"request_id"`
	}
	text, err := io.ReadAll(io.LimitReader(r.Body, maxStranger))
	if err != nil || json.Unmarshal(text, &body) != nil || body.ID == "" || len(body.ID) > maxRequestID {
		return bad("request_id is invalid")
	}
	stopped, err := a.programs.Cancel(body.ID, caller.Owner)
	if err != nil {
		return err
	}
	type reply struct {
		Status string `json:"status"`
	}
	if stopped {
		writeJSON(w, http.StatusAccepted, reply{"cancellation_requested"})
		return nil
	}
	writeJSON(w, http.StatusOK, reply{"already_completed"})
	return nil
}
