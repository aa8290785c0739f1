package provider

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"
)

// Wanted is a file to be sent.
type Wanted struct {
	Name string
	MIME string
	Size int64
}

// Check returns what a provider would refuse, before anything is sent: at most one error
// for each file, and one for all files (index -1).
func (l Limits) Check(provider string, files []Wanted) (refused map[int]error) {
	refused = map[int]error{}
	refuse := func(i int, kind Kind, format string, args ...any) {
		if _, ok := refused[i]; !ok {
			refused[i] = &Error{Kind: kind, Provider: provider, Op: "check files", Message: fmt.Sprintf(format, args...)}
		}
	}
	var total int64
	for i, f := range files {
		total += max(f.Size, 0)
		switch {
		case l.Upload > 0 && f.Size > l.Upload:
			refuse(i, TooLarge, "%s is %d bytes; the limit is %d", f.Name, f.Size, l.Upload)
		case l.NameLength > 0 && utf8.RuneCountInString(f.Name) > l.NameLength:
			refuse(i, Invalid, "the name %s has %d characters; the limit is %d", f.Name, utf8.RuneCountInString(f.Name),
				l.NameLength)
		case l.NameBars != "" && strings.ContainsAny(f.Name, l.NameBars):
			refuse(i, Invalid, "the name %s has one of the characters %s, which this provider does not take", f.Name, l.NameBars)
		case !l.takes(f.MIME):
			refuse(i, Invalid, "%s is of type %s; this provider takes %s", f.Name, f.MIME, strings.Join(l.MIMETypes, ", "))
		}
	}
	if l.Count > 0 && len(files) > l.Count {
		refuse(-1, TooLarge, "%d files; the limit of a turn is %d", len(files), l.Count)
	}
	if l.Total > 0 && total > l.Total {
		refuse(-1, TooLarge, "%d bytes in all; the limit of a turn is %d", total, l.Total)
	}
	return refused
}

func (l Limits) takes(kind string) bool {
	if len(l.MIMETypes) == 0 || kind == "" {
		return true
	}
	return slices.ContainsFunc(l.MIMETypes, func(prefix string) bool { return strings.HasPrefix(kind, prefix) })
}
