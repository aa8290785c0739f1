package page

import (
	"cmp"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/wire"
)

// refusal is an error of the page itself.
type refusal struct {
	status  int
	message string // what happened
	cure    string // what the visitor can do
}

func (e *refusal) Error() string { return e.message }

// Refuse returns an error of the page itself: the status of the answer, what happened, and what the
// visitor can do.
func Refuse(status int, message, cure string) error {
	return &refusal{status: status, message: message, cure: cure}
}

// Forbidden returns the error of a visitor whose key does not permit a page.
func Forbidden(cure string) error {
	return &engine.Error{Op: "page", Kind: engine.ErrForbidden, Hint: cure}
}

// ErrToken refuses a form that is not of the visitor's own pages.
var ErrToken = Refuse(http.StatusForbidden, "This page is from before the service started, or from another sign-in.",
	"Load the page again and repeat what you did.")

// Problem is an error as visitors see it.
type Problem struct {
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
var problems = map[engine.Kind]Problem{
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
	engine.ErrSpent:    {Message: "What may be used in a month is used up."},
	engine.ErrNoLanguage: {Message: "This language is not installed on this host.",
		Cure: "Install it with `airlock setup --languages`."},
	engine.ErrUnavailable: {Message: "The service cannot do this at the moment.",
		Cure: "Try again; if it stays so, `airlock doctor` says what is wrong."},
	engine.ErrCanceled: {Message: "This was cancelled."},
	engine.ErrInternal: {Message: "Something went wrong in the service.",
		Cure: "Its log says more, under the number below."},
}

// Describe returns an error in words.
func Describe(err error) Problem {
	if e, ok := errors.AsType[*refusal](err); ok {
		return Problem{Status: e.status, Message: e.message, Cure: e.cure}
	}
	if e, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return Problem{Status: http.StatusRequestEntityTooLarge,
			Message: fmt.Sprintf("This is more than the %s that fit in one request.", ByteCount(e.Limit))}
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

// Fail answers with an error: a page for people, JSON for scripts.
func (s *Site) Fail(w http.ResponseWriter, v *Request, err error) {
	p := Describe(err)
	p.Status = wire.Failed(w, v.Request, s.Log, p.Status, err, nil)
	if p.Status >= http.StatusInternalServerError {
		p.RequestID = w.Header().Get("X-Request-Id")
	}
	if seconds := engine.RetrySeconds(err, 0); seconds != "" {
		w.Header().Set("Retry-After", seconds)
	}
	s.sendProblem(w, v, p)
}

func (s *Site) sendProblem(w http.ResponseWriter, v *Request, p Problem) {
	if v.script() {
		WriteJSON(w, p.Status, map[string]Problem{"error": p})
		return
	}
	s.Render(w, v, p.Status, "error", "Not possible", p)
}

// Refuse answers a request that the front door refuses.
func (s *Site) Refuse(w http.ResponseWriter, r *http.Request, status int, _, message string) {
	secure(w.Header())
	v := &Request{Request: r, cookie: cookieOf(r)}
	v.Caller, _ = s.Caller(r)
	s.sendProblem(w, v, Problem{Status: status, Message: "The service refused this request: " + message + ".",
		RequestID: w.Header().Get("X-Request-Id")})
}

// Done redirects the visitor to a path of the site. A script gets the answer instead.
func (s *Site) Done(w http.ResponseWriter, v *Request, path string, status int, answer any) error {
	if v.Wants("application/json") {
		WriteJSON(w, status, answer)
		return nil
	}
	return s.Redirect(w, v, path)
}

// Redirect redirects the visitor to a path of the site.
func (s *Site) Redirect(w http.ResponseWriter, v *Request, path string) error {
	http.Redirect(w, v.Request, s.URL(path), http.StatusSeeOther)
	return nil
}

// WriteJSON answers a script.
func WriteJSON(w http.ResponseWriter, status int, body any) {
	wire.Write(w, status, "application/json", append(wire.Encode(body), '\n'))
}

// Words are those of one kind of error.
type Words struct {
	is            error
	status        int
	message, cure string
}

// Case returns the words of the errors that match is: the status of the answer, what happened
// (empty: the error's own words) and what the visitor can do.
func Case(is error, status int, message, cure string) Words {
	return Words{is, status, message, cure}
}

// InWords returns an error in the first words that match it, else the error.
func InWords(err error, known ...Words) error {
	for _, k := range known {
		if errors.Is(err, k.is) {
			return Refuse(k.status, cmp.Or(k.message, Sentence(Prose(err.Error()))), k.cure)
		}
	}
	return err
}

// Sentence makes a sentence of an error.
func Sentence(text string) string {
	if text == "" {
		return ""
	}
	if c := text[0]; 'a' <= c && c <= 'z' {
		text = string(c-'a'+'A') + text[1:]
	}
	return strings.TrimSuffix(text, ".") + "."
}
