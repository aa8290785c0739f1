package command

import "strings"

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

// HeldProblem returns the error about a file that was not approved.
func HeldProblem(name string) error {
	return Fail(ExitApproval, "look at it first; --allow "+QuoteForShell(PrintableName(name))+
		" saves it, and a pattern such as --allow '**' saves all of its kind",
		"a person has to agree first to %s", PrintableName(name))
}
