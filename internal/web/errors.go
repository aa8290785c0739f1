package web

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"strings"
	"syscall"

	"github.com/airlock-run/airlock/assignment"
	"github.com/airlock-run/airlock/internal/changes"
	"github.com/airlock-run/airlock/internal/conversation"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/workspace"
)

// refusal is an error of the page itself.
type refusal struct {
	status  int
	message string // what happened
	cure    string // what the visitor can do
}

func (e *refusal) Error() string { return e.message }

func refuse(status int, message, cure string) error {
	return &refusal{status: status, message: message, cure: cure}
}

var errToken = refuse(http.StatusForbidden, "This page is from before the service started, or from another sign-in.",
	"Load the page again and repeat what you did.")

// problem is an error as visitors see it.
type problem struct {
	Status    int    `json:"-"`
	Message   string `json:"message"`
	Cure      string `json:"hint,omitempty"`
	RequestID string `json:"request_id,omitempty"`
}

// statuses maps the kinds of engine errors to statuses.
var statuses = wire.Statuses(map[engine.Kind]int{
	engine.ErrNoLanguage: http.StatusBadRequest, engine.ErrInternal: http.StatusInternalServerError,
})

// problems maps them to words.
var problems = map[engine.Kind]problem{
	engine.ErrInvalid: {Message: "This request is not acceptable."},
	engine.ErrUnauthorized: {Message: "You are not signed in.",
		Cure: "Sign in with a key; `airlock keys create` makes one."},
	engine.ErrForbidden: {Message: "Your key may not do this.", Cure: "Ask for a key with admin rights."},
	engine.ErrNetwork:   {Message: "This network is not allowed."},
	engine.ErrNotFound: {Message: "There is nothing here.",
		Cure: "It was deleted, it has expired, or it belongs to somebody else."},
	engine.ErrConflict: {Message: "This has changed in the meantime.", Cure: "Load the page again."},
	engine.ErrTooLarge: {Message: "This is over a size limit."},
	engine.ErrBusy:     {Message: "Too many runs are waiting.", Cure: "Try again in a moment."},
	engine.ErrFull:     {Message: "There is no room left."},
	engine.ErrNoLanguage: {Message: "This language is not installed on this host.",
		Cure: "Install it with `airlock setup --languages`."},
	engine.ErrUnavailable: {Message: "The service cannot do this at the moment.",
		Cure: "Try again; if it stays so, `airlock doctor` says what is wrong."},
	engine.ErrCanceled: {Message: "This was cancelled."},
	engine.ErrInternal: {Message: "Something went wrong in the service.",
		Cure: "Its log says more, under the number below."},
}

func describe(err error) problem {
	if e, ok := errors.AsType[*refusal](err); ok {
		return problem{Status: e.status, Message: e.message, Cure: e.cure}
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return problem{Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("This is more than the %s that fit in one request.", byteCount(e.Limit))}
	}
	kind := engine.KindOf(err)
	if statuses[kind] == 0 {
		kind = engine.ErrInternal
	}
	p := problems[kind]
	p.Status = statuses[kind]
	e, ok := errors.AsType[*engine.Error](err)
	if !ok {
		return p
	}
	if e.Kind == engine.ErrNetwork && e.Err != nil {
		p.Message = "The network: " + e.Err.Error() + "."
	}
	if e.Kind == engine.ErrInvalid && e.ID != "" && e.Err != nil {
		p.Message = fieldWords(e.ID) + " " + e.Err.Error() + "."
	}
	if e.Hint != "" && e.Kind != engine.ErrInternal {
		p.Cure = e.Hint
	}
	return p
}

// fieldWords returns a field of the engine in words.
func fieldWords(field string) string {
	words := map[string]string{
		"code": "The code", "language": "The language", "limits.timeout": "The time limit", "name": "The file's name",
		"args": "The arguments", "stdin": "The standard input",
	}
	return cmp.Or(words[field], field)
}

// fail answers with an error: a page for people, JSON for scripts.
func (s *Site) fail(w http.ResponseWriter, v *webRequest, err error) {
	p := describe(err)
	p.Status = wire.Failed(w, v.Request, s.Log, p.Status, err, nil)
	if p.Status >= http.StatusInternalServerError {
		p.RequestID = w.Header().Get("X-Request-Id")
	}
	if seconds := engine.RetrySeconds(err, 0); seconds != "" {
		w.Header().Set("Retry-After", seconds)
	}
	s.sendProblem(w, v, p)
}

func (s *Site) sendProblem(w http.ResponseWriter, v *webRequest, p problem) {
	if v.script() {
		writeJSON(w, p.Status, map[string]problem{"error": p})
		return
	}
	s.render(w, v, p.Status, "error", "Not possible", p)
}

// Refuse answers a request that the front door refuses.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, status int, _, message string) {
	secure(w.Header())
	v := &webRequest{Request: r, cookie: cookieOf(r)}
	v.caller, _ = s.Caller(r)
	s.sendProblem(w, v, problem{Status: status, Message: "The service turned this request away: " + message + ".",
		RequestID: w.Header().Get("X-Request-Id")})
}

// at redirects the visitor to a path of the site. A script gets the answer instead.
func (s *Site) at(w http.ResponseWriter, v *webRequest, path string, status int, answer any) error {
	if v.wants("application/json") {
		writeJSON(w, status, answer)
		return nil
	}
	return s.to(w, v, path)
}

// to redirects the visitor to a path of the site.
func (s *Site) to(w http.ResponseWriter, v *webRequest, path string) error {
	http.Redirect(w, v.Request, s.address(path), http.StatusSeeOther)
	return nil
}

func writeJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json", append(wire.Encode(body), '\n'))
}

// askProblem returns an error of conversations, providers and folders in words.
func askProblem(err error) error {
	if err == nil {
		return nil
	}
	known := firstKnown(err, []knownProblem{
		{conversation.ErrNotFound, http.StatusNotFound, "There is no such conversation, or nothing of it is left.",
			"It was deleted, it has expired, or it belongs to somebody else."},
		{conversation.ErrTurn, http.StatusConflict, "A turn is going on in this conversation.",
			"Wait for its end, or stop it."},
		{conversation.ErrMany, http.StatusTooManyRequests, "As many conversations as you may have at once have a turn " +
			"that goes on.", "Wait for the end of one, or stop it."},
		{conversation.ErrAnswered, http.StatusConflict, "This question was answered before, or its turn has ended.",
			"Load the page again to see what became of it."},
		{workspace.ErrStale, http.StatusConflict, "The file is not the one that you were shown, so nothing was saved.",
			"Load the page again."},
		{workspace.ErrConflict, http.StatusConflict, "The folder has changed in the meantime, so nothing was saved.",
			"Try again."},
		{workspace.ErrBusy, http.StatusServiceUnavailable, "Somebody else is writing into this folder at the moment.",
			"Try again."},
		{syscall.ENOSPC, http.StatusInsufficientStorage, "The disk is full, so nothing was kept.",
			"Delete conversations or files that are no longer needed, or make room, and try again."},
		{fs.ErrPermission, http.StatusConflict, "The service may not write to the folder.",
			"Give the user that it runs as access to it, or download the file."},
		{conversation.ErrInvalid, http.StatusBadRequest, "", ""},
	})
	if e, ok := errors.AsType[*provider.Error](known); ok {
		status := http.StatusBadGateway
		if e.Kind == provider.Invalid || e.Kind == provider.Auth {
			status = http.StatusBadRequest
		}
		return refuse(status, sentence(e.Error()), provider.HintOf(err))
	}
	return known
}

// worded puts the errors of a handler about folders and projects into words.
func (p *reviewPage) worded(serve handler) handler {
	return func(w http.ResponseWriter, v *webRequest) error {
		if err := p.onMachine(); err != nil {
			return err
		}
		return workProblem(serve(w, v))
	}
}

// workProblem returns an error of folders and projects in words. It returns other errors as
// they are.
func workProblem(err error) error {
	if err == nil {
		return nil
	}
	if answered, late := errors.AsType[*assignment.AnsweredError](err); late {
		return refuse(http.StatusConflict, "Somebody was first: "+prose(answered.Error())+".",
			"Go back and load the page again.")
	}
	if state, wrong := errors.AsType[*assignment.StateError](err); wrong {
		return refuse(http.StatusConflict, prose(state.Error())+".", "Go back and load the page again.")
	}
	none := problems[engine.ErrNotFound]
	return firstKnown(err, []knownProblem{
		{workspace.ErrStale, http.StatusConflict, "The proposal has changed since you looked at it, so nothing was done.",
			"Go back and load the page again."},
		{workspace.ErrConflict, http.StatusConflict,
			"Files in the folder have changed since the proposal was made, so nothing was changed.",
			"Go back, load the page again, and look at the merged proposal."},
		{workspace.ErrNothing, http.StatusConflict, "There is nothing to revert.",
			"It was reverted already, or it changed no files."},
		{workspace.ErrBusy, http.StatusServiceUnavailable, "Somebody else is writing into this folder at the moment.",
			"Try again."},
		{changes.ErrDone, http.StatusConflict, "This was settled before, so nothing was done now.",
			"Load its page again to see what became of it."},
		{changes.ErrOutside, http.StatusForbidden, "This folder is none of those that this service was given.",
			"Start it with `airlock serve --workspace DIR`; folders below DIR can then be linked."},
		{workspace.ErrNotFound, http.StatusNotFound, none.Message, none.Cure},
		{conversation.ErrNotFound, http.StatusNotFound, none.Message, none.Cure},
		{assignment.ErrNotFound, http.StatusNotFound, none.Message, none.Cure},
		{fs.ErrPermission, http.StatusConflict, "The service may not write to the folder, or not read all of it.",
			"Give the user that it runs as access to the folder, or take the files as an archive."},
		{syscall.EROFS, http.StatusConflict, "The folder cannot be written to.", "Take the files as an archive."},
		{syscall.ENOSPC, http.StatusInsufficientStorage, "The disk is full, so nothing was changed.",
			"Make room and try again."},
		{fs.ErrNotExist, http.StatusConflict, "The folder is not there any more.",
			"Put it back, or link the project with another one."},
		{conversation.ErrInvalid, http.StatusBadRequest, "", ""},
		{workspace.ErrNeedsDecision, http.StatusConflict, "", ""},
		{workspace.ErrRefused, http.StatusForbidden, "", ""},
		{changes.ErrClosed, http.StatusConflict, "", ""},
	})
}

// knownProblem is an error with its words; no message: the error's own.
type knownProblem struct {
	is            error
	status        int
	message, cure string
}

// firstKnown returns the words of the first row that matches an error, else the error.
func firstKnown(err error, list []knownProblem) error {
	for _, known := range list {
		if errors.Is(err, known.is) {
			return refuse(known.status, cmp.Or(known.message, sentence(prose(err.Error()))), known.cure)
		}
	}
	return err
}

// sentence makes a sentence of an error.
func sentence(text string) string {
	if text == "" {
		return ""
	}
	if c := text[0]; 'a' <= c && c <= 'z' {
		text = string(c-'a'+'A') + text[1:]
	}
	return strings.TrimSuffix(text, ".") + "."
}
