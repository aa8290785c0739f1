package language

import (
	"path"
	"slices"
	"strings"
)

// Tool returns the host's command of the language: the first one that Run names, else
// Compile. "/usr/bin/python3".
func (l Language) Tool() string {
	for _, words := range [][]string{l.Run, l.Compile} {
		if tool := hostCommand.FindString(strings.Join(words, " ")); tool != "" {
			return tool
		}
	}
	return ""
}

// At returns the language with the command at a path in place of its Tool. Its other
// commands, as Java's compiler, are beside that one.
func (l Language) At(command string) Language {
	tool := l.Tool()
	replace := func(words []string) []string {
		words = slices.Clone(words)
		for i := range words {
			words[i] = hostCommand.ReplaceAllStringFunc(words[i], func(found string) string {
				if found == tool {
					return command
				}
				return path.Join(path.Dir(command), path.Base(found))
			})
		}
		return words
	}
	l.Compile, l.Run, l.Inline, l.Version = replace(l.Compile), replace(l.Run), replace(l.Inline), replace(l.Version)
	return l
}
