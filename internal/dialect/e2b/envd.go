package e2b

import (
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"
	"time"

	"connectrpc.com/connect"

	"github.com/airlock-run/airlock/internal/dialect/e2b/envd"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
)

// The daemon envd, port 49983: files over HTTP, processes and the file system over Connect RPC.

func (h *Handler) envdRoutes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /files", h.download)
	mux.HandleFunc("POST /files", h.upload)
	mux.HandleFunc("POST /init", func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) })
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, http.StatusNotFound, "envd has no "+r.Method+" "+r.URL.Path)
	})
	const processes, filesystem = "/process.Process/", "/filesystem.Filesystem/"
	stream(h, mux, processes+"Start", h.startProcess)
	stream(h, mux, processes+"Connect", h.connectProcess)
	unary(h, mux, processes+"List", h.listProcesses)
	unary(h, mux, processes+"SendInput", h.sendInput)
	unary(h, mux, processes+"CloseStdin", h.closeStdin)
	unary(h, mux, processes+"SendSignal", h.sendSignal)
	unary(h, mux, processes+"Update", h.updateProcess)
	mux.Handle("POST "+processes+"StreamInput", connect.NewClientStreamHandler(processes+"StreamInput",
		func(ctx context.Context, in *connect.ClientStream[envd.StreamInput]) (*connect.Response[envd.Empty], error) {
			if err := checkUser(in.RequestHeader()); err != nil {
				return nil, err
			}
			return connect.NewResponse(&envd.Empty{}), h.rpcError(h.streamInput(ctx, in))
		}, rpcOptions()...))
	unary(h, mux, filesystem+"Stat", h.stat)
	unary(h, mux, filesystem+"MakeDir", h.makeDir)
	unary(h, mux, filesystem+"Move", h.move)
	unary(h, mux, filesystem+"ListDir", h.listDir)
	unary(h, mux, filesystem+"Remove", h.removeEntry)
	stream(h, mux, filesystem+"WatchDir", h.watchDir)
	unary(h, mux, filesystem+"CreateWatcher", h.createWatcher)
	unary(h, mux, filesystem+"GetWatcherEvents", h.watcherEvents)
	unary(h, mux, filesystem+"RemoveWatcher", h.removeWatcher)
	return mux
}

// rpcOptions are the options of every procedure. Answers are not compressed: some SDKs do not
// support it.
func rpcOptions() []connect.HandlerOption {
	return []connect.HandlerOption{
		connect.WithReadMaxBytes(maxJSON), connect.WithCompression("gzip", nil, nil),
		connect.WithCodec(compactJSON{"json"}), connect.WithCodec(compactJSON{"json; charset=utf-8"}),
	}
}

// call is an authorized request to a sandbox.
type call struct {
	*sandbox
	header http.Header
}

// unary registers a procedure with one answer.
func unary[Q, A any](h *Handler, mux *http.ServeMux, procedure string, do func(context.Context, call, *Q) (*A, error)) {
	handle := func(ctx context.Context, q *connect.Request[Q]) (*connect.Response[A], error) {
		if err := checkUser(q.Header()); err != nil {
			return nil, err
		}
		answer, err := do(ctx, call{sandboxOf(ctx), q.Header()}, q.Msg)
		if err != nil {
			return nil, h.rpcError(err)
		}
		return connect.NewResponse(answer), nil
	}
	mux.Handle("POST "+procedure, connect.NewUnaryHandler(procedure, handle, rpcOptions()...))
}

// stream serves a procedure with many answers.
func stream[Q, A any](
	h *Handler, mux *http.ServeMux, procedure string, do func(context.Context, call, *Q, func(*A) error) error,
) {
	handle := func(ctx context.Context, q *connect.Request[Q], out *connect.ServerStream[A]) error {
		if err := checkUser(q.Header()); err != nil {
			return err
		}
		return h.rpcError(do(ctx, call{sandboxOf(ctx), q.Header()}, q.Msg, out.Send))
	}
	mux.Handle("POST "+procedure, connect.NewServerStreamHandler(procedure, handle, rpcOptions()...))
}

// The user of a sandbox and its home directory, which model code often spells out.
const (
	user = "user"
	home = "/home/user"
)

func knownUser(name string) bool { return name == "" || name == user }

// checkUser refuses users other than that of the sandbox.
func checkUser(header http.Header) error {
	r := http.Request{Header: header}
	if name, _, ok := r.BasicAuth(); ok && !knownUser(name) {
		return connect.NewError(connect.CodeUnauthenticated,
			errors.New("there is no user "+strconv.Quote(name)+" in this sandbox, only "+user))
	}
	return nil
}

var codes = map[engine.Kind]connect.Code{
	engine.ErrInvalid: connect.CodeInvalidArgument, engine.ErrNotFound: connect.CodeNotFound,
	engine.ErrConflict: connect.CodeFailedPrecondition,
	engine.ErrTooLarge: connect.CodeResourceExhausted, engine.ErrBusy: connect.CodeResourceExhausted,
	engine.ErrFull: connect.CodeResourceExhausted, engine.ErrSpent: connect.CodeResourceExhausted,
	engine.ErrUnavailable: connect.CodeUnavailable, engine.ErrCanceled: connect.CodeCanceled,
	engine.ErrForbidden: connect.CodePermissionDenied, engine.ErrNetwork: connect.CodePermissionDenied,
	engine.ErrNoLanguage: connect.CodeUnimplemented,
}

// rpcError returns the Connect error of an error. Internal ones are logged.
func (h *Handler) rpcError(err error) error {
	if err == nil {
		return nil
	}
	if _, ok := errors.AsType[*connect.Error](err); ok {
		return err
	}
	code, known := codes[engine.KindOf(err)]
	if !known {
		h.Log.Error("e2b", "err", err)
		return connect.NewError(connect.CodeInternal, errors.New("internal error"))
	}
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Err != nil {
		err = atHome(e.Err)
	}
	return connect.NewError(code, err)
}

// atHome returns an error in the words of a person who knows the home directory of a sandbox.
func atHome(err error) error {
	if fixed, ok := errors.AsType[*live.ReadOnlyError](err); ok {
		return errors.New(fixed.Within(home))
	}
	return err
}

// pings returns a ticker for silent streams, with the interval that the client requests.
func pings(header http.Header) *time.Ticker {
	seconds, err := strconv.Atoi(strings.TrimSpace(header.Get("Keepalive-Ping-Interval")))
	if err != nil || seconds < 1 {
		seconds = 50
	}
	return time.NewTicker(time.Duration(min(seconds, 3600)) * time.Second)
}
