package command

import (
	"fmt"
	"strings"

	"github.com/dustin/go-humanize/english"
)

// QuoteForShell returns a word, quoted for a shell if need be.
func QuoteForShell(word string) string {
	plain := func(r rune) bool {
		return r >= 'a' && r <= 'z' || r >= 'A' && r <= 'Z' || r >= '0' && r <= '9' || strings.ContainsRune("/._-+,:@%", r)
	}
	if word != "" && !strings.ContainsFunc(word, func(r rune) bool { return !plain(r) }) {
		return word
	}
	return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
}

// HeldProblem returns the error about files that were not approved.
func HeldProblem(names ...string) error {
	const named = 4
	var shown, flags []string
	for _, name := range names[:min(len(names), named)] {
		shown = append(shown, PrintableName(name))
		flags = append(flags, "--allow "+QuoteForShell(PrintableName(name)))
	}
	if more := len(names) - named; more > 0 {
		shown = append(shown, fmt.Sprintf("%d more", more))
		flags = []string{"--allow PATTERN for each"}
	}
	it, its := "it", "its"
	if len(names) > 1 {
		it, its = "them", "their"
	}
	return Fail(ExitApproval, fmt.Sprintf("look at %s first; %s saves %[1]s, and a pattern such as --allow '**' saves "+
		"all of %[3]s kind", it, strings.Join(flags, " "), its),
		"a person has to agree first to %s", english.WordSeries(shown, "and"))
}
