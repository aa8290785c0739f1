package openterminal

import (
	"cmp"
	"context"
	"errors"
	"math"
	"net/http"
	"regexp"
	"slices"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/live"
	"github.com/airlock-run/airlock/internal/wire"
)

const (
	maxCommands = 16              // running at once for a user
	forgetAfter = 5 * time.Minute // after the end
	longestWait = 300             // seconds
	inputTime   = 10 * time.Second
)

// size is the size of the original's terminals.
var size = engine.TerminalSize{Columns: 80, Rows: 24}

// command is kept with a process. Its fields that change are guarded by the mutex of the api.
type command struct {
	chat     string
	line     string
	terminal bool // of the page
	killed   bool
	attached bool   // a page has the terminal,
	shownIn  string // in this chat
}

// commandBody is the body of a process. Its offsets count bytes; like those of the original they
// are opaque to clients.
type commandBody struct {
	ID        engine.ID `json:"id"`
	Command   string    `json:"command"`
	Cwd       string    `json:"cwd,omitempty"`
	Status    string    `json:"status"`
	ExitCode  *int      `json:"exit_code"`
	Output    []output  `json:"output"`
	Next      int64     `json:"next_offset"`
	Truncated bool      `json:"truncated"`
	Log       *string   `json:"log_path"` // has all output, if some is left out and it has ended
}

type output struct {
	Type string `json:"type"` // always "output"
	Data string `json:"data"`
}

func (q *request) runCommand(body struct {
	Command, Cwd string
	Env          map[string]string
}) (any, error) {
	reading := q.reading()
	if q.problem != nil {
		return nil, q.problem
	}
	dir := q.cwd()
	if body.Cwd != "" {
		dir = q.absolute(body.Cwd, dir)
	}
	p, err := q.start(live.ProcessRequest{Shell: cmp.Or(body.Command, ":"), Env: body.Env, Dir: dir, Terminal: &size,
		Whole: true}, &command{line: body.Command}, maxCommands)
	if err != nil {
		return nil, err
	}
	answer, err := q.follow(p, reading)
	if err == nil {
		answer.Cwd = dir
	}
	return answer, err
}

// start starts a process, unless the maximum of its kind is running.
func (q *request) start(req live.ProcessRequest, c *command, most int) (live.Process, error) {
	all, err := q.live.Processes(q.Context(), q.caller, q.workspace)
	if err != nil {
		return live.Process{}, err
	}
	running := 0
	for _, p := range all {
		if known, ok := p.Note.(*command); ok && p.Running && known.terminal == c.terminal {
			running++
		}
	}
	if running >= most {
		return live.Process{}, wire.Refuse(http.StatusTooManyRequests,
			"%d are running, which is as many as may: kill one first.", running)
	}
	c.chat = q.chat
	req.Note = c
	return q.live.StartProcess(q.Context(), q.caller, q.workspace, req)
}

// reading selects the output of a process.
type reading struct {
	wait time.Duration
	from int64
	tail int // lines; 0: all
}

func (q *request) reading() reading {
	return reading{
		wait: time.Duration(q.number("wait", 0, longestWait, 0) * float64(time.Second)),
		from: int64(q.whole("offset", 0, 1<<53, 0)),
		tail: q.whole("tail", 1, math.MaxInt32, 0),
	}
}

// follow reads a process to its end, for as long as the client waits. The process keeps
// running when the client disconnects.
func (q *request) follow(p live.Process, r reading) (*commandBody, error) {
	ctx, cancel := q.Context(), context.CancelFunc(func() {})
	if r.wait > 0 {
		ctx, cancel = context.WithTimeout(ctx, r.wait)
	}
	defer cancel()
	events, err := q.live.WatchProcess(ctx, q.caller, q.workspace, p.ID, r.from)
	if err != nil {
		return nil, err
	}
	answer := &commandBody{ID: p.ID, Next: r.from, Output: []output{}}
	var text strings.Builder
	if p.Running && r.wait == 0 && r.from >= p.Output {
		events = func(func(live.ProcessEvent) bool) {}
	}
	for e := range events {
		if e.Type == live.ProcessExit {
			p = *e.Process
			break
		}
		if e.Type == live.ProcessDropped {
			text.WriteString(e.LeftOut())
		}
		text.Write(e.Data)
		answer.Next += int64(len(e.Data)) + e.Dropped
		if p.Running && r.wait == 0 && answer.Next >= p.Output {
			break
		}
	}
	var skipped bool
	answer.Output, skipped = entries(text.String(), r.tail)
	if now, err := q.live.Process(q.Context(), q.caller, q.workspace, p.ID); err == nil {
		p.Truncated, p.Whole = now.Truncated, now.Whole
	}
	answer.Truncated, answer.Log = skipped || p.Truncated, logOf(p)
	q.mu.Lock()
	defer q.mu.Unlock()
	c := p.Note.(*command)
	answer.Command, answer.Status, answer.ExitCode = c.line, statusOf(p, c), exitCode(p)
	return answer, nil
}

// entries splits output like the original: into entries, or with a tail into the last lines. It
// reports whether it skipped others.
func entries(text string, tail int) (list []output, skipped bool) {
	const largest = 4 << 10 // size of a read of the original
	text = strings.ToValidUTF8(text, "\uFFFD")
	list = []output{}
	if tail > 0 {
		lines := slices.Collect(strings.Lines(text))
		for _, line := range lines[max(0, len(lines)-tail):] {
			list = append(list, output{"output", line})
		}
		return list, len(lines) > tail
	}
	for len(text) > 0 {
		end := min(len(text), largest)
		for end < len(text) && text[end]&0xC0 == 0x80 { // within a character
			end++
		}
		list, text = append(list, output{"output", text[:end]}), text[end:]
	}
	return list, false
}

// logOf returns the path of the file that has all output of a process, if some is left out.
func logOf(p live.Process) *string {
	for _, f := range p.Whole {
		return new("/workspace/" + f.Path)
	}
	return nil
}

func statusOf(p live.Process, c *command) string {
	switch {
	case p.Running:
		return "running"
	case c.killed:
		return "killed"
	}
	return "done"
}

// exitCode returns the exit code as Python has it: -9 after SIGKILL.
func exitCode(p live.Process) *int {
	if number := unix.SignalNum(p.Signal); p.Signal != "" && number != 0 {
		code := -int(number)
		return &code
	}
	return p.ExitCode
}

// command finds the process in the path, of this user and chat.
func (q *request) command(terminal bool) (live.Process, *command, error) {
	gone := wire.Refuse(http.StatusNotFound, "Process not found")
	if terminal {
		gone = noTerminal
	}
	id, err := engine.ParseID(q.PathValue("id"))
	if err != nil {
		return live.Process{}, nil, gone
	}
	p, err := q.live.Process(q.Context(), q.caller, q.workspace, id)
	c, ok := p.Note.(*command)
	if errors.Is(err, engine.ErrNotFound) ||
		err == nil && (!ok || c.chat != q.chat && !terminal || c.terminal != terminal || forgotten(p)) {
		return live.Process{}, nil, gone
	}
	return p, c, err
}

func forgotten(p live.Process) bool { return !p.Running && time.Since(p.EndedAt) > forgetAfter }

func (q *request) listCommands() (any, error) {
	all, err := q.live.Processes(q.Context(), q.caller, q.workspace)
	if err != nil {
		return nil, err
	}
	type row struct {
		ID       engine.ID `json:"id"`
		Command  string    `json:"command"`
		Status   string    `json:"status"`
		ExitCode *int      `json:"exit_code"`
		Log      *string   `json:"log_path"`
	}
	q.mu.Lock()
	defer q.mu.Unlock()
	list := []row{}
	for _, p := range all {
		if c, ok := p.Note.(*command); ok && c.chat == q.chat && !c.terminal && !forgotten(p) {
			list = append(list, row{p.ID, c.line, statusOf(p, c), exitCode(p), logOf(p)})
		}
	}
	return list, nil
}

func (q *request) commandStatus() (any, error) {
	p, _, err := q.command(false)
	if err != nil {
		return nil, err
	}
	reading := q.reading()
	if q.problem != nil {
		return nil, q.problem
	}
	return q.follow(p, reading)
}

var (
	escape  = regexp.MustCompile(`\\(?:n|r|t|\\|x[0-9a-fA-F]{2})`)
	escapes = map[string]string{`\n`: "\n", `\r`: "\r", `\t`: "\t", `\\`: `\`}
)

// unescape replaces the escapes that models write. It leaves other backslashes.
func unescape(text string) string {
	return escape.ReplaceAllStringFunc(text, func(found string) string {
		if plain, ok := escapes[found]; ok {
			return plain
		}
		var c byte
		for _, digit := range []byte(strings.ToLower(found[2:])) {
			c = c<<4 | byte(strings.IndexByte("0123456789abcdef", digit))
		}
		return string(rune(c))
	})
}

func (q *request) sendInput(body struct{ Input string }) (any, error) {
	p, _, err := q.command(false)
	if err != nil {
		return nil, err
	}
	return map[string]string{"status": "ok"}, q.typeAt(p.ID, unescape(body.Input))
}

func (q *request) typeAt(id engine.ID, text string) error {
	ctx, cancel := context.WithTimeout(q.Context(), inputTime)
	defer cancel()
	err := q.live.WriteProcess(ctx, q.caller, q.workspace, id, []byte(text), false)
	switch {
	case errors.Is(err, engine.ErrConflict):
		return wire.Refuse(http.StatusBadRequest, "Process has already exited")
	case errors.Is(err, engine.ErrCanceled) && q.Context().Err() == nil:
		return wire.Refuse(http.StatusBadRequest, "The process does not read its input: not all of it was taken.")
	}
	return err
}

func (q *request) killCommand() (any, error) {
	p, c, err := q.command(false)
	if err != nil {
		return nil, err
	}
	signal := "SIGTERM"
	if q.flag("force", false) {
		signal = "SIGKILL"
	}
	if q.problem != nil {
		return nil, q.problem
	}
	q.mu.Lock()
	c.killed = c.killed || p.Running
	q.mu.Unlock()
	if err := q.live.SignalProcess(q.Context(), q.caller, q.workspace, p.ID, signal); err != nil &&
		!errors.Is(err, engine.ErrConflict) {
		return nil, err
	}
	return map[string]string{"status": "killed"}, nil
}
