package engine

import (
	"crypto/rand"
	"encoding/binary"
	"encoding/hex"
	"math/big"
	"strings"
)

// ID names a run, a session or a file. It is one random number of 122 bits
// with two spellings: a UUIDv4, and 21 characters of [A-Za-z0-9_-]. Neither
// needs a table to become the other, so a file made through one dialect can
// be fetched through another.
type ID [16]byte

const (
	idAlphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"
	idBits     = 122
	idLength   = 21
)

// NewID returns a fresh random ID. It never fails: crypto/rand ends the
// process rather than return bytes that are not random.
func NewID() ID {
	var id ID
	rand.Read(id[:])
	id[6] = id[6]&0x0f | 0x40 // version 4
	id[8] = id[8]&0x3f | 0x80 // variant of RFC 9562
	return id
}

// RandomText returns n characters of an alphabet in ASCII, each equally often.
func RandomText(alphabet string, n int) string {
	text := make([]byte, n)
	for i := range text {
		at, _ := rand.Int(rand.Reader, big.NewInt(int64(len(alphabet)))) // it never fails
		text[i] = alphabet[at.Int64()]
	}
	return string(text)
}

// String returns the 21-character spelling, most significant digit first.
func (id ID) String() string {
	hi, lo := id.pack()
	var digits [idLength]byte
	for i := len(digits) - 1; i >= 0; i-- {
		digits[i] = idAlphabet[lo&63]
		lo, hi = lo>>6|hi<<58, hi>>6
	}
	return string(digits[:])
}

// UUID returns the spelling of RFC 9562, in lower case.
func (id ID) UUID() string {
	h := hex.EncodeToString(id[:])
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:]
}

// IsZero reports whether id names nothing.
func (id ID) IsZero() bool { return id == ID{} }

// ParseID reads the 21-character spelling. Each ID has exactly one, so that
// two different strings never name the same object.
func ParseID(s string) (ID, error) {
	if len(s) != idLength {
		return ID{}, ErrNotFound
	}
	var hi, lo uint64
	for i := range len(s) {
		digit := strings.IndexByte(idAlphabet, s[i])
		if digit < 0 || hi>>(idBits-64-6) != 0 {
			return ID{}, ErrNotFound
		}
		hi, lo = hi<<6|lo>>58, lo<<6|uint64(digit)
	}
	return unpack(hi, lo), nil
}

// ParseUUID reads the RFC 9562 spelling of an ID made here: version 4, lower
// case, with its four hyphens.
func ParseUUID(s string) (ID, error) {
	if len(s) != 36 || s[8] != '-' || s[13] != '-' || s[18] != '-' || s[23] != '-' || strings.ToLower(s) != s {
		return ID{}, ErrNotFound
	}
	var id ID
	raw, err := hex.DecodeString(s[:8] + s[9:13] + s[14:18] + s[19:23] + s[24:])
	if err != nil || copy(id[:], raw) != len(id) || id[6]>>4 != 4 || id[8]>>6 != 2 {
		return ID{}, ErrNotFound
	}
	return id, nil
}

// MarshalText writes the 21-character spelling, and nothing for the zero ID.
func (id ID) MarshalText() ([]byte, error) {
	if id.IsZero() {
		return []byte{}, nil
	}
	return []byte(id.String()), nil
}

// UnmarshalText reads what MarshalText wrote.
func (id *ID) UnmarshalText(text []byte) (err error) {
	if len(text) == 0 {
		*id = ID{}
		return nil
	}
	*id, err = ParseID(string(text))
	return err
}

// pack drops the six fixed bits of a UUIDv4 and returns the 122 random ones,
// right-aligned in 128.
func (id ID) pack() (hi, lo uint64) {
	front, back := binary.BigEndian.Uint64(id[:8]), binary.BigEndian.Uint64(id[8:])
	node, rest := front>>16, front&0xfff // 48 and 12 bits around the version
	return node<<10 | rest>>2, rest<<62 | back&(1<<62-1)
}

// unpack is the inverse of pack.
func unpack(hi, lo uint64) ID {
	var id ID
	binary.BigEndian.PutUint64(id[:8], hi>>10<<16|4<<12|hi<<2&0xfff|lo>>62)
	binary.BigEndian.PutUint64(id[8:], 2<<62|lo&(1<<62-1))
	return id
}
