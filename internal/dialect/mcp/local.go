package mcp

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"github.com/tidwall/gjson"
	"github.com/tidwall/sjson"
)

// local has the tools for a person's folders, beside a service that does not know them.
type local struct {
	server *Server
	in     *io.PipeWriter
	done   chan struct{}
	out    func([]byte)
	hello  atomic.Pointer[string] // id of the initialize that the service answers
}

// localID begins the ids of local requests to the host, since the service sends requests too.
const localID = `"airlock:`

func (r *relay) startLocal(ctx context.Context) *local {
	in, to := io.Pipe()
	l := &local{server: New(Options{Changes: r.Changes, Version: r.Version}), in: to, done: make(chan struct{}),
		out: r.write}
	go func() {
		defer close(l.done)
		_ = l.server.Run(ctx, &sdk.IOTransport{Reader: in, Writer: l}) // until the end of the input
	}()
	return l
}

func (l *local) close() {
	l.in.Close()
	<-l.done
}

// handleMessage handles a message to a local tool, and copies of messages to all servers. It reports whether
// the service must not get the message.
func (l *local) handleMessage(line []byte, m *envelope) bool {
	switch {
	case m.Method == "initialize":
		id := string(m.ID)
		l.hello.Store(&id)
	case strings.HasPrefix(m.Method, "notifications/"):
	case m.Method == "tools/call" && l.has(m.Params.Name):
		return l.say(line)
	case m.Method == "" && bytes.HasPrefix(m.ID, []byte(localID)):
		id := bytes.TrimSuffix(bytes.TrimPrefix(m.ID, []byte(localID)), []byte(`"`))
		return l.say(renumber(line, id))
	default:
		return false
	}
	l.say(line)
	return false
}

func (l *local) say(line []byte) bool {
	_, _ = l.in.Write(append(line[:len(line):len(line)], '\n')) // it ends with the command
	return true
}

func (l *local) has(name string) bool {
	return slices.ContainsFunc(l.server.tools, func(t tool) bool { return t.name == name })
}

// Write implements io.Writer for a transport that writes a message at a time.
func (l *local) Write(line []byte) (int, error) {
	m, _ := readEnvelope(line)
	hello := l.hello.Load()
	switch {
	case m.Method == "" && hello != nil && *hello == string(m.ID):
		l.hello.Store(nil)
	case m.isCall():
		l.out(renumber(line, []byte(localID+string(m.ID)+`"`)))
	default:
		l.out(line)
	}
	return len(line), nil
}

// Close implements io.Closer.
func (l *local) Close() error { return nil }

// added adds the local tools to the service's list.
func (l *local) added(data []byte, m *envelope) []byte {
	const tools = "result.tools"
	if l == nil || m.Method != "tools/list" || m.Params.Cursor != "" || !gjson.GetBytes(data, tools).IsArray() {
		return data
	}
	for _, t := range l.server.tools {
		data = changed(data, tools+".-1", t.definition())
	}
	return data
}

func renumber(line, id []byte) []byte { return changed(line, "id", json.RawMessage(id)) }

// sendFiles replaces file names by ids in a call of run_code.
func (r *relay) sendFiles(ctx context.Context, line []byte) ([]byte, error) {
	const files = "params.arguments.files"
	var names []string
	if json.Unmarshal([]byte(gjson.GetBytes(line, files).Raw), &names) == nil && len(names) > 0 {
		ids, err := r.Send(ctx, names, r.roots)
		return changed(line, files, ids), err
	}
	return line, nil
}

// saved saves the files that a program made, and lists them in the first text.
func (r *relay) saved(ctx context.Context, data []byte, m *envelope) []byte {
	result := "result"
	switch {
	case r.Save == nil:
		return data
	case m.Method == "tasks/get":
		result = "result.result"
	case m.Method != "tools/call":
		return data
	}
	var made []MadeFile
	files := gjson.GetBytes(data, result+"._meta."+metaRun+".files")
	if json.Unmarshal([]byte(files.Raw), &made) != nil || len(made) == 0 {
		return data
	}
	notice, err := r.Save(ctx, made)
	if err != nil {
		notice = "Not saved: " + err.Error()
	}
	first := gjson.GetBytes(data, result+".content.0")
	if notice == "" || first.Get("type").String() != "text" {
		return data
	}
	return changed(data, result+".content.0.text", notice+"\n"+first.Get("text").String())
}

// changed sets a value in a message.
func changed(data []byte, path string, value any) []byte {
	if with, err := sjson.SetBytes(data, path, value); err == nil {
		return with
	}
	return data
}
