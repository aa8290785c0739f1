package client

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"sync"

	"github.com/airlock-run/airlock/internal/outbound"
)

// WithHandler returns a client of a handler in this process, as Airlock's own API: no connection is made. Of
// the options Server, HTTP and Dial are not used. The handler's paths begin with /api/v1. It cannot take the
// connection over, nor set deadlines.
func WithHandler(handler http.Handler, o Options) *Client {
	calls := &calls{handler: handler}
	calls.ctx, calls.stop = context.WithCancel(context.Background())
	return &Client{base: "http://localhost/api/v1", key: o.Key, agent: o.Agent,
		http: outbound.Guard(http.Client{Transport: calls}), calls: calls}
}

// calls are the requests that a handler answers. It is an http.RoundTripper.
type calls struct {
	handler http.Handler
	ctx     context.Context // of all of them
	stop    context.CancelFunc

	mu      sync.Mutex // so that no call is added while close waits
	running sync.WaitGroup
}

// close ends the calls and waits for them.
func (c *calls) close() {
	c.mu.Lock()
	c.stop()
	c.mu.Unlock()
	c.running.Wait()
}

// RoundTrip implements http.RoundTripper.
func (c *calls) RoundTrip(req *http.Request) (*http.Response, error) {
	ctx, cancel := context.WithCancel(req.Context())
	body := req.Body
	if body == nil {
		body = http.NoBody
	}
	c.mu.Lock()
	if c.ctx.Err() != nil {
		c.mu.Unlock()
		cancel()
		body.Close()
		return nil, errors.New("airlock: the client is closed")
	}
	c.running.Add(1)
	c.mu.Unlock()
	unhook := context.AfterFunc(c.ctx, cancel)

	r := req.Clone(ctx)
	r.Body, r.RequestURI, r.RemoteAddr, r.Host = body, req.URL.RequestURI(), "@", req.URL.Host
	r.Proto, r.ProtoMajor, r.ProtoMinor = "HTTP/1.1", 1, 1
	a := &answer{header: http.Header{}, begun: make(chan struct{}), cancel: cancel}
	a.from, a.to = io.Pipe()
	go func() {
		defer c.running.Done()
		defer unhook()
		defer body.Close()
		defer cancel()
		defer func() { a.end(recover()) }()
		c.handler.ServeHTTP(a, r)
	}()
	select {
	case <-a.begun:
	case <-ctx.Done():
		select {
		case <-a.begun: // the handler returned, which ends ctx too
		default:
			a.from.CloseWithError(ctx.Err())
			return nil, ctx.Err()
		}
	}
	// A handler that returns because the call was cancelled has no answer.
	if err := req.Context().Err(); err != nil {
		a.from.CloseWithError(err)
		return nil, err
	}
	if a.failed != nil {
		return nil, a.failed
	}
	return &http.Response{Status: fmt.Sprintf("%d %s", a.status, http.StatusText(a.status)), StatusCode: a.status,
		Proto: r.Proto, ProtoMajor: 1, ProtoMinor: 1, Header: a.sent, Body: a, ContentLength: -1, Request: req}, nil
}

// answerBuffer is how many bytes of an answer are held back until the handler flushes or returns.
const answerBuffer = 4 << 10

// answer is the http.ResponseWriter of a call, and the body of its response. Bytes that are not flushed when
// the handler returns need no pipe: most answers are of that kind.
type answer struct {
	header http.Header
	status int
	buffer bytes.Buffer // written, not handed over
	begun  chan struct{}

	// Written before begun is closed.
	sent   http.Header
	whole  io.Reader // the body of an answer that was never flushed
	failed error     // the handler panicked before that

	from   *io.PipeReader
	to     *io.PipeWriter
	cancel context.CancelFunc
}

// Header implements http.ResponseWriter.
func (a *answer) Header() http.Header { return a.header }

// WriteHeader implements http.ResponseWriter.
func (a *answer) WriteHeader(status int) {
	if a.status == 0 && status >= http.StatusOK {
		a.status, a.sent = status, a.header.Clone()
	}
}

// Write implements http.ResponseWriter.
func (a *answer) Write(p []byte) (int, error) {
	a.WriteHeader(http.StatusOK)
	if a.buffer.Len()+len(p) <= answerBuffer {
		return a.buffer.Write(p)
	}
	if err := a.FlushError(); err != nil {
		return 0, err
	}
	return a.to.Write(p)
}

// Flush implements http.Flusher.
func (a *answer) Flush() { _ = a.FlushError() }

// FlushError hands over what was written, for http.ResponseController.
func (a *answer) FlushError() error {
	a.WriteHeader(http.StatusOK)
	a.begin()
	if a.buffer.Len() == 0 {
		return nil
	}
	_, err := a.to.Write(a.buffer.Bytes())
	a.buffer.Reset()
	return err
}

// begin lets RoundTrip return, once. Only the handler's goroutine calls it.
func (a *answer) begin() {
	select {
	case <-a.begun:
	default:
		close(a.begun)
	}
}

// end ends the answer after the handler returned or panicked.
func (a *answer) end(panicked any) {
	a.WriteHeader(http.StatusOK)
	var err error
	if panicked != nil {
		err = fmt.Errorf("airlock: the handler ended: %v", panicked)
	}
	select {
	case <-a.begun:
		if err == nil {
			err = a.FlushError()
		}
		_ = a.to.CloseWithError(err) // nil is io.EOF
	default:
		a.whole, a.failed = &a.buffer, err
		close(a.begun)
	}
}

// Read implements io.Reader.
func (a *answer) Read(p []byte) (int, error) {
	if a.whole != nil {
		return a.whole.Read(p)
	}
	return a.from.Read(p)
}

// Close implements io.Closer. It ends the handler.
func (a *answer) Close() error {
	a.cancel()
	return a.from.Close()
}
