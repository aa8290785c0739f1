// Package mcp serves the Model Context Protocol: an agent runs code in live sessions, with files,
// through a few tools.
// It is an edge. A tool (tool.go has their descriptions and arguments, tools.go the table) decodes
// its arguments, calls the engine or a live interpreter, and describes the result in a few lines of
// text (result.go). The official SDK implements the protocol. This package adds what hosts need
// beside it: both generations of the protocol at one address and the owners of sessions (http.go),
// the oldest transport and keep-alives (sse.go), tasks (tasks.go). Over standard input and output
// messages are relayed to a service (stdio.go, relay.go).
// State never belongs to a connection: hosts reconnect for every turn, or share one connection
// between agents. It belongs to a handle, the argument session.
package mcp

import (
	"cmp"
	"context"
	"iter"
	"log/slog"
	"net/http"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

// Options set up a Server. Engine and Live are required, or there are only the tools for
// Changes.
type Options struct {
	Engine *engine.Service
	Live   live.Sessions

	// Caller returns the caller of a request over HTTP. The server has authenticated it.
	Caller func(*http.Request) engine.Caller
	Local  engine.Caller // the caller without HTTP
	// Self returns the epoch of this node, for session ids; nil: there is only one node.
	Self func() engine.Epoch
	HTTP bool // serves HTTP: files can be sent to an address

	Upstream  Upstream     // tools of other servers; nil: there are none
	Changes   Changes      // folders of a person; nil: their tools are missing
	Images    int          // maximum number of pictures in an answer
	PublicURL string       // of the service, for addresses of files; empty: no addresses
	Bodies    *wire.Bodies // counts the memory of large requests; nil: by itself
	Version   string
	Log       *slog.Logger // nil: nothing is logged
	Languages func(context.Context) []string
}

// Server has the tools, resources and prompts.
type Server struct {
	Options
	sdk     *sdk.Server
	tools   []tool
	servers []*sdk.Server
	open    openSessions
	uploads tickets[upload]

	questions tickets[string] // pending questions to people, about a plan or a run
	dialogs   dialogs

	decoding sync.Mutex // one picture at a time takes memory
	listed   sync.Once  // lists the tools once the languages are known
}

// New returns a server.
func New(o Options) *Server {
	o.Bodies = cmp.Or(o.Bodies, &wire.Bodies{})
	o.Log = cmp.Or(o.Log, slog.New(slog.DiscardHandler))
	if o.Languages == nil {
		o.Languages = installed()
	}
	s := &Server{Options: o}
	s.sdk = s.newSDK("airlock", readText("instructions"))
	s.tools = s.table()
	for _, t := range s.tools {
		s.sdk.AddTool(t.definition(), s.handler(&t))
	}
	s.addResources()
	s.addTasks()
	s.sdk.AddReceivingMiddleware(s.listTools)
	return s
}

// Run serves one connection, such as standard input and output, until it ends.
func (s *Server) Run(ctx context.Context, t sdk.Transport) error { return s.sdk.Run(ctx, t) }

func (s *Server) newSDK(name, instructions string) *sdk.Server {
	capabilities := &sdk.ServerCapabilities{ // lists do not change, so hosts need no stream for updates
		Tools: &sdk.ToolCapabilities{}, Prompts: &sdk.PromptCapabilities{}, Resources: &sdk.ResourceCapabilities{},
	}
	capabilities.AddExtension(appsExtension, nil)
	capabilities.AddExtension(tasksExtension, nil)
	server := sdk.NewServer(&sdk.Implementation{Name: name, Title: "Airlock", Version: s.Version}, &sdk.ServerOptions{
		GetSessionID: s.newSessionID,
		Instructions: instructions,
		Capabilities: capabilities,
		SetCacheable: func(_ context.Context, r sdk.Request, c *sdk.Cacheable) {
			read, isRead := r.(*sdk.ReadResourceRequest)
			_, isList := r.(*sdk.ListResourcesRequest)
			switch {
			case isList, isRead && read.Params.URI != viewURI:
				c.CacheScope, c.TTLMs = "private", 0
			default:
				c.CacheScope, c.TTLMs = "public", int((5 * time.Minute).Milliseconds())
			}
		},
	})
	server.AddReceivingMiddleware(s.clamp, s.track, s.recovered)
	s.servers = append(s.servers, server)
	return server
}

// sessions returns the sessions of the protocol that are not closed.
func (s *Server) sessions() iter.Seq[*sdk.ServerSession] {
	return func(yield func(*sdk.ServerSession) bool) {
		for _, server := range s.servers {
			for session := range server.Sessions() {
				if !yield(session) {
					return
				}
			}
		}
	}
}

// recovered turns a panic into an error. The SDK calls handlers on its own goroutines,
// where a panic would crash the service.
func (s *Server) recovered(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (result sdk.Result, err error) {
		defer func() {
			if p := recover(); p != nil {
				s.Log.ErrorContext(ctx, "mcp: panic", "method", method, "panic", p, "stack", string(debug.Stack()))
				result, err = nil, &jsonrpc.Error{Code: jsonrpc.CodeInternalError, Message: "internal error"}
			}
		}()
		return next(ctx, method, r)
	}
}

// clamp answers an initialize that names a version without sessions, or an unknown one, with the
// newest version that has sessions. The SDK would otherwise treat the client as one of that
// version.
func (s *Server) clamp(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if p, ok := r.GetParams().(*sdk.InitializeParams); ok && p != nil &&
			(p.ProtocolVersion >= stateless || !slices.Contains(sdk.SupportedProtocolVersions(), p.ProtocolVersion)) {
			p.ProtocolVersion = lastSession
		}
		return next(ctx, method, r)
	}
}

// track records sessions and their calls, so that closing a session ends its calls instead of
// waiting for them.
func (s *Server) track(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		session, ok := r.GetSession().(*sdk.ServerSession)
		switch {
		case !ok:
		case method == "initialize":
			oldest, ok := s.open.add(session, s.callerOf(ctx, r).Owner, s.sessions())
			if !ok {
				return nil, &jsonrpc.Error{Code: codeBusy, Message: manySessions}
			}
			if oldest != nil {
				_ = oldest.Close() // its host abandoned it
			}
		case method == "tools/call":
			within, done := s.open.call(ctx, session)
			defer done()
			ctx = within
		}
		return next(ctx, method, r)
	}
}

// listTools puts the installed languages into the definition of run_code on the first
// request. Finding them takes longer than a client should wait for its connection. The definition
// has the caller's images. If programs of the caller may contact others, it tells the host, which
// then asks the person.
func (s *Server) listTools(next sdk.MethodHandler) sdk.MethodHandler {
	return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
		if method == "tools/list" {
			s.listed.Do(func() { s.nameLanguages(ctx) })
		}
		result, err := next(ctx, method, r)
		list, ok := result.(*sdk.ListToolsResult)
		if !ok {
			return result, err
		}
		caller := s.callerOf(ctx, r)
		images := s.imageNames(caller)
		if len(images) > 0 || caller.Network != "" {
			list.CacheScope = "private"
		}
		for i, t := range list.Tools {
			if t.Name != "run_code" {
				continue
			}
			shown := withImages(t, images)
			if caller.Network != "" {
				hints := *t.Annotations
				shown.Annotations, hints.OpenWorldHint = &hints, new(true)
			}
			list.Tools[i] = shown
		}
		return result, err
	}
}

// imageNames returns what the argument image can be for a caller; nil: it has no images.
func (s *Server) imageNames(caller engine.Caller) (names []string) {
	if s.Engine == nil {
		return nil
	}
	images, err := s.Engine.ImagesOf(caller)
	if err != nil {
		s.Log.Error("mcp: images", "err", err)
	}
	for i := range images {
		names = append(names, images[i].Name)
	}
	if len(names) > 0 && caller.MayHaveHost() {
		names = append(names, engine.HostImage)
	}
	return names
}

// nameLanguages lists the installed languages in the definition of run_code. A call may name one by its alias, too.
func (s *Server) nameLanguages(ctx context.Context) {
	for _, t := range s.tools {
		if t.name == "run_code" {
			listed := t
			listed.args = slices.Clone(t.args)
			i := slices.IndexFunc(listed.args, func(a argument) bool { return a.name == "language" })
			listed.args[i].enum = s.Languages(ctx)
			s.sdk.AddTool(listed.definition(), s.handler(&t))
		}
	}
}

// installed returns the languages of this host, Python first.
func installed() func(context.Context) []string {
	versions := &language.Versions{}
	return func(ctx context.Context) (names []string) {
		found := versions.Get(ctx)
		for _, l := range language.All() {
			if found[l.Name] != "" {
				names = append(names, l.Name)
			}
		}
		return names
	}
}

// handler returns the SDK's handler of a tool. An invalid request is a result too, for the model to
// read; only the protocol's own errors are errors.
func (s *Server) handler(t *tool) sdk.ToolHandler {
	return func(ctx context.Context, r *sdk.CallToolRequest) (*sdk.CallToolResult, error) {
		values, err := t.read(r.Params.Arguments)
		if err != nil {
			return refusal(err.Error()), nil
		}
		c := s.callOf(ctx, r)
		c.request, c.values = r, values
		result, err := t.call(s, ctx, c)
		if err != nil {
			return refusal(s.words(ctx, err)), nil
		}
		return result, nil
	}
}

// callOf returns a call with the properties of its request.
func (s *Server) callOf(ctx context.Context, r sdk.Request) *call {
	c := &call{caller: s.callerOf(ctx, r), images: s.shown(r.GetExtra()), links: linked(r.GetExtra()),
		version: stateless}
	if session, ok := r.GetSession().(*sdk.ServerSession); ok && session.InitializeParams() != nil {
		c.version = session.InitializeParams().ProtocolVersion
	}
	return c
}

// words returns the text of an error for a model.
func (s *Server) words(ctx context.Context, err error) string {
	if text, ok := errorOf(err); ok {
		return text
	}
	s.Log.ErrorContext(ctx, "mcp", "error", err)
	return "the service failed. Try again; its log says why"
}

// maxRefusal is below the length at which hosts truncate texts.
const maxRefusal = 1000

func refusal(text string) *sdk.CallToolResult {
	if len(text) > maxRefusal {
		text = strings.ToValidUTF8(text[:maxRefusal-3], "") + "..."
	}
	return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}

func answer(text string) *sdk.CallToolResult {
	return &sdk.CallToolResult{Content: []sdk.Content{&sdk.TextContent{Text: text}}}
}
