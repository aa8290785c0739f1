package cli

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
)

// imageProber runs commands of images in a sandbox of this process.
type imageProber struct {
	app     *app
	sandbox engine.Sandbox // nil: not started
}

// probeLimits bound a command that says its version.
var probeLimits = engine.Limits{Timeout: 30 * time.Second, Memory: 1 << 30, Processes: 128, Workspace: 16 << 20,
	Inodes: 1000}

// Run implements oci.Prober.
func (p *imageProber) Run(ctx context.Context, image *engine.Image, argv []string) (oci.Output, error) {
	if p.sandbox == nil {
		sandbox, err := p.app.openSandbox(ctx, nil, nil, p.app.sandboxes(p.app.ownLauncher(0)), false)
		if err != nil {
			return oci.Output{}, err
		}
		p.sandbox = sandbox
	}
	heard := &probeHost{}
	outcome, err := p.sandbox.Run(ctx, &engine.Spec{
		Owner: engine.Local, Image: image, Root: "/workspace", Home: "/workspace", Entry: "main",
		Language: language.Language{Name: "probe", Entry: "main", Run: argv}, Limits: probeLimits,
	}, heard)
	if errors.Is(err, engine.ErrNoLanguage) {
		return oci.Output{Failure: "it cannot be executed, because its loader or interpreter is missing or for another " +
			"machine"}, nil
	}
	if err != nil {
		return oci.Output{}, err
	}
	for _, o := range outcome.Outputs {
		o.File.Close()
	}
	out := oci.Output{Stdout: heard.stdout.String(), Stderr: heard.stderr.String()}
	switch {
	case outcome.Cancelled:
		return oci.Output{}, ctx.Err()
	case outcome.TimedOut:
		out.Failure = fmt.Sprintf("it does not end within %s", probeLimits.Timeout)
	case outcome.OOM:
		out.Failure = "it needs too much memory"
	case outcome.Signal != "":
		out.Failure = "it ended with " + outcome.Signal
	case outcome.ExitCode == nil:
		out.Failure = "it could not be started"
	default:
		out.Code = *outcome.ExitCode
	}
	return out, nil
}

// Release implements oci.Prober.
func (p *imageProber) Release() {
	if p.sandbox != nil {
		_ = p.sandbox.Close() // its programs have ended
		p.sandbox = nil
	}
}

// probeHost keeps what a command writes.
type probeHost struct {
	mu             sync.Mutex
	stdout, stderr bytes.Buffer
}

// maxProbe bounds each stream of a command.
const maxProbe = 1 << 20

// Output implements engine.Host.
func (h *probeHost) Output(stream engine.Stream, data []byte) {
	h.mu.Lock()
	defer h.mu.Unlock()
	to := &h.stdout
	if stream == engine.Stderr {
		to = &h.stderr
	}
	to.Write(data[:min(len(data), maxProbe-to.Len())])
}

// Call implements engine.Host.
func (*probeHost) Call(context.Context, string, []byte) ([]byte, error) {
	return nil, errors.ErrUnsupported
}

// SetControls implements engine.Host.
func (*probeHost) SetControls(engine.Controls) {}

// Rest implements engine.Host.
func (*probeHost) Rest(bool, int64) {}

// Listener implements engine.Host.
func (*probeHost) Listener(file *os.File) { file.Close() }

// Contacted implements engine.Host.
func (*probeHost) Contacted([]engine.Contact, string) {}
