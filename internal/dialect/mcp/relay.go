package mcp

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/modelcontextprotocol/go-sdk/jsonrpc"
	"golang.org/x/net/http/httpguts"

	"github.com/airlock-run/airlock/internal/sse"
)

const (
	restartTime = 5 * time.Second        // for a restarted service to answer again
	dialPause   = 100 * time.Millisecond // between two attempts
	cancelPause = 250 * time.Millisecond // between two messages that cancel a running call
	listenPause = 5 * time.Second        // before a stream that ended is opened again

	maxAnswer = 64 << 20 // bytes of a message from the service
)

// relayMessage relays a message of the host. Calls run concurrently; other messages arrive in
// order, and initialize before later messages.
func (r *relay) relayMessage(ctx context.Context, line []byte) {
	m, ok := readEnvelope(line)
	switch {
	case !ok:
		r.write([]byte(notJSON))
	case m.Method == "" && string(m.ID) == rootsID:
		r.takeRoots(line)
	case r.local != nil && r.local.handleMessage(line, &m):
	case m.Method == "initialize":
		r.mu.Lock()
		r.hello, r.session = line, ""
		r.mu.Unlock()
		session := r.send(ctx, line, &m)
		r.mu.Lock()
		r.session = session
		r.mu.Unlock()
	case m.Method == "notifications/initialized":
		r.send(ctx, line, &m)
		r.listen(ctx)
	case m.Method == "notifications/cancelled":
		r.cancel(ctx, line, &m)
	case m.isCall():
		within, cancel := context.WithCancel(ctx)
		x := &exchange{cancel, make(chan struct{})}
		r.mu.Lock()
		r.open[string(m.ID)] = x
		r.mu.Unlock()
		r.calls.Go(func() {
			defer cancel()
			r.send(within, line, &m)
			close(x.done)
			r.mu.Lock()
			defer r.mu.Unlock()
			if r.open[string(m.ID)] == x {
				delete(r.open, string(m.ID))
			}
		})
	default:
		r.send(ctx, line, &m)
	}
}

// cancel ends a call. Without sessions it ends the call's request. With sessions the
// message may overtake the call, so it is repeated until the call ends.
func (r *relay) cancel(ctx context.Context, line []byte, m *envelope) {
	r.mu.Lock()
	x, session := r.open[string(m.Params.RequestID)], r.session
	r.mu.Unlock()
	switch {
	case x == nil: // it has ended
	case session == "":
		x.cancel()
	default:
		r.calls.Go(func() {
			for range int(time.Minute / cancelPause) {
				r.send(ctx, line, m)
				select {
				case <-x.done:
					return
				case <-ctx.Done():
					return
				case <-time.After(cancelPause):
				}
			}
			x.cancel()
		})
	}
}

// send relays a message and its answers. It returns the session that an initialize begins.
func (r *relay) send(ctx context.Context, line []byte, m *envelope) (session string) {
	if r.Send != nil && m.Method == "tools/call" && m.Params.Name == "run_code" {
		_, err := r.endpoint(ctx)
		if err == nil {
			line, err = r.sendFiles(ctx, line)
		}
		if err != nil {
			r.fail(m, jsonrpc.CodeInternalError, err.Error())
			return ""
		}
	}
	session, err := r.exchange(ctx, line, m, func(data []byte) { r.write(r.local.added(r.saved(ctx, data, m), m)) })
	switch e, isStatus := errors.AsType[*statusError](err); {
	case err == nil, ctx.Err() != nil: // or the caller has canceled
	case isStatus:
		r.fail(m, e.code(m.Method), e.text)
	default:
		r.fail(m, jsonrpc.CodeInternalError, err.Error())
	}
	return session
}

// exchange posts a message and passes on the answers. A service that was restarted does not know
// the session; it gets a new one.
func (r *relay) exchange(ctx context.Context, line []byte, m *envelope, put func([]byte)) (begun string, err error) {
	for again := false; ; again = true {
		answer, session, err := r.post(ctx, line, m)
		if err != nil {
			return "", err
		}
		if answer.StatusCode == http.StatusNotFound && session != "" && !again {
			answer.Body.Close()
			if err := r.renew(ctx, session); err != nil {
				return "", err
			}
			continue
		}
		err = r.receive(answer, m, put)
		answer.Body.Close()
		return answer.Header.Get(sessionHeader), err
	}
}

// renew replaces a session that the service has lost.
func (r *relay) renew(ctx context.Context, old string) error {
	r.renewing.Lock()
	defer r.renewing.Unlock()
	r.mu.Lock()
	hello, now := r.hello, r.session
	r.mu.Unlock()
	if now != old {
		return nil
	}
	nobody := func([]byte) {}
	m, _ := readEnvelope(hello)
	session, err := r.exchange(ctx, hello, &m, nobody)
	if err == nil {
		m = envelope{Method: "notifications/initialized", session: session}
		_, err = r.exchange(ctx, []byte(`{"jsonrpc":"2.0","method":"notifications/initialized"}`), &m, nobody)
	}
	if err != nil {
		return err
	}
	r.mu.Lock()
	r.session = session
	r.mu.Unlock()
	r.listen(ctx)
	return nil
}

// post sends a message, in the current session if it needs one.
func (r *relay) post(ctx context.Context, line []byte, m *envelope) (_ *http.Response, session string, err error) {
	header := http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"}}
	r.mu.Lock()
	version := m.Params.Meta.Version
	if version == "" && m.Method != "initialize" {
		session, version = cmp.Or(m.session, r.session), r.version
	}
	r.mu.Unlock()
	if version != "" {
		header.Set(versionHeader, version)
	}
	if session != "" {
		header.Set(sessionHeader, session)
	}
	if version >= stateless {
		header.Set("Mcp-Method", m.Method)
		if name := m.Params.Name + m.Params.URI + m.Params.TaskID; name != "" && httpguts.ValidHeaderFieldValue(name) {
			header.Set(nameHeader, name)
		}
	}
	answer, err := r.do(ctx, http.MethodPost, line, header)
	return answer, session, err
}

// do makes a request. A request that did not reach the service is repeated for a while: a service
// that restarts is unavailable for a moment.
func (r *relay) do(ctx context.Context, method string, body []byte, header http.Header) (*http.Response, error) {
	for began := time.Now(); ; {
		to, err := r.endpoint(ctx)
		if err != nil {
			return nil, err
		}
		req, err := http.NewRequestWithContext(ctx, method, to.URL, bytes.NewReader(body))
		if err != nil {
			return nil, err
		}
		req.Header = header
		answer, err := to.Client.Do(req)
		if err == nil {
			return answer, nil
		}
		refused, _ := errors.AsType[*net.OpError](err)
		if unheard := refused != nil && refused.Op == "dial"; !unheard || time.Since(began) > restartTime {
			if unheard {
				return nil, fmt.Errorf("the service cannot be reached. Is it running? (%w)", refused)
			}
			return nil, fmt.Errorf("%w: %w", errWentAway, err)
		}
		select {
		case <-time.After(dialPause):
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

func (r *relay) endpoint(ctx context.Context) (*Endpoint, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.to == nil {
		to, err := r.Connect(ctx)
		if err != nil {
			return nil, err
		}
		r.to = to
	}
	return r.to, nil
}

var errWentAway = errors.New("the service went away; whether it did this is not known")

// receive hands over the messages of an answer.
func (r *relay) receive(answer *http.Response, m *envelope, put func([]byte)) error {
	if strings.HasPrefix(answer.Header.Get("Content-Type"), "text/event-stream") {
		var last []byte
		for e, err := range sse.Read(answer.Body, maxAnswer) {
			if err == nil && len(e.Data) > 0 { // an error ends the stream, like its end
				last = e.Data
				put(last)
			}
		}
		is, _ := readEnvelope(last)
		if m.isCall() && (is.Method != "" || !bytes.Equal(is.ID, m.ID)) {
			return errWentAway
		}
		if m.Method == "initialize" {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.version = is.Result.Version
		}
		return nil
	}
	body, err := io.ReadAll(io.LimitReader(answer.Body, maxAnswer))
	switch {
	case err != nil:
		return err
	case len(body) > 0 && bytes.IndexByte([]byte("{["), body[0]) >= 0 && json.Valid(body):
		put(body)
	case answer.StatusCode >= http.StatusMultipleChoices:
		return &statusError{answer.StatusCode, strings.TrimSpace(string(body))}
	case m.isCall():
		return errWentAway
	}
	return nil
}

// inSession returns the header of requests in the current session.
func (r *relay) inSession() (header http.Header, ok bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return http.Header{"Accept": {"text/event-stream"}, sessionHeader: {r.session}, versionHeader: {r.version}},
		r.session != ""
}

// listen relays the messages that the service sends without a request, for as long as the session
// lives.
func (r *relay) listen(ctx context.Context) {
	header, ok := r.inSession()
	if !ok {
		return
	}
	r.calls.Go(func() {
		for ctx.Err() == nil {
			answer, err := r.do(ctx, http.MethodGet, nil, header)
			if err == nil {
				if answer.StatusCode == http.StatusOK {
					_ = r.receive(answer, &envelope{}, r.write) // the reason of its end does not matter
				}
				answer.Body.Close()
				if answer.StatusCode != http.StatusOK {
					return // the service has no stream, or the session has ended
				}
			}
			select {
			case <-ctx.Done():
			case <-time.After(listenPause):
			}
		}
	})
}

// leave tells the service that the session has ended, which ends its calls.
func (r *relay) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), goodbye)
	defer cancel()
	if header, ok := r.inSession(); ok {
		if answer, err := r.do(ctx, http.MethodDelete, nil, header); err == nil { // otherwise the service has stopped
			answer.Body.Close()
		}
	}
}

// statusError is an HTTP error status.
type statusError struct {
	status int
	text   string
}

func (e *statusError) Error() string { return e.text }

// code returns the error of JSON-RPC for a request with a method.
func (e *statusError) code(method string) int {
	switch {
	case e.status != http.StatusBadRequest:
		return jsonrpc.CodeInternalError
	case slices.Contains(methods, method):
		return jsonrpc.CodeInvalidRequest
	}
	return jsonrpc.CodeMethodNotFound
}

// methods are the requests that a service knows. In a session it refuses others with a status and a
// text, not with an error of JSON-RPC.
var methods = []string{"initialize", "ping", "server/discover", "completion/complete", "logging/setLevel",
	"prompts/get", "prompts/list", "resources/list", "resources/read", "resources/subscribe",
	"resources/templates/list", "resources/unsubscribe", "subscriptions/listen", "tasks/cancel", "tasks/get",
	"tasks/update", "tools/call", "tools/list"}
