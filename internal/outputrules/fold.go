package outputrules

import (
	"strings"
	"unicode/utf8"

	"github.com/bmatcuk/doublestar/v4"
	"golang.org/x/text/cases"
	"golang.org/x/text/unicode/norm"
)

// Invisible reports whether a character has no glyph: marks of direction, joiners,
// and others that file systems or readers ignore.
func Invisible(r rune) bool {
	switch {
	case r >= 0x200b && r <= 0x200f, r >= 0x202a && r <= 0x202e, r >= 0x2060 && r <= 0x206f,
		r == 0xfeff, r == 0x00ad, r == 0x034f, r == 0x061c, r == 0x180e,
		r >= 0xfff9 && r <= 0xfffb, r >= 0xe0000 && r <= 0xe0fff:
		return true
	}
	return false
}

// VersionControl returns the system to which a name belongs, in any spelling
// that some file system takes for it.
func VersionControl(name string) string {
	folded := strings.TrimRight(Fold(norm.NFKC.String(name)), ". ")
	switch folded {
	case ".git", "git~1":
		return "Git"
	case ".hg", "hg~1":
		return "Mercurial"
	case ".svn", "svn~1", "_svn":
		return "Subversion"
	case ".jj", "jj~1":
		return "Jujutsu"
	case ".bzr":
		return "Bazaar"
	case "_darcs":
		return "Darcs"
	case ".pijul":
		return "Pijul"
	case ".fslckout", "_fossil_":
		return "Fossil"
	}
	return ""
}

// Fold returns one spelling for all names, or paths, that some file system takes for
// the same.
func Fold(name string) string {
	if isASCII(name) {
		return strings.ToLower(name)
	}
	return norm.NFC.String(cases.Fold().String(norm.NFD.String(name)))
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf })
}

// bareName returns one spelling for all names that some file system treats as equal:
// ignoring case, width, invisible characters, final dots and spaces, or streams behind a
// colon.
func bareName(name string) string {
	name = strings.Map(func(r rune) rune {
		switch {
		case Invisible(r):
			return -1
		case r == 'ı': // upper-case I is its upper case
			return 'i'
		}
		return r
	}, norm.NFKC.String(name))
	name, _, _ = strings.Cut(Fold(name), ":")
	return strings.TrimRight(name, ". ")
}

// MatchPath reports whether a path matches a pattern in the syntax of a policy: "*" within
// a name, "**" over directories, {a,b}. A pattern without a slash matches in every
// directory.
func MatchPath(pattern, path string) bool {
	if !strings.Contains(pattern, "/") {
		pattern = "**/" + pattern
	}
	return MatchFrom(pattern, path)
}

// MatchFrom reports whether a path matches a pattern from the first directory on.
func MatchFrom(pattern, path string) bool {
	ok, err := doublestar.Match(pattern, path)
	return err == nil && ok
}
