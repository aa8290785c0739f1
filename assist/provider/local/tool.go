package local

import (
	"context"
	"encoding/json"
	"io"
	"strings"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/pytool"
)

// execution is one call of run_python. The tool copies files between a chat application and
// the runner. Here the runner has all files, so that execution copies nothing: the upload of
// a file returns its id, and outputs are recorded instead of fetched.
type execution struct {
	Runner
	made []pytool.OutputFile
}

func (e *execution) Upload(ctx context.Context, name string, size int64, content io.Reader) (string, error) {
	if there, ok := content.(*kept); ok {
		return there.id, nil
	}
	return e.Runner.Upload(ctx, name, size, content)
}

func (e *execution) Execute(
	ctx context.Context, r pytool.Request, output func(pytool.Stream, string),
) (pytool.Outcome, error) {
	o, err := e.Runner.Execute(ctx, r, output)
	e.made, o.Files = o.Files, nil
	return o, err
}

func (e *execution) Open(ctx context.Context, id string) (io.ReadCloser, error) {
	return &kept{ctx: ctx, runner: e.Runner, id: id}, nil
}

// Save implements pytool.FileStore. It is not called.
func (e *execution) Save(ctx context.Context, name, _ string, content io.Reader) (string, error) {
	return "", pytool.ErrFileGone
}

func (e *execution) Link(id string) string { return id }

// kept is a file of the runner, which the first Read opens.
type kept struct {
	ctx    context.Context //nolint:containedctx // of one call, like the reader itself
	runner Runner
	id     string
	body   io.ReadCloser
}

func (k *kept) Read(p []byte) (int, error) {
	if k.body == nil {
		body, err := k.runner.Download(k.ctx, k.id)
		if err != nil {
			return 0, err
		}
		k.body = body
	}
	return k.body.Read(p)
}

func (k *kept) Close() error {
	if k.body == nil {
		return nil
	}
	return k.body.Close()
}

// ran is the result of an execution.
type ran struct {
	step  provider.Step
	reply string // to the model
	made  []provider.FileInfo
}

// run carries out a call of run_python.
func (c *Client) run(
	ctx context.Context, session string, files []provider.FileInfo, call toolCall, send func(provider.Event),
) (ran, error) {
	e := &execution{Runner: c.options.Runner}
	tool, err := pytool.New(pytool.Options{Config: c.options.Config, Store: e, Runner: e, Now: c.options.Clock.Now})
	if err != nil {
		return ran{}, err
	}
	var chat []pytool.ChatFile
	for _, f := range files {
		chat = append(chat, pytool.ChatFile{ID: f.Ref.ID, Name: f.Ref.Path})
	}
	r := ran{step: provider.Step{ID: call.ID, Tool: pytool.Name, Language: "python", Code: call.code(),
		Started: c.options.Clock.Now()}}
	send(provider.StepStarted{Step: r.step})
	result := tool.Run(ctx, pytool.Call{Arguments: json.RawMessage(call.Function.Arguments), Files: chat},
		func(p pytool.Packet) {
			if d, ok := p.Obj.(pytool.ToolDelta); ok {
				for stream, data := range map[string]string{"stdout": d.Stdout, "stderr": d.Stderr} {
					if data != "" {
						send(provider.OutputDelta{StepID: call.ID, Stream: stream, Data: data})
					}
				}
			}
		})
	for _, f := range e.made {
		name := f.Path
		result.GeneratedFiles = append(result.GeneratedFiles, pytool.GeneratedFile{
			Filename: name, FileLink: "sandbox:" + name})
		r.made = append(r.made, provider.FileInfo{
			Ref: provider.FileRef{Provider: provider.Local, Scope: provider.ScopeSession, ID: f.ID, Session: session,
				Path: name},
			Name: name[strings.LastIndex(name, "/")+1:], MIME: pytool.TypeOf(name), Size: -1, Created: c.options.Clock.Now(),
			Origin: provider.OriginModel, Readable: true, State: provider.StateReady,
		})
	}
	r.reply = result.JSON()
	r.step.Stdout, r.step.Stderr, r.step.ExitCode, r.step.Ended = result.Stdout, result.Stderr, result.ExitCode,
		c.options.Clock.Now()
	if result.StagingNotice != nil {
		r.step.Detail = *result.StagingNotice
	}
	switch {
	case ctx.Err() != nil && (result.ExitCode == nil || *result.ExitCode < 0):
		r.step.Outcome, r.step.ExitCode = provider.OutcomeCancelled, nil
	case result.TimedOut:
		r.step.Outcome = provider.OutcomeTimeout
	case result.ExitCode != nil && *result.ExitCode == 0:
		r.step.Outcome = provider.OutcomeOK
	case result.ExitCode != nil && *result.ExitCode < 0: // it could not be run
		r.step.Outcome = provider.OutcomeUnavailable
	default:
		r.step.Outcome = provider.OutcomeFailed
	}
	return r, context.Cause(ctx)
}
