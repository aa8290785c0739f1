package engine

import (
	"cmp"
	"slices"
	"time"
)

// Source is what was asked to be run, as History shows it and runs it again.
type Source struct { // the index stores it with these tags
	Language string        `json:"language"` // as it was asked for
	Code     string        `json:"code"`
	Stdin    []byte        `json:"stdin,omitempty"`
	Args     []string      `json:"args,omitempty"`
	Entry    string        `json:"entry,omitempty"`  // file name of the code, if the request named one
	Client   string        `json:"client,omitempty"` // name of the client; empty: the run's origin says all
	Files    []FileRef     `json:"-"`
	Packages string        `json:"packages,omitempty"`
	Wall     Wall          `json:"wall,omitempty"`  // that the request named
	Image    string        `json:"image,omitempty"` // that it got, or HostImage if the request said so
	Mounts   []string      `json:"mounts,omitzero"`
	Volumes  []VolumeMount `json:"volumes,omitempty"`
	Timeout  time.Duration `json:"-"`                // zero: the default
	Memory   int64         `json:"memory,omitempty"` // zero: the default
	EchoLast bool          `json:"echo_last,omitempty"`
	Plots    bool          `json:"plots,omitempty"` // plt.show() leaves a file
}

// maxSource bounds the stored source of one request. A larger request runs, too.
const maxSource = 1 << 20

// sourceOf returns the source of a request to store, or nil for none. image is the name of
// the image that it got.
func (s *Service) sourceOf(caller Caller, asked *RunRequest, image string) *Source {
	p := &asked.Profile
	if s.cfg.DropCode || asked.DropCode || p.Live != nil || p.Origin == OriginPreview {
		return nil
	}
	kept := &Source{
		Language: asked.Language, Code: asked.Code, Stdin: asked.Stdin, Args: asked.Args, Entry: p.Program.Entry,
		Client: p.Client, Packages: asked.Packages, Image: cmp.Or(image,
			asked.Image), Mounts: asked.Mounts, Volumes: asked.Volumes, Timeout: p.Limits.Timeout, Memory: p.Limits.Memory,
		EchoLast: p.Output.EchoLast, Plots: p.Files.Plots, Files: slices.Clone(asked.Files), Wall: asked.Wall,
	}
	if p.Program.Shown.Code != "" {
		kept.Language, kept.Code = p.Program.Shown.Language, p.Program.Shown.Code
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

// Request returns a request for the same run. It has only the files of the caller: why an
// edge could pass those of another owner is not known any more.
func (k *Source) Request(caller Caller) RunRequest {
	req := RunRequest{
		Language: k.Language, Code: k.Code, Stdin: k.Stdin, Args: k.Args, Packages: k.Packages, Image: k.Image,
		Mounts: k.Mounts, Volumes: k.Volumes, Wall: k.Wall,
		Profile: Profile{
			Origin: OriginNative, Program: ProgramForm{Entry: k.Entry}, Output: OutputForm{EchoLast: k.EchoLast},
			Files: FileRules{Plots: k.Plots}, Limits: Limits{Timeout: k.Timeout, Memory: k.Memory},
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
