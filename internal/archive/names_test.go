package archive

import "testing"

// Two files of one archive never have one name, and every system can store what they are called.
func TestNames(t *testing.T) {
	var names Names
	for _, tt := range [][2]string{
		{"a.txt", "a.txt"}, {`a\b.txt`, "a_b.txt"}, {"a_b.txt", "a_b-1.txt"}, {`..\..\x`, ".._.._x"},
		{"a\u202eb", "a\u202eb"}, {"d/a.txt", "d/a.txt"}, {".bashrc", ".bashrc"}, {"größe 1.txt", "größe 1.txt"},
		{"C:evil", "C_evil"}, {"C_evil", "C_evil-1"}, {"a:stream", "a_stream"}, {"d:/x", "d_/x"}, {"a\nb", "a_b"},
		{`<>"|?*`, "______"}, {"dot.", "dot_"}, {"space ", "space_"}, {"d. /f", "d__/f"}, {"...", "___"},
		{"CON", "_CON"}, {"con.txt", "_con.txt"}, {"d/nul .tar.gz", "d/_nul .tar.gz"}, {"Com1", "_Com1"},
		{"lpt9.x/f", "_lpt9.x/f"}, {"COM²", "_COM²"}, {"conin$", "_conin$"}, {"CONSOLE", "CONSOLE"}, {"COM", "COM"},
		{"com10", "com10"}, {"LPT", "LPT"}, {"aux/prn.c", "_aux/_prn.c"},
	} {
		if got := names.Name(tt[0]); got != tt[1] {
			t.Errorf("%q is called %q, want %q", tt[0], got, tt[1])
		}
	}
}
