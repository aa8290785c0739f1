package provider

import (
	"bytes"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
)

// A frame carries a file in the output of code, for providers that return no files:
//
//	===AIRLOCK FILE "table.csv" 1234 <sha256 in hex>===
//	<base64, any line breaks>
//	===AIRLOCK END===
const (
	frameStart = "===AIRLOCK FILE "
	frameEnd   = "===AIRLOCK END==="
)

// MaxFrame bounds the size of a file in a frame: all providers limit output.
const MaxFrame = 4 << 20

// Framed is a file in output, or the error of a broken frame.
type Framed struct {
	Name string
	Data []byte
	Err  error // cut off, too large, or with a wrong hash
}

// Frame returns a file as a frame.
func Frame(name string, data []byte) string {
	quoted, _ := json.Marshal(name) // of a string: never fails
	sum := sha256.Sum256(data)
	return fmt.Sprintf("%s%s %d %s===\n%s\n%s\n", frameStart, quoted, len(data), hex.EncodeToString(sum[:]),
		base64.StdEncoding.EncodeToString(data), frameEnd)
}

// Unframe returns the files in the frames of output, and the output with a short line in
// place of each frame.
func Unframe(output string, most int) (files []Framed, rest string) {
	var kept strings.Builder
	for {
		before, after, found := cutLine(output)
		kept.WriteString(before)
		if !found {
			return files, kept.String()
		}
		head, body, _ := strings.Cut(after, "\n")
		content, tail, ended := strings.Cut(body, frameEnd)
		f, ok := parseFrame(strings.TrimRight(head, "\r"), content, ended, most)
		if !ok { // not a frame after all
			kept.WriteString(frameStart)
			output = after
			continue
		}
		files = append(files, f)
		fmt.Fprintf(&kept, "[file %s]", f.Name)
		output = tail
		if !ended {
			output = ""
		}
	}
}

// cutLine cuts output around the first frame start at the beginning of a line.
func cutLine(s string) (before, after string, found bool) {
	for at := 0; ; {
		i := strings.Index(s[at:], frameStart)
		if i < 0 {
			return s, "", false
		}
		i += at
		if i == 0 || s[i-1] == '\n' {
			return s[:i], s[i+len(frameStart):], true
		}
		at = i + len(frameStart)
	}
}

func parseFrame(head, content string, ended bool, most int) (f Framed, ok bool) {
	head, ok = strings.CutSuffix(head, "===")
	if !ok {
		return f, false
	}
	words := strings.Split(head, " ")
	if len(words) < 3 {
		return f, false
	}
	name := strings.Join(words[:len(words)-2], " ")
	size, err := strconv.Atoi(words[len(words)-2])
	if err != nil || size < 0 || json.Unmarshal([]byte(name), &f.Name) != nil {
		return f, false
	}
	switch {
	case size > most:
		f.Err = &Error{Kind: TooLarge, Message: fmt.Sprintf("%s is %d bytes, and output carries at most %d", f.Name, size,
			most)}
		return f, true
	case !ended:
		f.Err = &Error{Kind: OutputsMissing, Message: f.Name + " was cut off in the output"}
		return f, true
	}
	data, err := base64.StdEncoding.DecodeString(string(bytes.Join(bytes.Fields([]byte(content)), nil)))
	sum := sha256.Sum256(data)
	if err != nil || len(data) != size || !strings.EqualFold(hex.EncodeToString(sum[:]), words[len(words)-1]) {
		f.Err = &Error{Kind: OutputsMissing,
			Message: f.Name + " came damaged through the output: its length or hash is not what was announced"}
		return f, true
	}
	f.Data = data
	return f, true
}
