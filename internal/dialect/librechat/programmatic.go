package librechat

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

const (
	maxSource = 16 << 20
	bash      = "bash"
)

// roundReply answers a request about a program that calls tools. Every key is
// there, whatever the status: some clients ask for each.
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

// Words that the client shows as they are. It puts a general text in the place
// of any other.
const (
	errFailed = "Execution failed or timed out"
	errMemory = "Out of memory"
	errExit   = "Sandbox exited with code %d"
)

func conflict(format string, args ...any) error {
	return refuse(http.StatusConflict, format, args...)
}

func expired() error { return refuse(http.StatusNotFound, "Execution not found or expired") }

func digest(text []byte) string {
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

func (a *api) programmatic(w http.ResponseWriter, r *http.Request) error {
	body, caller, err := a.readBody(w, r)
	if err != nil {
		return err
	}
	if err := a.profile(w, r); err != nil {
		return err
	}
	begin := a.begin
	if body.Token != nil || body.ToolResults != nil {
		begin = a.goOn
	}
	ticket, err := a.requests.enter(r, caller)
	if err != nil {
		return err
	}
	defer ticket.leave()
	e, again, err := begin(ticket.request, caller, body)
	if err != nil {
		return a.peerError(w, ticket.request, a.runError(body, err))
	}
	if again != nil {
		writeJSON(w, http.StatusOK, a.roundReply(e, again))
		return nil
	}
	out := newLongAnswer(w)
	tick := time.NewTicker(pulse)
	defer tick.Stop()
	next, err := e.next(ticket.request.Context(), tick.C, out.beat)
	if err != nil && next != nil && out.begun() { // the status was given away
		_, body := describe(r, err)
		return out.finish((&roundReply{SessionID: next.session.String()}).fail(orElse(body.Message, body.Error), "", ""))
	}
	if err != nil {
		return err
	}
	if !next.ended {
		ticket.waits(e)
	}
	return out.finish(a.roundReply(e, next))
}

// peerError answers as other servers do, if that is asked for: with 200, and
// the error in the body.
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

// begin starts a program.
func (a *api) begin(r *http.Request, caller engine.Caller, body *runBody) (*execution, *round, error) {
	name := strings.ToLower(orElse(body.Lang, body.Language))
	lang, known := a.Language(orElse(name, python))
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
	// Either language is run by a driver in Python.
	p.Profile.SourceInStdin = true
	p.Stdin = encode(program{Source: p.Code, Tools: append([]tool{}, body.Tools...), Args: append([]string{}, p.Args...)})
	if lang.Name == bash {
		p.Code = driverCode(shellDriver, "")
	} else {
		p.Code = driverCode(pythonDriver, p.Code)
	}
	p.Language = python
	e, err := a.executions.start(r.Context(), caller, p, body.Tools)
	return e, nil, err
}

// goOn continues a program with the answers to its calls.
func (a *api) goOn(r *http.Request, caller engine.Caller, body *runBody) (*execution, *round, error) {
	if body.Token == nil {
		return nil, nil, bad("continuation_token is required")
	}
	key, turn, err := parseToken(*body.Token)
	if err != nil {
		return nil, nil, err
	}
	results, err := readResults(body.ToolResults)
	if err != nil {
		return nil, nil, err
	}
	e := a.executions.find(key)
	switch {
	case e == nil:
		return nil, nil, expired()
	case e.caller.Owner != caller.Owner, !(scope{user: body.user(r)}).admits(caller, engine.Session{Scope: e.scope}):
		return nil, nil, errForbidden()
	}
	again, err := e.resume(turn, results)
	return e, again, err
}

// roundReply says what the client is to do next, or how it ended.
func (a *api) roundReply(e *execution, r *round) *roundReply {
	out := &roundReply{SessionID: r.session.String()}
	if !r.ended {
		out.Status, out.Token = "tool_call_required", &r.token
		out.PartialStdout, out.PartialStderr = &r.stdout, &r.stderr
		for _, c := range r.calls {
			out.Calls = append(out.Calls, callBody{c.id, c.name, c.input})
		}
		return out
	}
	out.Status = "completed"
	if r.result == nil {
		return out.fail(errFailed, r.stdout, r.stderr)
	}
	full := reply(r.result, e.inputs)
	out.Stdout, out.Stderr, out.Files, out.leftovers = &full.Stdout, &full.Stderr, &full.Files, full.leftovers
	switch run := r.result; {
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
