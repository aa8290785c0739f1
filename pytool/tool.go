package pytool

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"path"
	"strings"
	"time"
)

// Options make a Tool. Store is required.
type Options struct {
	Config Config // zero fields have the defaults; an empty BaseURL: there is no service
	Store  FileStore

	Runner  Runner                     // nil: a Service at Config.BaseURL
	Enabled func(context.Context) bool // the operator's switch; nil: on
	Log     *slog.Logger               // nil: nothing is logged
	Now     func() time.Time           // nil: time.Now
}

// Tool is the tool of one application. Many goroutines may use it.
type Tool struct {
	cfg     Config
	store   FileStore
	runner  Runner // nil: none is set
	enabled func(context.Context) bool
	log     *slog.Logger
	now     func() time.Time
	health  healthCache
	staged  stagedIDs
}

// New returns a tool. A tool without a service is never Available. New fails if the base URL
// is invalid.
func New(o Options) (*Tool, error) {
	if o.Store == nil {
		return nil, errors.New("pytool: a file store is needed")
	}
	t := &Tool{cfg: o.Config.fill(), store: o.Store, runner: o.Runner, enabled: o.Enabled, log: o.Log, now: o.Now}
	t.log = cmp.Or(t.log, slog.New(slog.DiscardHandler))
	if t.now == nil {
		t.now = time.Now
	}
	if t.runner == nil && t.cfg.BaseURL != "" {
		service, err := NewService(t.cfg.BaseURL, ServiceOptions{})
		if err != nil {
			return nil, err
		}
		t.runner = service
	}
	return t, nil
}

// Call is a call of the tool by a model.
type Call struct {
	Arguments json.RawMessage // as the model wrote them: {"code":"..."}
	Placement Placement
	Files     []ChatFile // of the chat, the oldest first
}

// Run carries out a call and sends packets to the page, from one goroutine and in order. It
// always returns a result for the model, and the last packet always ends the section. send may
// be nil, without a page.
func (t *Tool) Run(ctx context.Context, call Call, send func(Packet)) (result Result) {
	if send == nil {
		send = func(Packet) {}
	}
	r := &run{tool: t, at: call.Placement, send: send}
	defer send(newEnd(call.Placement))
	defer func() {
		if fault := recover(); fault != nil {
			t.log.ErrorContext(ctx, "a call of the tool panicked", "panic", fmt.Sprintf("%.200v", fault))
			result = r.fail(errors.New("internal fault"))
		}
	}()
	code, err := readCode(call.Arguments)
	if err != nil {
		return failed("Tool failed with error: " + err.Error())
	}
	send(newStart(call.Placement, code))
	if t.runner == nil {
		return r.fail(errors.New(t.Available(ctx).Reason))
	}
	return r.execute(ctx, code, call.Files)
}

func readCode(arguments json.RawMessage) (string, error) {
	var given struct {
		Code *string `json:"code"`
	}
	if err := json.Unmarshal(arguments, &given); err != nil || given.Code == nil {
		return "", errors.New(`The ` + Name + ` tool requires a 'code' parameter with the Python source code to execute, as in {"code": "print(1)"}.`) //nolint:staticcheck // the model reads it as a sentence
	}
	return *given.Code, nil
}

// run is a call under way.
type run struct {
	tool *Tool
	at   Placement
	send func(Packet)
}

// fail sends an error to the page and returns it for the model.
func (r *run) fail(err error) Result {
	text := err.Error()
	r.send(newDelta(r.at, "", text))
	return failed(text)
}

// errStopped is the result of a call that its caller has ended.
var errStopped = errors.New("stopped")

// cleanTime bounds the clean-up after the caller has left.
const cleanTime = 30 * time.Second

func (r *run) execute(ctx context.Context, code string, files []ChatFile) Result {
	t := r.tool
	stdout, stderr := &clip{most: t.cfg.MaxOutput}, &clip{most: t.cfg.MaxOutput}
	output := func(stream Stream, text string) {
		if stream == Stderr {
			stderr.write(text)
			r.send(newDelta(r.at, "", text))
			return
		}
		stdout.write(text)
		r.send(newDelta(r.at, text, ""))
	}
	outcome, notice, err := t.execute(ctx, code, files, output)
	if err != nil && errors.Is(context.Cause(ctx), context.Canceled) { // no cause says more
		err = errStopped
	} else if err != nil {
		t.log.WarnContext(ctx, "a script could not be run", "error", err)
	}
	if err != nil {
		result := r.fail(err)
		if errors.Is(err, errStopped) { // after any other failure the original has no output
			result.Stdout, result.Stderr = stdout.String(), stderr.String()+result.Stderr
		}
		result.StagingNotice = orNull(notice)
		return result
	}
	result := Result{
		Type: resultType, ExitCode: outcome.ExitCode, TimedOut: outcome.TimedOut,
		GeneratedFiles: []GeneratedFile{}, StagingNotice: orNull(notice),
	}
	if lost := r.save(ctx, outcome.Files, &result); len(lost) > 0 {
		text := fmt.Sprintf("[%d generated file(s) could not be saved: %s]\n", len(lost), strings.Join(lost, ", "))
		stderr.write(text)
		r.send(newDelta(r.at, "", text))
	}
	if len(result.FileIDs) > 0 {
		r.send(newDelta(r.at, "", "", result.FileIDs...))
	}
	result.Stdout, result.Stderr = stdout.String(), stderr.String()
	if outcome.ExitCode == nil || *outcome.ExitCode != 0 {
		result.Error = &result.Stderr
	}
	return result
}

func orNull(s string) *string {
	if s == "" {
		return nil
	}
	return &s
}

// execute stages the files and runs the code. If the service has deleted an uploaded file,
// execute stages the files once more.
func (t *Tool) execute(
	ctx context.Context, code string, files []ChatFile, output func(Stream, string),
) (Outcome, string, error) {
	for again := false; ; again = true {
		staged, notice := t.stage(ctx, code, files)
		req := Request{Code: code, Timeout: t.cfg.Timeout}
		for _, c := range staged {
			req.Files = append(req.Files, StagedFile{Path: c.name, ID: c.id})
		}
		outcome, err := t.runner.Execute(ctx, req, output)
		if errors.Is(err, ErrFileGone) {
			t.staged.forget(staged)
			if !again {
				continue
			}
		}
		return outcome, notice, err
	}
}

// save moves the files that the script made into the application's store, in order. A failure
// does not stop the others.
func (r *run) save(ctx context.Context, files []OutputFile, result *Result) (lost []string) {
	t := r.tool
	var fetched []string
	for _, f := range files {
		name := path.Base(f.Path)
		id, err := t.saveOne(ctx, name, f.ID)
		if err != nil {
			t.log.ErrorContext(ctx, "a generated file could not be saved", "file", f.ID, "error", err)
			lost = append(lost, name)
			continue
		}
		fetched = append(fetched, f.ID)
		result.FileIDs = append(result.FileIDs, id)
		result.GeneratedFiles = append(result.GeneratedFiles, GeneratedFile{Filename: name, FileLink: t.store.Link(id)})
	}
	cleaning, cancel := context.WithTimeout(context.WithoutCancel(ctx), cleanTime)
	defer cancel()
	for _, id := range fetched {
		if err := t.runner.Delete(cleaning, id); err != nil {
			t.log.WarnContext(ctx, "a fetched file could not be deleted at the service, which will do it later", "file", id,
				"error", err)
		}
	}
	return lost
}

func (t *Tool) saveOne(ctx context.Context, name, id string) (string, error) {
	content, err := t.runner.Download(ctx, id)
	if err != nil {
		return "", err
	}
	defer content.Close()
	whole := &errorReader{from: content}
	saved, err := t.store.Save(ctx, name, TypeOf(name), whole)
	if err == nil {
		err = whole.err
	}
	return saved, err
}

// errorReader records a read error, which a store may take for the end.
type errorReader struct {
	from io.Reader
	err  error
}

func (h *errorReader) Read(p []byte) (int, error) {
	n, err := h.from.Read(p)
	if err != nil && err != io.EOF {
		h.err = err
	}
	return n, err
}
