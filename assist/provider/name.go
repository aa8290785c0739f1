package provider

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"sync"
	"unicode"
	"unicode/utf8"

	"github.com/gabriel-vasile/mimetype"
)

// maxName is less than the limit of common file systems, for "-2" and an extension.
const maxName = 200

// CleanName returns a safe base name for a file of a provider or a model, without
// directories and characters that are special for file systems or terminals. It returns ""
// if nothing is left.
func CleanName(name string) string {
	name = strings.ToValidUTF8(name, "")
	name = path.Base(strings.ReplaceAll(name, `\`, "/"))
	name = strings.Map(func(r rune) rune {
		switch {
		case unicode.IsControl(r), unicode.In(r, unicode.Bidi_Control, unicode.Zl, unicode.Zp), r == utf8.RuneError:
			return -1
		case strings.ContainsRune(`<>:"/|?*`, r):
			return '_'
		}
		return r
	}, name)
	name = trimName(name)
	if device.MatchString(name) {
		name = "_" + name
	}
	for len(name) > maxName {
		ending := path.Ext(name)
		if len(ending) > 20 {
			ending = ""
		}
		stem := strings.TrimSuffix(name, ending)
		_, last := utf8.DecodeLastRuneInString(stem)
		name = stem[:len(stem)-last] + ending
	}
	return trimName(name)
}

// trimName removes dots and spaces at both ends: "..", hidden files, and endings that
// Windows drops.
func trimName(name string) string {
	return strings.TrimFunc(name, func(r rune) bool { return r == '.' || unicode.IsSpace(r) })
}

// device matches the device names of Windows, with any extension.
var device = regexp.MustCompile(`(?i)^(con|prn|aux|nul|conin\$|conout\$|com[0-9¹²³]|lpt[0-9¹²³])\s*(\.|$)`)

// generated matches OpenAI's generated names of pictures that code showed.
var generated = regexp.MustCompile(
	`^(cfile[_-][A-Za-z0-9]+|file-[A-Za-z0-9]{16,}|file_[A-Za-z0-9]{16,})(\.[A-Za-z0-9]+)?$`)

// IsGenerated reports whether a name is empty or generated.
func IsGenerated(name string) bool { return name == "" || generated.MatchString(name) }

// stagedPrefix matches OpenAI's prefix of the names of inputs in a container:
// /mnt/data/file-MDLq…-data.csv, or a long hash.
var stagedPrefix = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(file-[A-Za-z0-9]{16,}|cfile_[A-Za-z0-9]{16,}|[0-9a-f]{32,64})-(.+)$`)
})

// StagedName returns the name in the path of a staged file.
func StagedName(p string) string {
	base := path.Base(strings.ReplaceAll(p, `\`, "/"))
	if m := stagedPrefix().FindStringSubmatch(base); m != nil {
		return m[2]
	}
	return base
}

// chooseName returns the first name that is not generated, or "output-N" with the extension
// of the type.
func chooseName(n int, kind string, names ...string) string {
	for _, name := range names {
		if name = CleanName(name); !IsGenerated(name) {
			return name
		}
	}
	ending := ""
	if m := mimetype.Lookup(baseType(kind)); m != nil {
		ending = m.Extension()
	}
	return fmt.Sprintf("output-%d%s", n, ending)
}

func baseType(kind string) string {
	kind, _, _ = strings.Cut(kind, ";")
	return strings.TrimSpace(kind)
}

// unique returns the name, or "name-2.ext", ... if it is taken.
func unique(name string, taken map[string]bool) string {
	ending := path.Ext(name)
	stem := strings.TrimSuffix(name, ending)
	for n, try := 2, name; ; n++ {
		if key := strings.ToLower(try); !taken[key] {
			taken[key] = true
			return try
		}
		try = fmt.Sprintf("%s-%d%s", stem, n, ending)
	}
}
