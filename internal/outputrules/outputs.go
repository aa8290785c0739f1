// Package outputrules has the rules about files that leave a sandbox: which names are never
// saved, and which names and contents a person looks at first.
package outputrules

import (
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/gabriel-vasile/mimetype"
)

// TempPrefix begins the names of the temporary files that Airlock makes in a folder.
const TempPrefix = ".airlock-"

// Leaving is the verdict of the rules on a file that a program or a model made, when
// it leaves the sandbox.
type Leaving struct {
	Path    string // to save it under; "" if it is refused
	Verdict Verdict
	Reason  string // of an Ask or a Refuse
}

// Verdict is whether a file may be saved.
type Verdict string

// The verdicts.
const (
	Save   Verdict = "save"
	Ask    Verdict = "ask"    // a person looks at it first
	Refuse Verdict = "refuse" // it is never saved
)

// CheckOutputs applies the rules about names, which are those of a workspace, to
// files that will be saved into one folder or archive. has reports whether a
// directory of the folder ("." for the folder itself) has an entry of a name, in
// any case; nil means that the folder is empty.
func CheckOutputs(names []string, has func(dir, name string) bool) []Leaving {
	outputs := make([]Leaving, len(names))
	folded := make([]string, len(names))
	for i, name := range names {
		outputs[i] = Leaving{Path: name, Verdict: Save}
		if why := unsavable(name); why != "" {
			outputs[i] = Leaving{Verdict: Refuse, Reason: why}
			continue
		}
		folded[i] = Fold(name)
	}
	would := func(dir, name string) bool {
		prefix := path.Join(Fold(dir), name)
		return slices.ContainsFunc(folded, func(f string) bool { return f != "" && below(f, prefix) }) ||
			has != nil && has(dir, name)
	}
	for i := range outputs {
		o := &outputs[i]
		if o.Verdict == Refuse {
			continue
		}
		if parent, name := splitPath(o.Path); PlantsRepository(parent, name, would) {
			*o = Leaving{Verdict: Refuse, Reason: BareRepository(parent)}
		} else if why := Sensitive(o.Path); why != "" {
			o.Verdict, o.Reason = Ask, why
		}
	}
	return outputs
}

// unsavable returns why a file of this name is never saved, "" if it may be. A name
// may have any character that a file system takes; the callers that show it must
// escape it.
func unsavable(name string) string {
	if !fs.ValidPath(name) || name == "." || strings.ContainsRune(name, 0) {
		return "the path leads out of the folder"
	}
	// On Windows a backslash divides names too.
	for part := range strings.SplitSeq(strings.ReplaceAll(name, `\`, "/"), "/") {
		bare := bareName(part)
		if system := VersionControl(bare); system != "" {
			return fmt.Sprintf("%q belongs to %s and is never written to", part, system)
		}
		if strings.HasPrefix(bare, TempPrefix) {
			return fmt.Sprintf("names that begin with %q are used while files are being written", TempPrefix)
		}
	}
	return ""
}

// below reports whether path is dir or inside of it.
func below(path, dir string) bool {
	return path == dir || strings.HasPrefix(path, dir+"/")
}

func splitPath(path string) (dir, name string) {
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		return path[:i], path[i+1:]
	}
	return ".", path
}

// LeftOut returns which files of a sandbox are left out of an archive: files that must not
// be saved, and, unless held is set, files that a person should look at first. The note
// lists them with the reasons, and is "" if there are none. It is stored in the archive
// under NoteName.
func LeftOut(names []string, held bool) (left []bool, note string) {
	left = make([]bool, len(names))
	var b strings.Builder
	for i, o := range CheckOutputs(names, nil) {
		if left[i] = o.Verdict == Refuse || o.Verdict == Ask && !held; left[i] {
			fmt.Fprintf(&b, "%-6s  %s: %s\n", o.Verdict, strconv.Quote(names[i]), o.Reason)
		}
	}
	if b.Len() == 0 {
		return left, ""
	}
	return left, "These files are not in the archive, since a tool could run or obey them by\n" +
		"itself where it is unpacked. Each can be fetched by itself; those marked \"ask\"\n" +
		"are included when the archive is asked for with ?held=true.\n\n" + b.String()
}

// NoteName returns the name of the note in an archive of files with these names.
func NoteName(names []string) string {
	for n, name := 2, "LEFT-OUT.txt"; ; n++ {
		if !slices.ContainsFunc(names, func(other string) bool { return strings.EqualFold(other, name) }) {
			return name
		}
		name = fmt.Sprintf("LEFT-OUT-%d.txt", n)
	}
}

// sniffLength is the length of the part of a file that tells its type.
const sniffLength = 64 << 10

// CheckContent returns why a file of this name and content needs a person's approval,
// "" if it does not. Programs, and documents that may run macros, need one.
func CheckContent(name string, content io.ReaderAt, size int64) (why string, err error) {
	head := make([]byte, min(size, sniffLength))
	if _, err := content.ReadAt(head, 0); err != nil && err != io.EOF {
		return "", err
	}
	if strings.HasPrefix(string(head), "#!") {
		return "it is a program: it begins with #!", nil
	}
	return Program(name, mimetype.Detect(head).String(), content, size), nil
}

// gitMarks are the names by which Git takes a directory for a repository, and
// those whose contents it then obeys.
var gitMarks = []string{"head", "objects", "refs", "config", "commondir", "hooks", "packed-refs"}

// PlantsRepository reports whether a file would be in a directory that Git takes for
// a repository: one with HEAD, objects and refs, or with HEAD and commondir.
func PlantsRepository(dir, name string, would func(dir, name string) bool) bool {
	for {
		if slices.Contains(gitMarks, bareName(name)) && would(dir, "head") &&
			(would(dir, "commondir") || would(dir, "objects") && would(dir, "refs")) {
			return true
		}
		if dir == "." {
			return false
		}
		dir, name = splitPath(dir)
	}
}

// BareRepository returns the reason to refuse a file that would complete a repository in dir.
func BareRepository(dir string) string {
	return fmt.Sprintf("with it %s would look like a Git repository, whose settings Git obeys", dir)
}
