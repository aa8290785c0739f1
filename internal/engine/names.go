package engine

import (
	"errors"
	"strings"
	"unicode"
	"unicode/utf8"

	"golang.org/x/text/unicode/norm"
)

// The lengths of a path in bytes: of each segment, and of the whole.
const (
	maxSegment = 255
	maxPath    = 1024
)

// CleanPath returns the one spelling under which we know a path or file name
// that comes from outside: relative, in NFC, segments divided by single
// slashes, none of them empty, "." or "..". What it returns never leads out of
// the directory that it is joined to, and is its own CleanPath.
//
// It refuses what could be read in two ways: control and format characters
// (bidirectional overrides and zero-width ones among them), line separators,
// backslashes, a leading slash, "..", bytes that are not UTF-8. A drive letter
// or a tilde means nothing here and passes.
func CleanPath(name string) (string, error) {
	if len(name) > 4*maxPath { // before any work: NFC shortens by less than this
		return "", errors.New("is too long")
	}
	if !utf8.ValidString(name) {
		return "", errors.New("is not UTF-8")
	}
	name = norm.NFC.String(name)
	if strings.HasPrefix(name, "/") {
		return "", errors.New("must be relative, without a leading slash")
	}
	for _, r := range name {
		switch {
		case r == '\\':
			return "", errors.New("must not contain a backslash")
		case unicode.In(r, unicode.Cc, unicode.Cf, unicode.Zl, unicode.Zp):
			return "", errors.New("must not contain control or format characters")
		}
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
