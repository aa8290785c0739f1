package dify

import (
	"encoding/json"
	"errors"
	"fmt"
	"mime"
	"net/http"
	"net/url"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
)

// The languages of Dify.
const (
	python = "python3"
	nodejs = "nodejs"
)

// program is the body of a run. Its other fields are ignored. The original no longer runs
// preload either, since it allowed an escape from its sandbox. EnableNetwork is always
// true: the program then has the network of the caller's key, if any.
type program struct {
	Language string `json:"language"`
	Code     string `json:"code"`

	EnableNetwork *bool `json:"enable_network"`
}

// result is how a program ended. If Error is not empty, a client fails with its text.
// Otherwise it reads only Stdout.
type result struct {
	Stdout   string `json:"stdout"`
	Stderr   string `json:"stderr"`
	Error    string `json:"error"`
	ExitCode int    `json:"exit_code"`
}

func (a *api) read(w http.ResponseWriter, r *http.Request) (program, error) {
	text, err := a.Bodies.ReadRequest(w, r, a.Caller(r).Owner, maxBody)
	if err != nil {
		return program{}, err
	}
	var p program
	if kind, _, _ := mime.ParseMediaType(r.Header.Get("Content-Type")); kind == "application/x-www-form-urlencoded" {
		form, err := url.ParseQuery(string(text))
		if err != nil {
			return program{}, bad("the form cannot be read: " + err.Error())
		}
		p = program{Language: form.Get("language"), Code: form.Get("code")}
	} else if err := json.Unmarshal(text, &p); err != nil {
		return program{}, bad("the body is not the JSON that is wanted: " + err.Error())
	}
	for name, value := range map[string]string{"language": p.Language, "code": p.Code} {
		if value == "" {
			return program{}, bad(name + " is required")
		}
	}
	return p, nil
}

func (a *api) run(w http.ResponseWriter, r *http.Request) (any, error) {
	p, err := a.read(w, r)
	if err != nil {
		return nil, err
	}
	return a.execute(r, p)
}

func (a *api) execute(r *http.Request, p program) (*result, error) {
	req := engine.RunRequest{Language: "js", Code: p.Code}
	if p.EnableNetwork != nil && !*p.EnableNetwork {
		req.Network = &engine.Network{}
	}
	req.Profile = engine.Profile{
		Origin: engine.OriginDify, Files: engine.FileRules{Discard: true}, Output: engine.OutputForm{Whole: true},
		Limits: engine.Limits{Timeout: a.Timeout, Output: engine.OutputLimit{Bytes: a.Output, HeadOnly: true}},
	}
	switch p.Language {
	case python:
		req.Language, req.Profile.Program.Globals = "python", accidental(p.Code)
	case nodejs:
	default:
		return nil, errLanguage
	}
	req.Profile.Program.Shown = engine.Shown{Language: req.Language, Code: p.Code}
	run, err := a.engine.Run(r.Context(), a.Caller(r), req)
	if err != nil {
		return nil, err
	}
	return a.resultOf(run)
}

// accidental returns the modules that the original's driver leaves in a program's globals.
// Programs that use them without an import work there.
func accidental(source string) (modules []string) {
	for _, name := range []string{"ctypes", "os", "sys", "traceback"} {
		if strings.Contains(source, name) {
			modules = append(modules, name)
		}
	}
	return modules
}

// ours removes the path of the workspace from tracebacks.
var ours = strings.NewReplacer(`  File "/workspace/main.py", line `, `  File "main.py", line `)

// resultOf returns how a run ended. A program without its own exit code gets that of the original.
func (a *api) resultOf(run *engine.Run) (*result, error) {
	res := &result{Stdout: run.Stdout, Stderr: ours.Replace(run.Stderr), ExitCode: -1}
	if run.ExitCode != nil {
		res.ExitCode = *run.ExitCode
	}
	message := run.Message
	switch run.Status {
	case engine.StatusOOM:
		res.ExitCode = 128 + 9
	case engine.StatusOK:
		// A truncated answer is an error: the client would take it for broken JSON.
		if run.Truncated && len(run.Stdout) > a.Output-4 {
			res.Error = fmt.Sprintf("output over %d bytes", a.Output)
		}
		return res, nil
	case engine.StatusTimeout:
		message = fmt.Sprintf("error: timeout\n%s The operator of the sandbox sets the limit: AIRLOCK_DIFY_TIMEOUT.",
			run.Message)
	case engine.StatusInterrupted, engine.StatusCancelled:
		return nil, &engine.Error{Op: "run", Kind: engine.ErrUnavailable, Err: errors.New(run.Message)}
	}
	if message != "" {
		message += "\n"
	}
	res.Error = fmt.Sprintf("process exited with code %d\n%s%s", res.ExitCode, message, res.Stderr)
	return res, nil
}

// listing prints the packages of the interpreter as the API has them.
const listing = `import importlib.metadata, json
found = {d.name: d.version for d in importlib.metadata.distributions()}
print(json.dumps([{"name": n, "version": found[n]} for n in sorted(found)]))`

// dependencies lists the packages that a Python program can import. They are those of the sandbox,
// so there is nothing to refresh.
func (a *api) dependencies(_ http.ResponseWriter, r *http.Request) (any, error) {
	if r.URL.Query().Get("language") != python {
		return nil, errLanguage
	}
	res, err := a.execute(r, program{Language: python, Code: listing})
	if err != nil {
		return nil, err
	}
	if res.Error != "" {
		return nil, errors.New(res.Error)
	}
	return map[string]json.RawMessage{"dependencies": json.RawMessage(res.Stdout)}, nil
}

// update does nothing: packages come with "airlock setup".
func (a *api) update(w http.ResponseWriter, r *http.Request) (any, error) {
	text, err := a.Bodies.ReadRequest(w, r, a.Caller(r).Owner, maxBody)
	if err != nil {
		return nil, err
	}
	var asked program
	if err := json.Unmarshal(text, &asked); err != nil || asked.Language != python {
		return nil, errLanguage
	}
	return struct{}{}, nil
}
