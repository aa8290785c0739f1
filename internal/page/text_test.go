package page

import (
	"testing"
	"unicode"
	"unicode/utf8"

	"github.com/google/go-cmp/cmp"
)

func TestShownLine(t *testing.T) {
	for name, c := range map[string]struct {
		text  string
		spans []Span
		most  int
		want  []Stretch
	}{
		"plain":      {"a\tb", nil, 99, []Stretch{{Text: "a\tb"}}},
		"empty":      {"", nil, 99, nil},
		"bidi":       {"a\u202eb", nil, 99, []Stretch{{Text: "a"}, {Text: "U+202E", Hidden: true}, {Text: "b"}}},
		"zero width": {"\u200b", nil, 99, []Stretch{{Text: "U+200B", Hidden: true}}},
		"escape":     {"\x1b[31m", nil, 99, []Stretch{{Text: "ESC", Hidden: true}, {Text: "[31m"}}},
		"end":        {"a\r", nil, 99, []Stretch{{Text: "a"}, {Text: "CR", Hidden: true}}},
		"invalid":    {"\xff", nil, 99, []Stretch{{Text: "invalid byte", Hidden: true}}},
		"words": {"the last one", []Span{{Start: 4, End: 8}}, 99,
			[]Stretch{{Text: "the "}, {Text: "last", Word: true}, {Text: " one"}}},
		"two words": {"abc", []Span{{Start: 0, End: 1}, {Start: 2, End: 3}}, 99,
			[]Stretch{{Text: "a", Word: true}, {Text: "b"}, {Text: "c", Word: true}}},
		"in a word": {"a\u202eb", []Span{{Start: 0, End: 5}}, 99,
			[]Stretch{{Text: "a", Word: true}, {Text: "U+202E", Hidden: true, Word: true}, {Text: "b", Word: true}}},
		"long": {"abcdef", nil, 4, []Stretch{{Text: "abcd"}, {Text: "… 2 more characters", Hidden: true}}},
	} {
		if diff := cmp.Diff(c.want, ShownLine(c.text, c.spans, c.most)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// FuzzShown checks that no shown text has an invisible character.
func FuzzShown(f *testing.F) {
	f.Add("a\u202e\x00\xff\u2066b\U000e0041\ufe00")
	f.Fuzz(func(t *testing.T, text string) {
		got := Named(text)
		if !utf8.ValidString(got) {
			t.Fatalf("%q", got)
		}
		for _, r := range got {
			if r != '\t' && (unicode.IsControl(r) || unicode.Is(unicode.Cf, r) || unicode.Is(unicode.Bidi_Control, r)) {
				t.Fatalf("%U is left in %q", r, got)
			}
		}
	})
}
