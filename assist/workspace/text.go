package workspace

import (
	"bytes"
	"strings"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// TextFacts are the properties that a text keeps when it is changed.
type TextFacts struct {
	// EOL is "lf", "crlf", "mixed", or "" for a text of one line.
	EOL string `json:"eol,omitempty"`
	// BOM is the byte order mark: "", "utf-8", "utf-16le" or "utf-16be".
	BOM string `json:"bom,omitempty"`
	// Encoding is "utf-8", "utf-16" or "unknown". A text of unknown encoding
	// is shown as Latin-1 and is replaced as a whole or not at all.
	Encoding     string `json:"encoding"`
	FinalNewline bool   `json:"final_newline"`
}

const (
	bomUTF8    = "\xef\xbb\xbf"
	bomUTF16LE = "\xff\xfe"
	bomUTF16BE = "\xfe\xff"
)

// decodeText returns a text as UTF-8 without byte order mark. ok is false if data is
// no text. A text of unknown encoding is decoded as Latin-1.
func decodeText(data []byte) (text string, facts TextFacts, ok bool) {
	facts.Encoding = "utf-8"
	switch {
	case bytes.HasPrefix(data, []byte(bomUTF8)):
		facts.BOM, data = "utf-8", data[len(bomUTF8):]
	case bytes.HasPrefix(data, []byte(bomUTF16LE)), bytes.HasPrefix(data, []byte(bomUTF16BE)):
		facts.BOM, facts.Encoding = "utf-16le", "utf-16"
		if data[0] == bomUTF16BE[0] {
			facts.BOM = "utf-16be"
		}
		as := utf16Text(facts.BOM)
		decoded, err := as.NewDecoder().Bytes(data[2:])
		back, err2 := as.NewEncoder().Bytes(decoded)
		if err != nil || err2 != nil || !bytes.Equal(back, data[2:]) { // an edit could damage it
			return "", facts, false
		}
		data = decoded
	}
	if bytes.IndexByte(data, 0) >= 0 {
		return "", facts, false
	}
	if !utf8.Valid(data) {
		if !printable(data) {
			return "", facts, false
		}
		facts.Encoding = "unknown"
		text, _ = charmap.ISO8859_1.NewDecoder().String(string(data)) // each byte is a character of it
	} else {
		text = string(data)
	}
	facts.EOL, facts.FinalNewline = lineEnds(text)
	return text, facts, true
}

// lineEnds returns how lines end. A CR that no LF follows is data.
func lineEnds(text string) (eol string, final bool) {
	crlf := strings.Count(text, "\r\n")
	lf := strings.Count(text, "\n") - crlf
	switch {
	case crlf > 0 && lf > 0:
		eol = "mixed"
	case crlf > 0:
		eol = "crlf"
	case lf > 0:
		eol = "lf"
	}
	return eol, strings.HasSuffix(text, "\n")
}

// printable reports whether bytes of an unknown encoding can be a text: hardly
// any control characters.
func printable(data []byte) bool {
	control := 0
	for _, b := range data {
		if b < 0x20 && b != '\t' && b != '\n' && b != '\r' && b != '\f' && b != 0x1b || b == 0x7f {
			control++
		}
	}
	return control*200 < len(data)
}

// utf16Text returns the encoding of a text in UTF-16, by its byte order mark.
func utf16Text(bom string) encoding.Encoding {
	if bom == "utf-16be" {
		return unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM)
	}
	return unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM)
}

// encode puts the byte order mark and the encoding back.
func (f TextFacts) encode(text string) []byte {
	switch f.BOM {
	case "utf-8":
		return append([]byte(bomUTF8), text...)
	case "utf-16le", "utf-16be":
		encoded, err := utf16Text(f.BOM).NewEncoder().String(strings.ToValidUTF8(text, "\ufffd"))
		if err != nil {
			panic(err) // UTF-16 has every character
		}
		if f.BOM == "utf-16be" {
			return []byte(bomUTF16BE + encoded)
		}
		return []byte(bomUTF16LE + encoded)
	}
	return []byte(text)
}

// adopt returns a new text with the line ends, the byte order mark and the final
// newline of the file that it replaces. Unchanged lines keep their ends. It
// returns data unchanged if one of the two is no text.
func adopt(old, data []byte) []byte {
	oldText, facts, ok := decodeText(old)
	text, newFacts, newOK := decodeText(data)
	if !ok || !newOK || facts.Encoding == "unknown" || newFacts.Encoding == "unknown" || len(old) == 0 {
		return data
	}
	if newFacts.EOL == "crlf" {
		text = strings.ReplaceAll(text, "\r\n", "\n")
	}
	switch facts.EOL {
	case "crlf":
		text = strings.ReplaceAll(strings.ReplaceAll(text, "\r\n", "\n"), "\n", "\r\n")
	case "mixed":
		text = adoptMixed(oldText, text)
	}
	switch {
	case text == "" || oldText == "":
	case facts.FinalNewline && !strings.HasSuffix(text, "\n"):
		if facts.EOL == "crlf" {
			text += "\r"
		}
		text += "\n"
	case !facts.FinalNewline:
		text = strings.TrimSuffix(strings.TrimSuffix(text, "\n"), "\r")
	}
	return facts.encode(text)
}

// adoptMixed keeps the ends of unchanged lines, and gives new lines the end that most
// lines have.
func adoptMixed(old, text string) string {
	crlf := strings.Count(old, "\r\n")
	most := "\n"
	if 2*crlf > strings.Count(old, "\n") {
		most = "\r\n"
	}
	oldLines, lines := splitLines(old), splitLines(text)
	bare := func(lines []string) []string {
		out := make([]string, len(lines))
		for i, l := range lines {
			out[i] = strings.TrimSuffix(strings.TrimSuffix(l, "\n"), "\r")
		}
		return out
	}
	oldBare, newBare := bare(oldLines), bare(lines)
	var b strings.Builder
	i, j := 0, 0
	stay := func(until int) {
		for ; i < until; i, j = i+1, j+1 {
			b.WriteString(oldLines[i])
			if !strings.HasSuffix(oldLines[i], "\n") && j+1 < len(lines) {
				b.WriteString(most)
			}
		}
	}
	for _, d := range diffLines(oldBare, newBare) {
		stay(d.Start)
		for ; j < d.ReplEnd; j++ {
			b.WriteString(newBare[j])
			if strings.HasSuffix(lines[j], "\n") {
				b.WriteString(most)
			}
		}
		i = d.End
	}
	stay(len(oldLines))
	return b.String()
}

// splitLines cuts a text behind each LF.
func splitLines(text string) []string {
	lines := make([]string, 0, strings.Count(text, "\n")+1)
	for text != "" {
		i := strings.IndexByte(text, '\n') + 1
		if i == 0 {
			i = len(text)
		}
		lines = append(lines, text[:i])
		text = text[i:]
	}
	return lines
}
