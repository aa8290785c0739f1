package engine

import (
	"encoding/json"
	"time"
)

// Profile carries what differs between the protocols (the edges) through
// which a run can come. An edge fills it; the engine passes most of it on.
type Profile struct {
	Origin  Origin // the protocol that lists the run and its files
	Client  string // kind of client, for History: "page", "CLI", "API, curl"
	Scope   string // Session.Scope of a session that is made for this run
	Limits  Limits // zero fields: the service's defaults; above the maxima: ErrInvalid
	Program ProgramForm
	Output  OutputForm
	Files   FileRules
	Calls   Calls
	Live    *Interpreter // the program is the interpreter of its live session; nil: it is the code
}

// ProgramForm is how the source is given.
type ProgramForm struct {
	Root    string   // working directory: /workspace (default) or /mnt/data, the same place under two names
	Home    string   // $HOME; empty: Root
	Entry   string   // file name of the code; empty: the language's, such as main.py
	Inline  bool     // code goes on the command line (bash -c), not into a file
	InStdin bool     // the edge's own program runs the source in its input
	Globals []string // modules that a Python program has without importing them
	// Locale is $LANG where the machine has that locale; empty: C.UTF-8. It is no part of a
	// fingerprint.
	Locale string
	Shown  Shown // the program as its author wrote it; zero: Code
}

// Shown is the program as its author wrote it, where an edge runs it by way of another.
type Shown struct {
	Language, Code string
}

// OutputForm is how output is shaped.
type OutputForm struct {
	EchoLast bool // print the value of a last expression, as a notebook does
	// Merge sends stderr to stdout, in the order in which the program writes. The run's
	// Stderr is empty then.
	Merge bool
	// Tap gets all output, and the hint after it, also what the run leaves out, which is then no file.
	// The program waits for it. It is called from one goroutine for each stream. nil: none.
	Tap func(Stream, []byte)
	// Whole reports that the edge can use only complete output. Limits.Output is the edge's
	// own, and its maximum does not apply.
	Whole bool
}

// FileRules are how plots and files are treated.
type FileRules struct {
	TTL     time.Duration // lifetime of the outputs; zero: the service's default
	Plots   bool          // plt.show() leaves plot_N.png
	Folders bool          // an empty folder leaves FolderMark, from which another run gets it back
	Discard bool          // the program's files are not stored: its session's workspace has them

	Private        string // path of an unstaged session file; outputs there replace it; empty: none
	PrivateInStdin bool   // its content is appended to Stdin
}

// Calls are who is called back.
type Calls struct {
	Handler CallHandler // answers calls from inside the sandbox; nil: there is no channel
	// Rounds is of a Handler that collects calls and issues them in rounds: its program waits
	// only while a round is out, since further calls may be on their way before. It sets the
	// function to call when a round is issued, and when it is answered, before any of its
	// calls return; that never blocks. nil: the program waits while a call is open.
	Rounds func(out func(bool))
	// Pauses is how long the program may wait for answers, all together, beside
	// Limits.Timeout; zero: waiting counts.
	Pauses time.Duration
}

// Interpreter is a program that is not the code but runs the cells of its live session,
// until it is cancelled.
type Interpreter struct {
	Resident Resident // nil: its output goes to the log of the run
	Fresh    bool     // this session has had no interpreter, and so no workspace, yet
	// Apart reports that Engine.Inside does not enter the sandbox of this interpreter,
	// but that of another interpreter in the same session.
	Apart bool
	// Image is the ID of the image that the session began with. Another one of the same name
	// is refused.
	Image string
	// Imports are the modules that the first cell imports, if it is known.
	Imports []string
}

// resident returns what has the interpreter, or nil.
func (p *Profile) resident() Resident {
	if p.Live == nil {
		return nil
	}
	return p.Live.Resident
}

// MarshalJSON returns what the fingerprint of a request covers of a profile. The index
// keeps fingerprints, so names and order are those of the first version.
func (p Profile) MarshalJSON() ([]byte, error) {
	live := Interpreter{}
	if p.Live != nil {
		live = *p.Live
	}
	return json.Marshal(struct {
		Origin                Origin
		Root, Entry           string
		SourceInStdin, Inline bool
		Home                  string
		Limits                Limits
		FileTTL               time.Duration
		EchoLast, ShowPlots   bool
		Globals               []string
		Folders, Discard      bool
		Host                  any // always null: a connection is no part of a request
		Pauses                time.Duration
		MergeOutput           bool   `json:",omitempty"`
		Private               string `json:",omitempty"`
		PrivateStdin          bool   `json:",omitempty"`
		Scope                 string
		WholeOutput           bool   `json:",omitempty"`
		Live                  bool   `json:",omitempty"`
		Fresh                 bool   `json:",omitempty"`
		Client                string `json:",omitempty"`
		Shown                 Shown  `json:",omitzero"`
		Apart                 bool   `json:",omitempty"`
		Image                 string `json:",omitempty"`
	}{
		p.Origin, p.Program.Root, p.Program.Entry, p.Program.InStdin, p.Program.Inline, p.Program.Home, p.Limits, p.Files.TTL,
		p.Output.EchoLast, p.Files.Plots, p.Program.Globals, p.Files.Folders, p.Files.Discard, nil, p.Calls.Pauses,
		p.Output.Merge, p.Files.Private, p.Files.PrivateInStdin, p.Scope, p.Output.Whole, p.Live != nil, live.Fresh,
		p.Client, p.Program.Shown, live.Apart, live.Image,
	})
}
