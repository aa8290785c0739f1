package provider

import (
	"crypto/rand"
	"encoding/hex"
)

// newKey is a prefix and 128 random bits.
func newKey(prefix string) string {
	var b [16]byte
	_, _ = rand.Read(b[:]) // never fails
	return prefix + hex.EncodeToString(b[:])
}
