// Package language is the table of languages that Airlock runs. A language is
// one row: what its file is called, how it is compiled and started, what must
// be installed. A row is all that a new language takes.
package language

import (
	"slices"
	"strings"
)

// Language is one row of the table.
type Language struct {
	Name    string   // "python"
	Aliases []string // other names that clients use
	Title   string   // "Python", for people
	Entry   string   // file that the code is written to: "main.py"
	Default bool     // set up unless others are named

	// Compile is the command that makes a program of the entry file, nil where
	// there is nothing to compile. It runs in the sandbox, right before the
	// program; what it says goes to stderr, and if it fails the run ends there
	// with exit code 1. In it and in Run, words are replaced as Command says.
	Compile []string
	// Run is the command that runs the program; the program's arguments follow.
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

// All returns the table in order.
func All() []Language { return slices.Clone(table) }

// Find returns the language of that name or alias, in any case.
func Find(name string) (Language, bool) {
	name = strings.ToLower(name)
	i := slices.IndexFunc(table, func(l Language) bool { return l.Name == name || slices.Contains(l.Aliases, name) })
	if i < 0 {
		return Language{}, false
	}
	return table[i], true
}
