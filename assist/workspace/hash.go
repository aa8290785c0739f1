package workspace

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
)

// Hash is the SHA-256 of a file's bytes. The zero Hash stands for a file that
// is not there. In JSON it is lower-case hex, "" for the zero one.
type Hash [sha256.Size]byte

// Sum returns the hash of data.
func Sum(data []byte) Hash { return sha256.Sum256(data) }

// ParseHash reads 64 hexadecimal digits, or "" for the zero Hash.
func ParseHash(text string) (h Hash, err error) {
	err = h.UnmarshalText([]byte(text))
	return h, err
}

// IsZero reports whether h stands for a file that is not there.
func (h Hash) IsZero() bool { return h == Hash{} }

// String returns the hash in hex, "" for the zero one.
func (h Hash) String() string {
	if h.IsZero() {
		return ""
	}
	return hex.EncodeToString(h[:])
}

// MarshalText writes what String returns.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText reads what MarshalText wrote.
func (h *Hash) UnmarshalText(text []byte) error {
	*h = Hash{}
	if len(text) == 0 {
		return nil
	}
	if len(text) != 2*len(h) {
		return errors.New("a SHA-256 has 64 hexadecimal digits")
	}
	_, err := hex.Decode(h[:], text)
	return err
}
