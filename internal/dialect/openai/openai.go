// Package openai serves the part of OpenAI's API that runs code, in front of any model
// that speaks chat completions: the Responses API with the tool code_interpreter,
// containers with their files, and files. A container is a live session.
//
// The model gets a function in place of the tool. Its calls run here, their output goes to
// the model, and the model is asked again until it answers. The client gets items, events
// and citations as OpenAI sends them. The wire facts are those of the official SDKs (PyPI
// openai 3.54.0, npm openai) and of recorded exchanges. The README lists the unsupported features.
package openai

import (
	"cmp"
	"context"
	"io"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Engine stores files and lists those of a container. Every error is an *engine.Error;
// objects of another owner are ErrNotFound.
type Engine interface {
	PutFile(ctx context.Context, caller engine.Caller, up engine.Upload, content io.Reader) (engine.File, error)
	GetFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, error)
	OpenFile(ctx context.Context, caller engine.Caller, id engine.ID) (engine.File, engine.Content, error)
	ListFiles(ctx context.Context, caller engine.Caller, query engine.FileQuery) ([]engine.File, error)
	DeleteFile(ctx context.Context, caller engine.Caller, id engine.ID) error

	ListSessions(ctx context.Context, caller engine.Caller, query engine.SessionQuery) ([]engine.Session, error)
	// UseSession also returns the files of a session and their paths. It counts as a use.
	UseSession(ctx context.Context, caller engine.Caller, id engine.ID) (engine.Session, []engine.File,
		[]engine.SessionFile, error)
	SessionFile(ctx context.Context, caller engine.Caller, session, file engine.ID) (engine.Session, engine.File,
		engine.SessionFile, error)

	Limits() (defaults, maxima engine.Limits)
}

// Options configure New. Engine, Live and Caller are required.
type Options struct {
	Engine Engine
	Live   live.Sessions // runs code in containers
	Caller func(*http.Request) engine.Caller

	Upstream string       // address of the model's API, as http://localhost:11434/v1; empty: there is no model
	Key      string       // for Upstream
	HTTP     *http.Client // for Upstream, with an idle timeout

	MaxUpload int64        // bytes of a file; 0: 200 MiB
	Bodies    *wire.Bodies // bounds the memory of large bodies; nil: a new one
	Log       *slog.Logger // for causes that the client must not see; nil: nothing is logged

	Rounds int           // most answers of the model to one request; 0: 32
	Turn   time.Duration // most time of one request; 0: 30 min
}

// maxJSON bounds a JSON body, which may be a conversation with pictures.
const maxJSON = 64 << 20

const (
	defaultMaxUpload = 200 << 20
	defaultRounds    = 32
	defaultTurn      = 30 * time.Minute
	turnsPerOwner    = 16   // requests to a model at once
	mostRecent       = 1024 // remembered cells and containers of an owner: they live hardly longer
)

// api is the handler's state.
type api struct {
	Options

	mu    sync.Mutex
	turns map[engine.Owner]int
	// Cells of code_interpreter_calls, and the last known state of containers, by id.
	ran  wire.Recent[string, engine.ID]
	seen wire.Recent[string, seen]
}

// request is one HTTP request.
type request struct {
	*api
	*http.Request
	w      http.ResponseWriter
	caller engine.Caller
}

// New returns the API as a handler for paths without their prefix.
func New(o Options) http.Handler { return newAPI(o).routes() }

func newAPI(o Options) *api {
	if o.MaxUpload <= 0 {
		o.MaxUpload = defaultMaxUpload
	}
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Rounds <= 0 {
		o.Rounds = defaultRounds
	}
	if o.Turn <= 0 {
		o.Turn = defaultTurn
	}
	return &api{
		Options: o, turns: map[engine.Owner]int{},
		ran:  wire.Recent[string, engine.ID]{Each: mostRecent, Total: 4 * mostRecent},
		seen: wire.Recent[string, seen]{Each: mostRecent, Total: 4 * mostRecent},
	}
}

func (a *api) routes() http.Handler {
	mux := http.NewServeMux()
	for pattern, serve := range map[string]func(*request) (any, error){
		"GET /responses/{id}":                       written((*request).getResponse),
		"DELETE /responses/{id}":                    (*request).deleteResponse,
		"GET /responses/{id}/input_items":           (*request).listInput,
		"POST /responses/{id}/cancel":               (*request).cancelResponse,
		"POST /responses":                           written((*request).createResponse),
		"POST /chat/completions":                    written((*request).createCompletion),
		"GET /models":                               written((*request).models),
		"GET /models/{model...}":                    (*request).model,
		"POST /files":                               (*request).upload,
		"GET /files":                                (*request).listFiles,
		"GET /files/{id}":                           (*request).getFile,
		"DELETE /files/{id}":                        (*request).deleteFile,
		"GET /files/{id}/content":                   written((*request).fileContent),
		"POST /uploads":                             (*request).createUpload,
		"POST /uploads/{id}/parts":                  (*request).addPart,
		"POST /uploads/{id}/complete":               (*request).completeUpload,
		"POST /uploads/{id}/cancel":                 (*request).cancelUpload,
		"POST /containers":                          (*request).createContainer,
		"GET /containers":                           (*request).listContainers,
		"GET /containers/{id}":                      (*request).getContainer,
		"DELETE /containers/{id}":                   (*request).deleteContainer,
		"POST /containers/{id}/files":               (*request).addContainerFile,
		"GET /containers/{id}/files":                (*request).listContainerFiles,
		"GET /containers/{id}/files/{file}":         (*request).getContainerFile,
		"DELETE /containers/{id}/files/{file}":      (*request).deleteContainerFile,
		"GET /containers/{id}/files/{file}/content": written((*request).containerFileContent),
		"/": nowhere,
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			q := &request{a, r, w, a.Caller(r)}
			body, err := serve(q)
			switch {
			case err != nil:
				q.fail(err)
			case body != nil:
				writeJSON(w, http.StatusOK, body)
			}
		})
	}
	return mux
}

// written adapts a handler that writes its own answer.
func written(serve func(*request) error) func(*request) (any, error) {
	return func(q *request) (any, error) { return nil, serve(q) }
}

func nowhere(q *request) (any, error) {
	return nil, &refusal{http.StatusNotFound, problem{
		Message: "Airlock does not have " + q.Method + " " + q.URL.Path +
			". There are responses, chat/completions, models, files, uploads and containers.",
		Type: invalidRequest, Code: "unknown_url",
	}}
}

// reserveSlot takes one of an owner's slots for requests to a model.
func (a *api) reserveSlot(owner engine.Owner) (end func(), err error) {
	owner = owner.Account()
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.turns[owner] >= turnsPerOwner {
		return nil, &engine.Error{
			Op: "ask model", Kind: engine.ErrBusy, RetryAfter: time.Second,
			Hint: "As many requests to the model as you may have at once are under way. Try again when one has ended.",
		}
	}
	a.turns[owner]++
	return func() {
		a.mu.Lock()
		defer a.mu.Unlock()
		if a.turns[owner]--; a.turns[owner] == 0 {
			delete(a.turns, owner)
		}
	}, nil
}
