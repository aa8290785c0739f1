// Package partial reads JSON that is still being written: the arguments of a
// call, as a model streams them.
package partial

import (
	"bytes"
	"encoding/json"
	"regexp"
)

// String returns what there is of the first string field of that name in an
// object of which only the beginning is known. It is meant for showing: the whole
// is decoded once it is there.
func String(object []byte, name string) string {
	start := regexp.MustCompile(`"` + regexp.QuoteMeta(name) + `"\s*:\s*"`).FindIndex(object)
	if start == nil {
		return ""
	}
	rest := object[start[1]:]
	end, whole := 0, 0 // whole: up to where no escape is cut
	for end < len(rest) && rest[end] != '"' {
		step := 1
		if rest[end] == '\\' {
			step = 2
			if end+1 < len(rest) && rest[end+1] == 'u' {
				step = 6
				if high := rest[end:min(end+6, len(rest))]; len(high) == 6 && bytes.ContainsAny(high[2:3], "dD") &&
					bytes.ContainsAny(high[3:4], "89abAB") {
					step = 12 // the first half of a pair
				}
			}
		}
		if end+step > len(rest) {
			break
		}
		end += step
		whole = end
	}
	var s string
	if json.Unmarshal([]byte(`"`+string(bytes.ToValidUTF8(cutRune(rest[:whole]), nil))+`"`), &s) != nil {
		return ""
	}
	return s
}

// cutRune leaves out a character of which not all bytes are there.
func cutRune(b []byte) []byte {
	for n := 1; n <= 3 && n <= len(b); n++ {
		c := b[len(b)-n]
		if c < 0x80 {
			return b
		}
		if c >= 0xC0 { // where it begins
			length := 2
			if c >= 0xE0 {
				length++
			}
			if c >= 0xF0 {
				length++
			}
			if n < length {
				return b[:len(b)-n]
			}
			return b
		}
	}
	return b
}
