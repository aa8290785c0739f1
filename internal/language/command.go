package language

import (
	"path"
	"strconv"
	"strings"
)

// Support is the folder, in the sandbox, of the files that the table's
// commands need and that no package provides; see SupportFiles.
const Support = "/opt/airlock"

// Toolchain is the path, in the sandbox, of our own program, which compiles
// the languages that come with it.
const Toolchain = Support + "/airlock"

// buildFolder is where compilers put their results: not in the workspace,
// where they would be taken for what the program left.
const buildFolder = "/tmp/.build"

// Program is what a command is made for.
type Program struct {
	Entry  string // path of the file that the code is in
	Code   string
	Inline bool // on the command line, where the language can
	Args   []string
	Memory int64 // bytes that it may use
}

// Command returns the argv that runs a program, compiling it first where the
// language does. In the table's commands
//
//	{entry}   is the path of the file that the code is in
//	{code}    is the code itself
//	{build}   is a folder for what the compiler makes
//	{class}   is the Java class that is public or has the main method,
//	{main}    the one that has it, with its package
//	{memory}  is three quarters of the memory that there is, in MiB
func (l Language) Command(p Program) []string {
	if p.Inline && l.Inline != nil {
		return append(replace(l.Inline, "{code}", p.Code), p.Args...)
	}
	compile, run := l.Steps(p)
	if compile == "" {
		return run
	}
	return []string{"/bin/sh", "-c", compile + "\nexec " + quote(run)}
}

// Steps are the two halves of Command for a program that is in a file: what a
// shell is told to compile it, empty where there is nothing to compile, and the
// argv that then runs it.
func (l Language) Steps(p Program) (compile string, run []string) {
	words := []string{"{entry}", p.Entry, "{build}", buildFolder, "{memory}", strconv.FormatInt(p.Memory>>20*3/4, 10)}
	if l.Name == "java" {
		class, main := javaClasses(p.Code)
		words = append(words, "{class}", class, "{main}", main)
	}
	run = append(replace(l.Run, words...), p.Args...)
	if l.Compile == nil {
		return "", run
	}
	// A compiler that a signal ended, for its memory say, has ended the program.
	return "mkdir -p " + buildFolder + " && cd " + quote([]string{path.Dir(p.Entry)}) + " && " +
		quote(replace(l.Compile, words...)) +
		" </dev/null >&2 || { code=$?; [ $code -gt 128 ] && kill -$((code - 128)) $$; exit 1; }", run
}

// CompilerOrder is what our own compiler is told of a program, where it compiles the
// language.
func (l Language) CompilerOrder(p Program) CompilerOrder {
	words := replace(l.Compile, "{entry}", p.Entry, "{build}", buildFolder)
	return CompilerOrder{Source: words[len(words)-2], Result: words[len(words)-1]}
}

// replace puts values in the place of names, as pairs, in each word once: what
// a value contains is never looked at again.
func replace(pattern []string, pairs ...string) []string {
	replacer := strings.NewReplacer(pairs...)
	words := make([]string, len(pattern))
	for i, word := range pattern {
		words[i] = replacer.Replace(word)
	}
	return words
}

// quote writes words as a shell reads them.
func quote(words []string) string {
	quoted := make([]string, len(words))
	for i, word := range words {
		quoted[i] = "'" + strings.ReplaceAll(word, "'", `'\''`) + "'"
	}
	return strings.Join(quoted, " ")
}
