// Package upstream calls the tools of other servers of the Model Context Protocol for programs
// in the sandbox: code mode. A model writes one program instead of many calls, and sees only
// its output.
//
// The names, descriptions, schemas and answers of a server are untrusted: they are bounded,
// shown as data, and decide nothing. The operator's file decides which tools may be called.
// Commands, addresses and secrets stay in this process.
package upstream

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"net/http"
	"os"
	"os/exec"
	"path"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/outbound"
)

// Policy decides about a call.
type Policy string

// The policies. The default is Allow for tools with a read-only hint, and Ask for others.
const (
	Allow Policy = "allow"
	Ask   Policy = "ask" // the user
	Deny  Policy = "deny"
)

// Server is an entry of the file, in the format of agents' settings.
type Server struct {
	Command string            `json:"command"`
	Args    []string          `json:"args"`
	Env     map[string]string `json:"env"`
	URL     string            `json:"url"`
	Headers map[string]string `json:"headers"`
	Type    string            `json:"type"`

	Default Policy            `json:"default"` // of tools that are not in Tools
	Tools   map[string]Policy `json:"tools"`   // by name, or by a pattern of path.Match
}

// Read reads a file of servers.
func Read(text []byte) (map[string]Server, error) {
	var file struct {
		Servers map[string]Server `json:"mcpServers"`
	}
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	if err := decoder.Decode(&file); err != nil {
		return nil, fmt.Errorf("it is not what agents have as mcpServers: %w", err)
	}
	if len(file.Servers) == 0 {
		return nil, errors.New("there is no server in its mcpServers")
	}
	for name, s := range file.Servers {
		if (s.Command == "") == (s.URL == "") {
			return nil, fmt.Errorf("the server %q needs either a command or an url", name)
		}
		if s.URL != "" {
			if _, err := outbound.Parse(s.URL); err != nil {
				return nil, fmt.Errorf("the server %q: %w", name, err)
			}
		}
		for pattern, policy := range s.Tools {
			if _, err := path.Match(pattern, ""); err != nil || !policy.known() {
				return nil, fmt.Errorf("the server %q: tools: %q: %q is none of allow, ask and deny", name, pattern, policy)
			}
		}
		if s.Default != "" && !s.Default.known() {
			return nil, fmt.Errorf("the server %q: default: %q is none of allow, ask and deny", name, s.Default)
		}
	}
	return file.Servers, nil
}

func (p Policy) known() bool { return p == Allow || p == Ask || p == Deny }

// policy returns the policy of a tool: by its name, else by the longest pattern.
func (s *Server) policy(name string, reads bool) Policy {
	if p, ok := s.Tools[name]; ok {
		return p
	}
	patterns := slices.SortedFunc(maps.Keys(s.Tools), func(a, b string) int { return len(b) - len(a) })
	for _, pattern := range patterns {
		if ok, _ := path.Match(pattern, name); ok {
			return s.Tools[pattern]
		}
	}
	switch {
	case s.Default != "":
		return s.Default
	case reads:
		return Allow
	}
	return Ask
}

// The limits of a server.
const (
	connectTime = 20 * time.Second
	callTime    = 60 * time.Second
	maxAnswer   = 16 << 20 // bytes of one message
	maxTools    = 5000
	firstPause  = time.Second // after a failed connection, doubled with each
	lastPause   = time.Minute
)

// Set is the servers of a file.
type Set struct {
	log     *slog.Logger
	version string
	servers []*server // in order of name
}

// New returns the servers. It connects to none; the first use does.
func New(entries map[string]Server, version string, log *slog.Logger) *Set {
	s := &Set{log: log, version: version}
	taken := map[string]bool{"ToolError": true, "aio": true}
	for _, name := range slices.Sorted(maps.Keys(entries)) {
		s.servers = append(s.servers, &server{Server: entries[name], name: name, module: identifier(name, taken), set: s})
	}
	return s
}

// Close closes the connections and ends the commands.
func (s *Set) Close() {
	for _, one := range s.servers {
		one.mu.Lock()
		one.drop()
		one.mu.Unlock()
	}
}

// bare is a context without its values: those of a request to the SDK's server would set the
// protocol version of its client.
type bare struct{ context.Context }

func (bare) Value(any) any { return nil }

// server is a server of a Set.
type server struct {
	Server
	name   string
	module string // in programs
	set    *Set

	mu      sync.Mutex
	session *mcp.ClientSession // nil: there is none
	end     func()             // of its command
	tools   []*tool            // nil: unknown
	stale   bool               // tools has changed
	pause   time.Duration
	until   time.Time // of the pause after a failure
	failure error     // of the last connection
}

// connect returns the connection. The caller holds mu.
func (s *server) connect(ctx context.Context) (*mcp.ClientSession, error) {
	if s.session != nil {
		return s.session, nil
	}
	if time.Now().Before(s.until) {
		return nil, s.failure
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	client := mcp.NewClient(&mcp.Implementation{Name: "airlock", Version: s.set.version}, &mcp.ClientOptions{
		Capabilities: &mcp.ClientCapabilities{}, // the server is untrusted
		ToolListChangedHandler: func(context.Context, *mcp.ToolListChangedRequest) {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.stale = true
		},
	})
	transport, end, err := s.transport()
	if err == nil {
		if s.session, err = client.Connect(ctx, transport, nil); err != nil {
			end()
		}
	}
	if err != nil {
		s.session = nil
		s.pause = min(max(2*s.pause, firstPause), lastPause)
		s.until, s.failure = time.Now().Add(s.pause), fmt.Errorf("the server %s cannot be reached: %.200w", s.name, err)
		s.set.log.WarnContext(ctx, "upstream", "server", s.name, "error", err)
		return nil, s.failure
	}
	s.end, s.pause, s.stale = end, 0, true
	return s.session, nil
}

// drop closes the connection. The caller holds mu.
func (s *server) drop() {
	if s.session == nil {
		return
	}
	session, end := s.session, s.end
	s.session, s.stale = nil, true
	end() // before Close, which waits for pending requests
	_ = session.Close()
}

// inherited are the environment variables of a command. Others may be secrets.
var inherited = []string{"PATH=", "HOME=", "USER=", "LANG=", "LC_", "TMPDIR=", "SHELL=", "XDG_"}

// transport returns the transport to the server and a function that ends it.
func (s *server) transport() (_ mcp.Transport, end func(), _ error) {
	if s.URL != "" {
		client := outbound.Guard(http.Client{Transport: &bounded{headers: s.Headers}})
		return &mcp.StreamableClientTransport{Endpoint: s.URL, HTTPClient: client, MaxEventSize: maxAnswer},
			client.CloseIdleConnections, nil
	}
	cmd := exec.Command(s.Command, s.Args...)
	for _, variable := range os.Environ() {
		if slices.ContainsFunc(inherited, func(name string) bool { return strings.HasPrefix(variable, name) }) {
			cmd.Env = append(cmd.Env, variable)
		}
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, nil, err
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, nil, err
	}
	end = sync.OnceFunc(func() {
		_ = in.Close()
		ended := make(chan struct{})
		go func() { defer close(ended); _ = cmd.Wait() }()
		select {
		case <-ended:
		case <-time.After(firstPause):
			_ = cmd.Process.Kill()
			<-ended
		}
	})
	return &mcp.IOTransport{Reader: out, Writer: in, MaxLineLength: maxAnswer}, end, nil
}

// bounded adds headers to requests and bounds their answers.
type bounded struct{ headers map[string]string }

func (b *bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	for name, value := range b.headers {
		r.Header.Set(name, value)
	}
	resp, err := http.DefaultTransport.RoundTrip(r)
	// The SDK bounds each event of a stream.
	if err == nil && !strings.HasPrefix(resp.Header.Get("Content-Type"), "text/event-stream") {
		resp.Body = struct {
			io.Reader
			io.Closer
		}{&limited{resp.Body, maxAnswer}, resp.Body}
	}
	return resp, err
}

// limited is io.LimitReader with an error at the limit.
type limited struct {
	from io.Reader
	left int64
}

var errTooLarge = fmt.Errorf("the answer is larger than %d MiB", maxAnswer>>20)

func (l *limited) Read(p []byte) (int, error) {
	n, err := l.from.Read(p)
	if l.left -= int64(n); l.left < 0 {
		return 0, errTooLarge
	}
	return n, err
}

// list returns the tools of the server.
func (s *server) list(ctx context.Context) ([]*tool, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	session, err := s.connect(ctx)
	if err != nil {
		return nil, err
	}
	if s.tools != nil && !s.stale {
		return s.tools, nil
	}
	ctx, cancel := context.WithTimeout(ctx, connectTime)
	defer cancel()
	found := []*tool{}
	taken := map[string]bool{}
	size := 0
	for t, err := range session.Tools(ctx, nil) {
		if err != nil {
			s.drop()
			return nil, fmt.Errorf("the server %s does not list its tools: %.200w", s.name, err)
		}
		one := s.newTool(t, taken)
		if size += one.size; len(found) >= maxTools || size > maxAnswer {
			s.set.log.WarnContext(ctx, "upstream: more tools than are taken", "server", s.name, "tools", len(found))
			break
		}
		found = append(found, one)
	}
	s.tools, s.stale = found, false
	return found, nil
}
