package workspace

import (
	"crypto/rand"
	"strings"
)

const (
	idAlphabet = "abcdefghijklmnopqrstuvwxyz234567"
	idLength   = 24
)

// newID returns the id of a transaction: 120 random bits that are safe in file
// names, URLs and on a command line.
func newID() string {
	var raw [idLength]byte
	rand.Read(raw[:])
	for i, b := range raw {
		raw[i] = idAlphabet[b&31]
	}
	return string(raw[:])
}

// validID reports whether newID can have made id, so that it is safe as a file name.
func validID(id string) bool {
	return len(id) == idLength && strings.Trim(id, idAlphabet) == ""
}
