package live

import (
	"bytes"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/engine"
)

// Short commands in the sandbox read facts that only the sandbox has. They run with its isolation,
// user and limits. They are not listed or counted as processes.

//go:embed look.py
var lookProgram string

const (
	lookTime = 30 * time.Second
	maxLook  = 8 << 20  // bytes of an answer
	maxRead  = 64 << 20 // of a file that is neither in the workspace nor in /tmp
)

// look calls a function of look.py in the sandbox.
func (v *view) look(ctx context.Context, into any, function string, args ...any) error {
	text, err := json.Marshal(append([]any{}, args...)) // encodes no arguments as [], not null
	if err != nil {
		return err
	}
	argv := []string{"/usr/bin/python3", "-I", "-S", "-c", lookProgram, function}
	if function == "document" { // uses Python packages
		argv = slices.Delete(argv, 2, 3)
	}
	var answer bytes.Buffer
	if err := v.command(ctx, &answer, maxLook, bytes.NewReader(text), argv...); err != nil {
		return err
	}
	return json.Unmarshal(answer.Bytes(), into)
}

// command runs a command in the sandbox to its end. It is killed when lookTime or ctx ends, when its input
// cannot be read, and when it writes more than most bytes.
func (v *view) command(ctx context.Context, out io.Writer, most int64, stdin io.Reader, argv ...string) error {
	ctx, cancel := context.WithTimeout(ctx, lookTime)
	defer cancel()
	return v.slowCommand(ctx, out, most, stdin, argv...)
}

// slowCommand is command without an end of its own.
func (v *view) slowCommand(ctx context.Context, out io.Writer, most int64, stdin io.Reader, argv ...string) error {
	e, err := v.service.acquire(ctx, v.caller, v.session.ID) // it may be frozen
	if err != nil {
		return err
	}
	defer e.release()
	p, err := v.service.engine.Inside().Start(ctx, v.session.ID, &engine.ProcessSpec{Argv: argv, Dir: workspaceNames[0]})
	if err != nil {
		return sandboxError(err)
	}
	defer e.it.at.noteLook(p.PID())()
	end := sync.OnceFunc(func() { p.Close() })
	defer end()
	stop := context.AfterFunc(ctx, end)
	defer stop()
	var problem bytes.Buffer
	var streams sync.WaitGroup
	var inputErr error
	streams.Go(func() {
		if stdin != nil {
			input := &failing{Reader: stdin}
			_, _ = io.Copy(p.Stdin(), input) // a command need not read all of it
			inputErr = input.err
		}
		if inputErr != nil {
			end() // before the command takes a part for the whole
			return
		}
		_ = p.Stdin().Close()
	})
	streams.Go(func() {
		_, _ = io.Copy(&problem, io.LimitReader(p.Stderr(), 64<<10))
		_, _ = io.Copy(io.Discard, p.Stderr()) // else the command would wait for a reader
	})
	n, copyErr := io.Copy(out, io.LimitReader(p.Stdout(), most+1))
	if n > most {
		return &engine.Error{Op: "look", Kind: engine.ErrTooLarge,
			Err: errors.New("there is more than can be answered at once")}
	}
	streams.Wait()
	ended, err := p.Wait()
	switch {
	case ctx.Err() != nil:
		return canceled(ctx)
	case inputErr != nil:
		return inputErr
	case err != nil || copyErr != nil:
		return errors.Join(err, copyErr)
	case ended.ExitCode != 0:
		lines := strings.Split(strings.TrimSpace(problem.String()), "\n")
		return &engine.Error{Op: "look", Kind: engine.ErrInvalid, Err: errors.New(lines[len(lines)-1])}
	}
	return nil
}

// failing remembers why reading has failed.
type failing struct {
	io.Reader
	err error
}

// Read implements io.Reader.
func (f *failing) Read(p []byte) (int, error) {
	n, err := f.Reader.Read(p)
	if err != nil && err != io.EOF {
		f.err = err
	}
	return n, err
}

// looked is a file as look.py describes it.
type looked struct {
	Path     string  `json:"path"` // without links; for one of a list, in its folder
	Exists   bool    `json:"exists"`
	Kind     string  `json:"kind"`
	Size     int64   `json:"size"`
	Mode     uint32  `json:"mode"`
	Modified float64 `json:"modified"`
	Target   string  `json:"target"`
	Leads    string  `json:"leads"`
}

func (l *looked) entry(name string) engine.Entry {
	seconds, part := math.Modf(l.Modified)
	return engine.Entry{Path: name, Kind: engine.EntryKind(l.Kind), Size: l.Size, Mode: fs.FileMode(l.Mode),
		Modified: time.Unix(int64(seconds), int64(part*1e9)).UTC(), Target: l.Target, Leads: engine.EntryKind(l.Leads)}
}

// list is Files.List for the rest of the sandbox.
func (v *view) list(ctx context.Context, name string, depth int) (entries []engine.Entry, more bool, err error) {
	var answer struct {
		Entries []looked `json:"entries"`
		More    bool     `json:"more"`
	}
	if err := v.look(ctx, &answer, "listing", name, min(depth, maxDepth)); err != nil {
		if _, gone := v.stat(ctx, location{path: name}); errors.Is(gone, engine.ErrNotFound) {
			err = gone
		}
		return nil, false, err
	}
	for i := range answer.Entries {
		entries = append(entries, answer.Entries[i].entry(answer.Entries[i].Path))
	}
	return entries, answer.More, nil
}

// open is Files.Open for the rest of the sandbox, whose programs read the file.
func (v *view) open(ctx context.Context, p location) (*os.File, engine.Entry, error) {
	found, err := v.stat(ctx, p)
	if err != nil {
		return nil, found, err
	}
	if found.Kind != engine.EntryFile {
		return nil, found, engine.Invalid("path", "it is not a regular file")
	}
	fd, err := unix.MemfdCreate("content", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, found, err
	}
	f := os.NewFile(uintptr(fd), p.path)
	err = v.command(ctx, f, maxRead, nil, "/bin/cat", "--", p.path)
	if err == nil {
		found.Size, err = f.Seek(0, io.SeekCurrent)
	}
	if err == nil {
		_, err = f.Seek(0, io.SeekStart)
	}
	if err != nil {
		f.Close()
		return nil, found, err
	}
	return f, found, nil
}

// Search describes a search below an absolute path or in the file that it names.
type Search struct {
	Path       string   `json:"path"`
	Query      string   `json:"query"`
	Regex      bool     `json:"regex,omitempty"`
	IgnoreCase bool     `json:"ignore_case,omitempty"`
	Include    []string `json:"include,omitempty"` // patterns of names; none: all
	Exclude    []string `json:"exclude,omitempty"`
	Kind       string   `json:"kind,omitempty"` // file or directory; empty: both
	PerLine    bool     `json:"per_line,omitempty"`
	Hidden     bool     `json:"hidden,omitempty"`
	Offset     int      `json:"offset,omitempty"`
	Most       int      `json:"most"`
}

// Found is the result of a search. The form of Matches depends on the function of look.py.
type Found struct {
	Matches json.RawMessage `json:"matches"`
	More    bool            `json:"more"`
}

// maxDepth bounds a list of the rest of the sandbox.
const maxDepth = 64

// SearchFiles searches the files of a session with a function of look.py: "grep" by content, "glob"
// by patterns of names, "search" by names, ranked, "matches" by both.
func (s *Service) SearchFiles(
	ctx context.Context, caller engine.Caller, session engine.ID, way string, q Search,
) (found Found, err error) {
	err = s.look(ctx, caller, session, &found, way, q)
	return found, err
}

// DocumentText returns the text of a PDF or of an office document.
func (s *Service) DocumentText(
	ctx context.Context, caller engine.Caller, session engine.ID, path string,
) (text string, err error) {
	err = s.look(ctx, caller, session, &text, "document", path)
	return text, err
}

// Ports returns the TCP ports on which programs of a session listen.
func (s *Service) Ports(ctx context.Context, caller engine.Caller, session engine.ID) (ports []int, err error) {
	err = s.look(ctx, caller, session, &ports, "ports")
	return ports, err
}

func (s *Service) look(
	ctx context.Context, caller engine.Caller, session engine.ID, into any, function string, args ...any,
) error {
	v, err := s.visit(ctx, caller, session)
	if err != nil {
		return err
	}
	defer v.release()
	return v.look(ctx, into, function, args...)
}

// Usage returns the usage of a session's sandbox, or zeros if it has none.
func (s *Service) Usage(ctx context.Context, caller engine.Caller, session engine.ID) (engine.SandboxUsage, error) {
	at, err := s.find(ctx, caller, session)
	if err != nil {
		return engine.SandboxUsage{}, err
	}
	use, err := s.engine.Inside().Usage(ctx, at.record.ID)
	if errors.Is(err, engine.ErrConflict) || errors.Is(err, engine.ErrNotFound) {
		return engine.SandboxUsage{}, nil
	}
	return use, err
}
