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

// take handles a message to a local tool, and copies of messages to all servers. It reports whether
// the service must not get the message.
func (l *local) take(line []byte, m *envelope) bool {
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
	if l == nil || m.Method != "tools/list" || m.Params.Cursor != "" {
		return data
	}
	return change(data, func(tools *[]any) {
		for _, t := range l.server.tools {
			*tools = append(*tools, t.definition())
		}
	}, "result", "tools")
}

func renumber(line, id []byte) []byte {
	return change(line, func(is *json.RawMessage) { *is = id }, "id")
}

// sendFiles replaces file names by ids in a call of run_code.
func (r *relay) sendFiles(ctx context.Context, line []byte) (_ []byte, err error) {
	line = change(line, func(names *[]string) {
		if len(*names) > 0 {
			*names, err = r.Send(ctx, *names)
		}
	}, "params", "arguments", "files")
	return line, err
}

// saved saves the files that a program made, and lists them in the first text.
func (r *relay) saved(ctx context.Context, data []byte, m *envelope) []byte {
	path := []string{"result"}
	switch {
	case r.Save == nil:
		return data
	case m.Method == "tasks/get":
		path = []string{"result", "result"}
	case m.Method != "tools/call":
		return data
	}
	var notice string
	change(data, func(about *struct {
		Files []MadeFile `json:"files"`
	}) {
		if len(about.Files) == 0 {
			return
		}
		var err error
		if notice, err = r.Save(ctx, about.Files); err != nil {
			notice = "Not saved: " + err.Error()
		}
	}, append(path, "_meta", metaRun)...)
	if notice == "" {
		return data
	}
	return change(data, func(content *[]map[string]any) {
		if len(*content) > 0 && (*content)[0]["type"] == "text" {
			(*content)[0]["text"] = notice + "\n" + (*content)[0]["text"].(string)
		}
	}, append(path, "content")...)
}

// change changes a value in a message. If the value is missing, it returns the message unchanged.
func change[T any](data []byte, do func(*T), path ...string) []byte {
	var object map[string]json.RawMessage
	if json.Unmarshal(data, &object) != nil || object[path[0]] == nil {
		return data
	}
	if len(path) > 1 {
		object[path[0]] = change(object[path[0]], do, path[1:]...)
	} else {
		var value T
		if json.Unmarshal(object[path[0]], &value) != nil {
			return data
		}
		do(&value)
		text, err := json.Marshal(value)
		if err != nil {
			return data
		}
		object[path[0]] = text
	}
	changed, err := json.Marshal(object)
	if err != nil {
		return data
	}
	return changed
}
