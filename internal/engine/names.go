package engine

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"unicode/utf8"
)

// The lengths of a path in bytes: of each segment, and of the whole.
const (
	maxSegment = 255
	maxPath    = 1024
)

// CleanPath returns the one spelling under which we know a path or file name
// that comes from outside: relative, segments divided by single slashes, none
// of them empty, "." or "..". What it returns never leads out of the directory
// that it is joined to, and is its own CleanPath.
//
// The segments keep their bytes. A program finds a file under the name that its
// owner gave it, so all that a file system takes is a name: in any
// normalization form, with joiners and marks of direction, even with control
// characters. Bytes that are not UTF-8 are refused: every protocol answers in
// JSON, which cannot say them. To show a name to a person, use ShownName.
func CleanPath(name string) (string, error) {
	switch {
	case len(name) > 4*maxPath: // before any work
		return "", errors.New("is too long")
	case !utf8.ValidString(name):
		return "", errors.New("is not UTF-8")
	case strings.HasPrefix(name, "/"):
		return "", errors.New("must be relative, without a leading slash")
	case strings.IndexByte(name, 0) >= 0:
		return "", errors.New("must not contain NUL")
	}
	kept := make([]string, 0, 8)
	for segment := range strings.SplitSeq(name, "/") {
		switch {
		case segment == "" || segment == ".":
			continue
		case segment == "..":
			return "", errors.New(`must not contain ".."`)
		case len(segment) > maxSegment:
			return "", errors.New("has a part of more than 255 bytes")
		}
		kept = append(kept, segment)
	}
	if len(kept) == 0 {
		return "", errors.New("is empty")
	}
	name = strings.Join(kept, "/")
	if len(name) > maxPath {
		return "", errors.New("is longer than 1024 bytes")
	}
	return name, nil
}

// ShownName returns a name for a sentence that a person reads. Characters that
// do not show, or that change how others show, are written as escapes of a Go
// string, so that no two names look alike.
func ShownName(name string) string {
	quoted := strconv.Quote(name)
	if quoted[1:len(quoted)-1] == name {
		return name
	}
	return quoted
}

// Echo returns what a caller sent, such as a name or a path, for an error that repeats it.
func Echo(text string) string { return ShownName(fmt.Sprintf("%.200s", text)) }

// parents yields each directory that a clean path goes through, the nearest
// first.
func parents(path string) func(yield func(string) bool) {
	return func(yield func(string) bool) {
		for i := strings.LastIndexByte(path, '/'); i > 0; i = strings.LastIndexByte(path, '/') {
			path = path[:i]
			if !yield(path) {
				return
			}
		}
	}
}
