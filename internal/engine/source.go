package engine

import (
	"cmp"
	"slices"
	"time"
)

// Source is what was asked to be run, as History shows it and runs it again.
type Source struct {
	Language string // as it was asked for
	Code     string
	Stdin    []byte
	Args     []string
	Entry    string // file name of the code, if the request named one
	Client   string // what asked, in its own words; empty: the run's origin says all
	Files    []FileRef
	Packages string
	Timeout  time.Duration // zero: the default
	Memory   int64         // zero: the default
	EchoLast bool
	Plots    bool // plt.show() leaves a file
}

// Shown is the program as its author wrote it, where an edge runs it by way of another.
type Shown struct {
	Language, Code string
}

// maxSource bounds what is kept of one request. A larger one is run all the same.
const maxSource = 1 << 20

// sourceOf returns what is to be kept of a request as it was made; nil: nothing.
func (s *Service) sourceOf(caller Caller, asked *RunRequest) *Source {
	p := &asked.Profile
	if s.cfg.DropCode || asked.DropCode || p.Live || p.Origin == OriginPreview {
		return nil
	}
	kept := &Source{
		Language: asked.Language, Code: asked.Code, Stdin: asked.Stdin, Args: asked.Args, Entry: p.Entry,
		Client: p.Client, Packages: asked.Packages, Timeout: p.Limits.Timeout, Memory: p.Limits.Memory,
		EchoLast: p.EchoLast, Plots: p.ShowPlots, Files: slices.Clone(asked.Files),
	}
	if p.Shown.Code != "" {
		kept.Language, kept.Code = p.Shown.Language, p.Shown.Code
		kept.Stdin, kept.Entry = nil, ""
	}
	for i := range kept.Files {
		kept.Files[i].Owner = cmp.Or(kept.Files[i].Owner, caller.Owner)
	}
	if kept.size() > maxSource {
		return nil
	}
	return kept
}

func (k *Source) size() int {
	if k == nil {
		return 0
	}
	n := len(k.Code) + len(k.Stdin)
	for _, arg := range k.Args {
		n += len(arg)
	}
	return n
}

// Request is the run that asks for the same again. Only files of the caller's own come
// with it: whatever let an edge hand out another owner's is not known any more.
func (k *Source) Request(caller Caller) RunRequest {
	req := RunRequest{
		Language: k.Language, Code: k.Code, Stdin: k.Stdin, Args: k.Args, Packages: k.Packages,
		Profile: Profile{
			Origin: OriginNative, Entry: k.Entry, EchoLast: k.EchoLast, ShowPlots: k.Plots,
			Limits: Limits{Timeout: k.Timeout, Memory: k.Memory},
		},
	}
	for _, f := range k.Files {
		if f.Owner == caller.Owner {
			f.Owner = ""
			req.Files = append(req.Files, f)
		}
	}
	return req
}
