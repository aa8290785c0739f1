package provider

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// An answer promises a file in a link, or in words: "The plot is in plot.png". Words are
// less certain: a name needs a known extension and a sentence that says that something was
// made, without words of the opposite.

// Expressions that take long to compile, as these, are compiled at their first use: few starts of a program need them.

// madeName matches a possible file name in prose: what stands between marks, or a word. Of a
// name with spaces and without marks it matches the last word.
var madeName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile("`[^`\n]{1,200}`|\\*\\*[^*\n]{1,200}\\*\\*|\"[^\"\n" +
		"]{1,200}\"|“[^“”\n]{1,200}”|[\\pL\\pN_$./~&'’+@-]*[\\pL\\pN_-]\\.[A-Za-z][A-Za-z0-9]{0,7}")
})

// madeEnding matches the extensions of files that code makes for users.
var madeEnding = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)\.(csv|tsv|json|jsonl|ndjson|xml|ya?ml|toml|txt|md|rst|html?|css|pdf|png|jpe?g|gif|webp|bmp|tiff?|svg|ico|mp[34]|wav|ogg|webm|mov|avi|xlsx?|ods|docx?|odt|pptx?|odp|zip|tar|t?gz|bz2|xz|7z|parquet|feather|arrow|npy|npz|pkl|pickle|h5|hdf5|mat|sqlite3?|db|sql|geojson|kml|gpx|shp|ics|vcf|eml|epub|tex|log|ipynb|py|js|ts|sh|r|stl|obj|glb|ply|dxf|bin|dat|onnx|pt|srt|vtt)$`)
})

// making matches words of sentences that say that something was made.
var making = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)\b(saved?|saving|wr(ote|itten|iting)|writes|creat(e[sd]?|ing)|generat(e[sd]?|ing)|produc(e[sd]?|ing)|export(s|ed|ing)?|stor(e[sd]|ing)|made|built|render(s|ed)?|plotted|convert(s|ed)?|compressed|packed|attach(ed)?|download|here (is|are|'s)|here’s|available|(is|are|it's|it’s) in|see|find|found in|contains|output|result(s|ing)?|gespeichert|erstellt|geschrieben|erzeugt)\b`)
})

// notMade matches words of sentences that do not promise a file.
var notMade = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(
		`(?i)\b(not|no|cannot|can't|couldn't|could|would|should|unable|fail(s|ed)?|without|missing|if|unless|instead|you can|you may|please|example|e\.g|such as|like|input|upload(ed)?|your|provided?|given|read(s|ing)?|loaded|from|original|nicht|kein)\b|n't\b|n’t\b`)
})

// PromisedNames returns the names of the files that an answer says in words were made, without
// those of known files. It ignores code blocks.
func PromisedNames(text string, known ...string) (names []string) {
	text = escaped.ReplaceAllString(text, "$1")
	for _, sentence := range sentences(text) {
		for _, part := range clauseBreak.Split(sentence, -1) { // "but" divides a sentence
			if !making().MatchString(part) || notMade().MatchString(madeName().ReplaceAllString(part, "")) {
				continue
			}
			for _, m := range madeName().FindAllString(part, -1) {
				name := CleanName(strings.Trim(strings.TrimSpace(strings.Trim(m, "`*\"'‘’“”")), ".,;:!?"))
				if strings.Contains(m, "://") || !madeEnding().MatchString(name) || strings.ContainsAny(name, "*?<>{}()=") ||
					strings.HasPrefix(name, ".") || slices.Contains(names, name) || isNamed(text, name, known) {
					continue
				}
				names = append(names, name)
			}
		}
	}
	return names
}

// isNamed reports whether a name in a text is that of a known file, or its last words: words
// do not say where a name with spaces begins.
func isNamed(text, name string, known []string) bool {
	text, name = strings.ToLower(text), strings.ToLower(name)
	return slices.ContainsFunc(known, func(k string) bool {
		k = strings.ToLower(CleanName(k))
		return k == name || strings.HasSuffix(k, name) && strings.Contains(text, k)
	})
}

// escaped matches an escape of Markdown.
var escaped = regexp.MustCompile(`\\([_*&'()\[\]#+~-])`)

// sentences returns the sentences of a text without code blocks, links and addresses.
func sentences(text string) (all []string) {
	fence := ""
	for line := range strings.Lines(text) {
		trimmed := strings.TrimSpace(line)
		for _, mark := range []string{"```", "~~~"} {
			if !strings.HasPrefix(trimmed, mark) {
				continue
			}
			switch fence {
			case "":
				fence = mark
			case mark:
				fence = ""
			}
			trimmed = ""
		}
		if fence != "" || trimmed == "" || strings.HasPrefix(trimmed, "|") {
			continue
		}
		trimmed = webAddress.ReplaceAllString(linked.ReplaceAllString(trimmed, "]"), "")
		all = append(all, endOfSentence.Split(trimmed, -1)...)
	}
	return all
}

var (
	webAddress    = regexp.MustCompile(`[a-z]+://\S+`)
	endOfSentence = regexp.MustCompile(`[.!?]\s+|[.!?]$|;\s+`)
	clauseBreak   = regexp.MustCompile(`(?i),? (?:but|aber) `)
)
