package guest

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// Hello configures a zygote before it imports any package. It is sent as JSON.
type Hello struct {
	Filter    string   `json:"filter"` // the system-call filter, hexadecimal
	Spawn     string   `json:"spawn"`  // machine code that creates a sandbox; may be empty
	Clone     int      `json:"clone"`  // the call, and flags for pid 1
	Flags     int      `json:"flags"`
	Finish    int      `json:"finish"`
	Rseq      int      `json:"rseq"`
	Madvise   int      `json:"madvise"`
	Getrandom int      `json:"getrandom"`
	Sigaction int      `json:"sigaction"`
	Preload   []string `json:"preload"`
	Learned   []string `json:"learned"` // imported once the shell of a live interpreter is there
	Env       []string `json:"env"`     // of most programs
	Live      bool     `json:"live"`
}

// Warning begins what a zygote writes to stderr for the log.
const Warning = "airlock: "

// Ready is the zygote's answer.
type Ready struct {
	LeftOut map[string]string // packages that could not be imported, and why
	Threads int
}

// Program is sent to a waiting sandbox, with the open files stdin, stdout, stderr and,
// if the program calls out, its channel. The executor sends the length of Encode's text
// in 4 bytes, the text, and the program's source if the request has it: Python then
// need not read its file.
type Program struct {
	Argv      []string
	Env       []string // nil: the default one
	Root      string
	EchoLast  bool
	ShowPlots bool
	Globals   []string // modules
	Alone     bool     // the program's file is the only one in its folder
}

// The workspace, and the file of most programs.
const (
	workspace  = "/workspace"
	usualEntry = workspace + "/main.py"
)

// Encode returns the fields, separated by zero bytes, which no field contains. It
// returns "" for a usual program.
func (p *Program) Encode() (string, error) {
	if p.isUsual() {
		return "", nil
	}
	flags := []byte("0000")
	for i, yes := range []bool{p.EchoLast, p.ShowPlots, p.Alone, p.Env != nil} {
		if yes {
			flags[i] = '1'
		}
	}
	arguments := p.Argv[1:] // without the interpreter
	fields := slices.Concat([]string{string(flags), p.Root, strings.Join(p.Globals, " "), strconv.Itoa(len(arguments))},
		arguments, p.Env)
	if slices.ContainsFunc(fields, func(f string) bool { return strings.Contains(f, "\x00") }) {
		return "", errors.New("a zero byte in what a program is handed")
	}
	return strings.Join(fields, "\x00"), nil
}

// isUsual reports whether the program differs from most only in its source; buffer.py
// has the other fields.
func (p *Program) isUsual() bool {
	return len(p.Argv) == 2 && p.Argv[1] == usualEntry && p.Env == nil && p.Root == workspace &&
		!p.EchoLast && !p.ShowPlots && len(p.Globals) == 0 && p.Alone
}
