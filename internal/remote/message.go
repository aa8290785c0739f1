package remote

import (
	"errors"
	"net/http"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
)

// Names and code of programs need not be UTF-8, so that messages carry them as bytes.

// runRequest is a program to run.
type runRequest struct {
	Spec   engine.Spec // without the fields that follow
	Code   []byte
	Args   [][]byte
	Inputs []input
	Lease  lease `json:",omitzero"` // of the workspace that Spec.Held names

	Secrets []engine.RevealedSecret `json:",omitempty"` // of Spec.Network.Grant
}

type input struct {
	Path     []byte
	Blob     engine.Blob
	ReadOnly bool `json:",omitempty"`
}

func newRunRequest(spec *engine.Spec, l lease) *runRequest {
	r := &runRequest{Lease: l, Spec: *spec, Code: []byte(spec.Code), Inputs: newInputs(spec.Inputs)}
	for _, a := range spec.Args {
		r.Args = append(r.Args, []byte(a))
	}
	r.Spec.Code, r.Spec.Args, r.Spec.Inputs = "", nil, nil
	if spec.Image != nil { // the executor reads the names of its modules from its own record
		image := *spec.Image
		image.Modules = nil
		r.Spec.Image = &image
	}
	if spec.Network != nil && spec.Network.Grant != nil {
		r.Secrets = spec.Network.Grant.Reveal()
	}
	return r
}

func newInputs(list []engine.Input) []input {
	inputs := make([]input, len(list))
	for i, in := range list {
		inputs[i] = input{Path: []byte(in.Path), Blob: engine.Blob{SHA256: in.SHA256, Size: in.Size}, ReadOnly: in.ReadOnly}
	}
	return inputs
}

// spec returns the program for the sandbox of the worker, without inputs.
func (r *runRequest) spec() *engine.Spec {
	spec := r.Spec
	spec.Code = string(r.Code)
	for _, a := range r.Args {
		spec.Args = append(spec.Args, string(a))
	}
	if len(r.Secrets) > 0 && spec.Network != nil && spec.Network.Grant != nil {
		spec.Network.Grant.SetSecrets(r.Secrets)
	}
	return &spec
}

// blobAddress tells a worker where to read or write a blob. For an output no field is set if
// the blob is stored already.
type blobAddress struct {
	URL    string      `json:",omitempty"` // presigned
	Header http.Header `json:",omitempty"` // of the request to URL
	Stream bool        `json:",omitempty"` // on this stream, in place of URL
	Error  *failure    `json:",omitempty"`
}

// imageAddress tells a worker where to read the archive of an image.
type imageAddress struct {
	Image engine.Image
	URL   string   `json:",omitempty"` // presigned
	Error *failure `json:",omitempty"`
}

func (p *blobAddress) isStored() bool { return p.URL == "" && !p.Stream && p.Error == nil }

type call struct {
	ID    uint64
	Name  string
	Input []byte
}

type callAnswer struct {
	ID     uint64
	Answer []byte
	Error  string `json:",omitempty"`
}

type rest struct {
	Resting bool
	Memory  int64
}

// contacts are the hosts that a program with a network grant has contacted.
type contacts struct {
	List  []engine.Contact
	Fault string `json:",omitempty"` // why it had no network
}

// result reports the end of a run, or of another request about workspaces.
type result struct {
	Free    *int            `json:",omitempty"` // slots of the worker
	Outcome *engine.Outcome `json:",omitempty"`
	Changes *engine.Changes `json:",omitempty"`
	Outputs []output        `json:",omitempty"` // of Outcome or Changes
	Error   *failure        `json:",omitempty"`
}

type output struct {
	Path      string
	Blob      engine.Blob
	Head      []byte
	Input     bool `json:",omitempty"`
	Respelled bool `json:",omitempty"`
}

// failure carries an engine.Error.
type failure struct {
	Op, Text, Hint, Cause string
	Kind                  engine.Kind
	RetryAfter            time.Duration `json:",omitempty"`
	NoProgram             bool          `json:",omitempty"` // the cause is engine.ErrNoProgram
	NoWall                bool          `json:",omitempty"` // the cause is engine.ErrNoWall
}

func newFailure(err error) *failure {
	f := &failure{Kind: engine.KindOf(err), Text: err.Error(), NoProgram: errors.Is(err, engine.ErrNoProgram),
		NoWall: errors.Is(err, engine.ErrNoWall)}
	if e, ok := errors.AsType[*engine.Error](err); ok {
		f.Op, f.Hint, f.Cause, f.RetryAfter = e.Op, e.Hint, e.Cause, e.RetryAfter
		f.Text = ""
		if e.Err != nil {
			f.Text = e.Err.Error()
		}
	}
	return f
}

func (f *failure) err() error {
	if f.NoWall {
		return engine.NoWall(f.Text, f.Hint)
	}
	e := &engine.Error{Op: f.Op, Kind: f.Kind, Hint: f.Hint, Cause: f.Cause, RetryAfter: f.RetryAfter}
	switch {
	case f.NoProgram:
		e.Err = engine.ErrNoProgram
	case f.Text != "":
		e.Err = errors.New(f.Text)
	}
	return e
}
