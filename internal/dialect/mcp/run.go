package mcp

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/toolcall"
)

// interpreters are the languages with persistent variables.
var interpreters = map[string]bool{"python": true, "js": true, "ts": true, "bash": true, "r": true}

func (s *Server) runCode(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	if p, err := s.answered(ctx, c); p != nil || err != nil {
		if err != nil {
			return nil, err
		}
		return s.await(ctx, c, p, c.int("max_chars"))
	}
	lang, ok := language.Find(c.text("language"))
	if !ok {
		return nil, s.noLanguage(ctx, c.text("language"))
	}
	refs, err := s.inputs(ctx, c)
	if err != nil {
		return nil, err
	}
	p, err := s.start(ctx, c, lang, refs)
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Kind == engine.ErrNoLanguage && e.ID == "" {
		return nil, s.noLanguage(ctx, lang.Name)
	}
	if err != nil {
		return nil, err
	}
	return s.await(ctx, c, p, c.int("max_chars"))
}

func (s *Server) waitRun(ctx context.Context, c *call) (*sdk.CallToolResult, error) {
	p, err := s.program(ctx, c.caller, c.text("run"))
	if err != nil {
		return nil, err
	}
	if _, err := s.answered(ctx, c); err != nil {
		return nil, err
	}
	return s.await(ctx, c, p, defaultChars)
}

// inputs finds the input files of a program.
func (s *Server) inputs(ctx context.Context, c *call) (refs []engine.FileRef, err error) {
	for _, name := range c.list("files") {
		id, err := engine.ParseID(name)
		if err == nil {
			_, err = s.Engine.GetFile(ctx, c.caller, id)
		}
		if err != nil {
			return nil, refused("files: there is no file %.80q", name)
		}
		refs = append(refs, engine.FileRef{ID: id})
	}
	return refs, nil
}

// cancelTime is the grace period of a cancelled program before it is killed with its interpreter.
// The whole cancellation takes about a second.
const cancelTime = 500 * time.Millisecond

// start starts a program: in the interpreter of its session if that has its language, else beside
// it.
func (s *Server) start(ctx context.Context, c *call, lang language.Language, refs []engine.FileRef) (*cell, error) {
	session, speaks, image, err := s.within(ctx, c, lang, &refs)
	if err != nil {
		return nil, err
	}
	for _, ref := range refs {
		if err := s.place(ctx, c.caller, session, ref.ID); err != nil {
			return nil, err
		}
	}
	req := live.CellRequest{Code: c.text("code"), Timeout: timeoutOf(c), Grace: cancelTime}
	if image == "" && !slices.Contains(s.Languages(ctx), lang.Name) {
		return nil, s.noLanguage(ctx, lang.Name)
	}
	if args, in := c.list("args"), c.text("stdin"); speaks != lang.Name || len(args) > 0 || in != "" {
		req.Program = &live.Program{Language: lang.Name, Args: args, Stdin: in}
	}
	var talk *toolcall.Queue
	if s.Upstream != nil && req.Program == nil {
		talk = &toolcall.Queue{}
		req.Host = s.Upstream.Host(func(ctx context.Context, text string) (bool, error) {
			if !canAsk(c) {
				return false, errors.New("this client cannot ask; the operator's file may allow it")
			}
			return ask(ctx, talk, text)
		})
	}
	started, err := s.startCell(ctx, c, session, req)
	if err != nil {
		return nil, err
	}
	p := &cell{live: s.Live, caller: c.caller, session: session, id: started.ID}
	if talk != nil {
		s.dialogs.byRun.Store(p.handle(), talk)
	}
	return p, nil
}

// within returns the session of a call, the language of its interpreter, and the name of its
// image. A new one has the files of refs, which it clears.
func (s *Server) within(
	ctx context.Context, c *call, lang language.Language, refs *[]engine.FileRef,
) (session engine.ID, speaks, image string, err error) {
	if handle := c.text("session"); handle != "" {
		if session, speaks, image, err = s.session(ctx, c.caller, handle); err != nil {
			return session, "", "", err
		}
		if asked := c.text("image"); asked != "" && asked != cmp.Or(image, engine.HostImage) {
			return session, "", "", refused("image is for a new session: that one has %s", cmp.Or(image, engine.HostImage))
		}
		return session, speaks, image, nil
	}
	req := live.Request{Image: c.text("image"), Files: *refs, Origin: engine.OriginMCP}
	if interpreters[lang.Name] {
		req.Language = lang.Name
	}
	made, err := s.Live.Create(ctx, c.caller, req)
	if e, ok := errors.AsType[*engine.Error](err); ok && e.Kind == engine.ErrNoLanguage && e.ID == "language" {
		req.Language = "" // it runs beside another interpreter of the image, if there is one
		if other, again := s.Live.Create(ctx, c.caller, req); again == nil {
			made, err = other, nil
		}
	}
	if err != nil {
		return made.ID, "", "", err
	}
	*refs = nil
	interpreter, _ := language.Find(cmp.Or(live.Language(made), req.Language, "python"))
	return made.ID, interpreter.Name, live.Image(made), nil
}

// startCell starts a cell. At the limit of running cells it waits for an interpreter:
// agents start many at once, and few retry later.
func (s *Server) startCell(ctx context.Context, c *call, session engine.ID, req live.CellRequest) (live.Cell, error) {
	last := time.After(waitOf(c))
	for pause := firstPause; ; pause = min(pause*3/2, lastPause) {
		started, err := s.Live.Start(ctx, c.caller, session, req)
		if !errors.Is(err, engine.ErrBusy) {
			return started, err
		}
		select {
		case <-time.After(pause):
		case <-last:
			return live.Cell{}, err
		case <-ctx.Done():
			return live.Cell{}, ctx.Err()
		}
	}
}

// The pauses of a call that waits for a free interpreter.
const (
	firstPause = 20 * time.Millisecond
	lastPause  = time.Second
)

func waitOf(c *call) time.Duration { return time.Duration(c.int("wait_seconds")) * time.Second }

func timeoutOf(c *call) time.Duration { return time.Duration(c.int("timeout_seconds")) * time.Second }

// place copies a stored file into a session.
func (s *Server) place(ctx context.Context, caller engine.Caller, session, file engine.ID) error {
	f, content, err := s.Engine.OpenFile(ctx, caller, file)
	if err != nil {
		return err
	}
	defer content.Close()
	_, err = s.write(ctx, caller, session, f.Name, content)
	return err
}

func (s *Server) noLanguage(ctx context.Context, name string) error {
	return refused("%.40s is not installed here. Installed: %s. The operator can run 'airlock setup'.", name,
		strings.Join(s.Languages(ctx), ", "))
}

// await waits for a program for as long as the caller asks, and answers with its end, or with its
// output so far.
func (s *Server) await(ctx context.Context, c *call, p *cell, chars int) (*sdk.CallToolResult, error) {
	wait := waitOf(c)
	task := knowsTasks(c.request)
	if task {
		wait = min(wait, taskAfter)
	}
	out, err := s.follow(ctx, c, p, wait)
	for err == nil && !out.Status.Final() {
		q := s.dialogs.of(p.handle()).First()
		if q == nil || !canAsk(c) {
			break
		}
		if c.request.ProtocolVersion() >= stateless {
			return s.put(c, p.handle(), q), nil
		}
		given, failed := c.request.Session.Elicit(ctx, form(q.Name)[question].(*sdk.ElicitParams))
		s.dialogs.reply(p.handle(), failed == nil && given.Action == "accept")
		out, err = s.follow(ctx, c, p, wait)
	}
	if err != nil {
		return nil, err
	}
	if out.Status.Final() {
		s.dialogs.byRun.Delete(p.handle())
	}
	if !out.Status.Final() && task {
		return asTask(p), nil
	}
	if !out.Status.Final() {
		return stillRunning(out, wait, chars), nil
	}
	return s.result(ctx, c, out, chars), nil
}

// endTime bounds the time to store the files of an abandoned program.
const endTime = 10 * time.Second

// follow reports a program's output until it ends or wait has passed, and returns its
// state. If the caller cancels, it ends the program.
func (s *Server) follow(ctx context.Context, c *call, p *cell, wait time.Duration) (*outcome, error) {
	waiting, done := context.WithTimeout(ctx, wait)
	defer done()
	if talk := s.dialogs.of(p.handle()); talk != nil {
		stop := talk.Notify(done)
		defer stop()
	}
	output, err := p.text(waiting)
	if err != nil {
		return nil, err
	}
	news := reportTo(ctx, c.request)
	var printed strings.Builder
	for text := range output {
		if printed.Len() < maxOutput {
			printed.WriteString(text)
		}
		news.add(text)
	}
	news.stop()
	if ctx.Err() != nil {
		last, cancel := context.WithTimeout(context.WithoutCancel(ctx), endTime)
		defer cancel()
		return nil, errors.Join(ctx.Err(), p.cancel(last))
	}
	out, err := p.outcome(ctx)
	if err == nil && !out.Status.Final() {
		out.stdout = printed.String()
	}
	return out, err
}

// Progress notifications. Some clients restart their timeout with each.
const (
	progressTime = time.Second     // while there is output
	silentTicks  = 5               // of progressTime, while there is none
	maxMessage   = 200             // bytes of the last line
	maxOutput    = 4 * 1024 * 1024 // bytes of output kept until the caller timed out
)

// progress reports the output of a program to its caller before the end.
type progress struct {
	mu    sync.Mutex
	last  string // line
	grown bool

	end  chan struct{}
	done chan struct{}
}

// reportTo returns the progress for the caller of a tool, or nil if it wants none.
func reportTo(ctx context.Context, r *sdk.CallToolRequest) *progress {
	token := r.Params.GetProgressToken()
	if token == nil {
		return nil
	}
	p := &progress{end: make(chan struct{}), done: make(chan struct{})}
	go func() {
		defer close(p.done)
		tick := time.NewTicker(progressTime)
		defer tick.Stop()
		for n, silent := 1.0, 0; ; {
			line, grown := p.latest()
			if silent++; grown || n == 1 || silent >= silentTicks {
				message := &sdk.ProgressNotificationParams{ProgressToken: token, Progress: n, Message: line}
				if r.Session.NotifyProgress(ctx, message) != nil {
					return // the caller has disconnected
				}
				n, silent = n+1, 0
			}
			select {
			case <-p.end:
				return
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return p
}

func (p *progress) add(text string) {
	if p == nil {
		return
	}
	lines := strings.Split(strings.TrimRight(text, "\n"), "\n")
	line := strings.TrimSpace(lines[len(lines)-1])
	if len(line) > maxMessage {
		line = strings.ToValidUTF8(line[:maxMessage], "")
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.grown = true
	if line != "" {
		p.last = line
	}
}

func (p *progress) latest() (line string, grown bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	line, grown, p.grown = p.last, p.grown, false
	return line, grown
}

func (p *progress) stop() {
	if p == nil {
		return
	}
	close(p.end)
	<-p.done
}
