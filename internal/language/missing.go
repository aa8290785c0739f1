package language

import (
	"os"
	"regexp"
	"strings"
)

// hostCommand is a program of a package in a command of the table, also where
// a shell starts it.
var hostCommand = regexp.MustCompile(`/usr/bin/[\w.+-]+`)

// Missing returns the first of the language's commands that is not on this
// host, empty if they all are. A compiler that is missing would else look to a
// program's author like a fault of the program.
func (l Language) Missing() (command string) {
	for _, words := range [][]string{l.Compile, l.Run} {
		for _, command := range hostCommand.FindAllString(strings.Join(words, " "), -1) {
			if info, err := os.Stat(command); err != nil || info.IsDir() {
				return command
			}
		}
	}
	return ""
}
