// Package language is the table of languages that Airlock runs. A language is
// one row: what its file is called, how it is started, what must be installed.
// Whoever adds a row has added the language everywhere.
package language

import "strings"

// Language is one row of the table.
type Language struct {
	Name    string   // "python"
	Aliases []string // other names that clients use
	Title   string   // "Python", for people
	Entry   string   // file that the code is written to: "main.py"

	// Run is the command that runs the entry file; "{entry}" in it becomes the
	// file's path and the program's arguments follow.
	Run []string
	// Inline is the command that takes the code itself as "{code}"; nil where
	// the language has none.
	Inline []string
	// Version is the command whose first line of output names the version.
	Version []string
	// Env is the environment that the language needs, as "NAME=value".
	Env []string
	// Packages are the Debian packages that provide it.
	Packages []string
}

var table = []Language{
	{
		Name:    "python",
		Aliases: []string{"py", "python3"},
		Title:   "Python",
		Entry:   "main.py",
		Run:     []string{"/usr/bin/python3", "{entry}"},
		Inline:  []string{"/usr/bin/python3", "-c", "{code}"},
		Version: []string{"/usr/bin/python3", "--version"},
		Env: []string{
			"PYTHONUNBUFFERED=1",
			"PYTHONDONTWRITEBYTECODE=1",
			"PYTHONIOENCODING=utf-8",
			"MPLBACKEND=Agg",
			"MPLCONFIGDIR=/tmp/matplotlib",
			"OPENBLAS_NUM_THREADS=1",
			"OMP_NUM_THREADS=1",
			"JE_ARROW_MALLOC_CONF=background_thread:false", // a thread that no fork would have
		},
		Packages: []string{"python3"},
	},
	{
		Name:     "bash",
		Aliases:  []string{"sh", "shell"},
		Title:    "Bash",
		Entry:    "main.sh",
		Run:      []string{"/usr/bin/bash", "{entry}"},
		Inline:   []string{"/usr/bin/bash", "-c", "{code}", "bash"},
		Version:  []string{"/usr/bin/bash", "--version"},
		Packages: []string{"bash", "coreutils", "jq"},
	},
}

// All returns the table in order.
func All() []Language { return append([]Language(nil), table...) }

// Find returns the language of that name or alias, in any case.
func Find(name string) (Language, bool) {
	name = strings.ToLower(name)
	for _, l := range table {
		if l.Name == name {
			return l, true
		}
		for _, alias := range l.Aliases {
			if alias == name {
				return l, true
			}
		}
	}
	return Language{}, false
}

// Command returns argv for the code: in the file entry, or, with inline set
// and where the language can, on the command line.
func (l Language) Command(entry, code string, inline bool, args []string) []string {
	pattern := l.Run
	if inline && l.Inline != nil {
		pattern = l.Inline
	}
	argv := make([]string, 0, len(pattern)+len(args))
	for _, word := range pattern {
		switch word {
		case "{entry}":
			word = entry
		case "{code}":
			word = code
		}
		argv = append(argv, word)
	}
	return append(argv, args...)
}
