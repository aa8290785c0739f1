package command

import (
	"bytes"
	"context"
	"io"
	"strings"
	"unicode"
	"unicode/utf8"
)

// keyName says what a key does.
type keyName int

const (
	keyText  keyName = iota // types its text
	keyPaste                // the same; a line end in it is no Enter
	keyEnter
	keyTab
	keyInterrupt
	keyDelete // with a text if it was Ctrl-D
	keySearch
	keySearchBack
	keyCancel
	keyClear
	keyLeft
	keyRight
	keyUp
	keyDown
	keyHome
	keyEnd
	keyWordLeft
	keyWordRight
	keyBackspace
	keyKillToEnd
	keyKillToStart
	keyKillWord
	keyKillWordRight
	keyYank
)

type pressedKey struct {
	name keyName
	text string
}

const (
	ctrlD      = 4
	escapeKey  = 0x1b
	pasteStart = "\x1b[200~"
	pasteEnd   = "\x1b[201~"
)

// controlKeys maps characters to keys.
var controlKeys = map[byte]keyName{
	1: keyHome, 2: keyLeft, 3: keyInterrupt, ctrlD: keyDelete, 5: keyEnd, 6: keyRight, 7: keyCancel, 8: keyBackspace,
	'\t': keyTab, '\n': keyEnter, 11: keyKillToEnd, 12: keyClear, '\r': keyEnter, 14: keyDown, 16: keyUp, 18: keySearch,
	19: keySearchBack, 21: keyKillToStart, 23: keyKillWord, 25: keyYank, 127: keyBackspace,
}

// escapeKeys maps escape sequences to keys. They include Home and End of a Linux console
// and of tmux, and keys that move by words.
var escapeKeys = map[string]keyName{
	"\x1b[A": keyUp, "\x1b[B": keyDown, "\x1b[C": keyRight, "\x1b[D": keyLeft, "\x1b[H": keyHome, "\x1b[F": keyEnd,
	"\x1bOA": keyUp, "\x1bOB": keyDown, "\x1bOC": keyRight, "\x1bOD": keyLeft, "\x1bOH": keyHome, "\x1bOF": keyEnd,
	"\x1b[1~": keyHome, "\x1b[7~": keyHome, "\x1b[4~": keyEnd, "\x1b[8~": keyEnd, "\x1b[3~": keyDelete,
	"\x1b[1;3C": keyWordRight, "\x1b[1;5C": keyWordRight, "\x1bf": keyWordRight, "\x1b[1;3D": keyWordLeft,
	"\x1b[1;5D": keyWordLeft, "\x1bb": keyWordLeft, "\x1b\x7f": keyKillWord, "\x1bd": keyKillWordRight,
}

// keyReader reads keys of a terminal, byte by byte: the bytes after a line belong to the next
// reader.
type keyReader struct {
	in      io.Reader
	partial []byte // incomplete key
	pasted  []byte // incomplete paste
	pasting bool
}

// next waits for a key, or for the end of the context.
func (k *keyReader) next(ctx context.Context) (pressedKey, error) {
	var one [1]byte
	for {
		if err := Readable(ctx, k.in); err != nil {
			return pressedKey{}, err
		}
		n, err := k.in.Read(one[:])
		if n == 0 {
			if err != nil {
				return pressedKey{}, err
			}
			continue
		}
		if key, ok := k.add(one[0]); ok {
			return key, nil
		}
	}
}

// add adds a byte, and reports whether it completes a key. Sequences that no key has are left out.
func (k *keyReader) add(b byte) (pressedKey, bool) {
	if k.pasting {
		k.pasted = append(k.pasted, b)
		text, ok := bytes.CutSuffix(k.pasted, []byte(pasteEnd))
		if !ok {
			return pressedKey{}, false
		}
		k.pasting, k.pasted = false, nil
		return pressedKey{keyPaste, pastedText(string(text))}, true
	}
	if b < ' ' && (b != escapeKey || len(k.partial) > 0) {
		k.partial = nil // a control character ends what was not complete
	}
	k.partial = append(k.partial, b)
	key := string(k.partial)
	switch {
	case key == pasteStart:
		k.pasting = true
	case key[0] == escapeKey:
		if !wholeSequence(key) {
			return pressedKey{}, false
		}
		k.partial = nil
		name, known := escapeKeys[key]
		return pressedKey{name: name}, known
	case key[0] < ' ' || key[0] == 0x7f:
		k.partial = nil
		name, known := controlKeys[key[0]]
		pressed := pressedKey{name: name}
		if key[0] == ctrlD {
			pressed.text = key
		}
		return pressed, known
	case !utf8.FullRuneInString(key):
		return pressedKey{}, false
	default:
		k.partial = nil
		r, size := utf8.DecodeRuneInString(key)
		if r == utf8.RuneError && size < len(key) {
			return k.add(b) // it begins another key
		}
		return pressedKey{keyText, key}, r != utf8.RuneError && !unicode.IsControl(r)
	}
	k.partial = nil
	return pressedKey{}, false
}

// wholeSequence reports whether an escape sequence has its last byte.
func wholeSequence(key string) bool {
	if len(key) < 2 {
		return false
	}
	last := key[len(key)-1]
	switch key[1] {
	case '[':
		return len(key) > 2 && last >= '@' && last <= '~'
	case 'O':
		return len(key) > 2
	}
	return true
}

// pastedText returns a paste without control characters, and with line feeds as its line ends.
func pastedText(text string) string {
	text = strings.NewReplacer("\r\n", "\n", "\r", "\n").Replace(text)
	return strings.Map(func(r rune) rune {
		if unicode.IsControl(r) && r != '\n' && r != '\t' {
			return -1
		}
		return r
	}, text)
}
