package engine

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// markerRoom is the minimum reserved for a marker, so that the amount of kept
// text does not depend on the digits of a number. Onyx reserves the same
// amount.
const markerRoom = 32

// Capture turns the bytes of one output stream into its kept text. It holds no
// more in memory than its limit.
//
// The rules. The text of a stream never has more than Bytes bytes, marker
// included. If all of it fits, all of it is kept. Otherwise there is a head,
// then the marker, then unless HeadOnly an equally long tail; nothing is cut inside
// a character. The head is emitted live. The text after it is withheld until
// the end of the run decides whether it is kept. A marker longer than half of
// Bytes is omitted. A byte that is not part of a character becomes U+FFFD,
// which has three bytes; the marker's number counts bytes as the program
// wrote them.
type Capture struct {
	limit int    // OutputLimit.Bytes
	room  int    // part of limit reserved for the marker
	tail  bool   //
	mark  string // the marker, "%d" and all
	head  int    // maximum bytes of text to emit live

	text   int    // bytes of text emitted so far
	carry  []byte // the beginning of a character, or nothing
	full   bool   // the head is complete
	held   tail   // the last raw bytes after the head
	beyond int64  // number of raw bytes after the head

	whole *Whole // nil: what is left out is lost
	name  string // of the file that has it
}

// NewCapture returns the capture of a stream with that limit.
func NewCapture(limit OutputLimit) *Capture {
	c := &Capture{limit: limit.Bytes, tail: !limit.HeadOnly, mark: limit.Marker}
	if c.mark != "" {
		longest := len(c.marker(1<<63 - 1))
		c.room = max(markerRoom, longest)
	}
	if c.room > c.limit/2 {
		c.room, c.mark = 0, ""
	}
	c.head = c.limit - c.room
	if c.tail {
		c.head /= 2
	}
	return c
}

func (c *Capture) marker(dropped int64) string {
	return strings.Replace(c.mark, "%d", strconv.FormatInt(dropped, 10), 1)
}

// Write consumes bytes of the stream and appends the text to emit to dst.
func (c *Capture) Write(dst, data []byte) []byte {
	if c.whole != nil {
		c.whole.write(data)
	}
	if !c.full {
		if len(c.carry) > 0 {
			data = append(c.carry, data...)
			c.carry = nil
		}
		before := len(dst)
		var used int
		dst, used = appendText(dst, data, c.head-c.text, false)
		c.text += len(dst) - before
		data = data[used:]
		if len(data) < utf8.UTFMax && !utf8.FullRune(data) {
			c.carry = append(c.carry, data...)
			return dst
		}
		c.close()
	}
	c.beyond += int64(len(data))
	c.held.write(data)
	return dst
}

// close ends the head.
func (c *Capture) close() {
	if c.full {
		return
	}
	c.full = true
	c.held.size = c.limit - c.text
	c.beyond = int64(len(c.carry))
	c.held.write(c.carry)
	c.carry = nil
}

// isCut reports whether text is left out of a stream that has ended.
func (c *Capture) isCut() bool {
	held := c.held.bytes()
	return c.beyond != int64(len(held)) || textSize(held) > c.limit-c.text
}

// Clear drops the withheld text, which a reader is not to see any more.
func (c *Capture) Clear() {
	c.held.buf, c.carry, c.beyond = nil, nil, 0
	if c.whole != nil {
		c.whole.drop()
	}
}

// Finish appends the withheld text that is kept, and reports whether text was
// dropped.
func (c *Capture) Finish(dst []byte) (text []byte, truncated bool) {
	c.close()
	if c.whole != nil && c.name == "" {
		c.whole.drop()
	}
	cut, held := c.isCut(), c.held.bytes()
	c.held = tail{}
	room := c.limit - c.text
	size := textSize(held)
	if !cut {
		dst, _ = appendText(dst, held, size, true)
		return dst, false
	}
	room -= c.room
	if !c.tail {
		room = 0
	}
	if c.beyond > int64(len(held)) { // the first byte may be in mid-character
		for range utf8.UTFMax - 1 {
			if len(held) > 0 && !utf8.RuneStart(held[0]) {
				size -= len(string(utf8.RuneError))
				held = held[1:]
			}
		}
	}
	for size > room {
		r, n := utf8.DecodeRune(held)
		size -= utf8.RuneLen(r)
		held = held[n:]
	}
	marker := c.marker(c.beyond - int64(len(held)))
	if c.name != "" {
		first := c.whole.most
		if c.whole.size <= first {
			first = 0
		}
		marker = LeftOut(c.beyond-int64(len(held)), c.name, first)
	}
	dst = append(dst, marker...)
	dst, _ = appendText(dst, held, size, true)
	return dst, true
}

// appendText decodes src to dst until the text has grown by room bytes, and
// returns how much of src it used. At the end of the stream an unfinished
// character is decoded too; before that it is left.
func appendText(dst, src []byte, room int, end bool) (text []byte, used int) {
	if len(src) <= room && utf8.Valid(src) {
		return append(dst, src...), len(src)
	}
	for used < len(src) && (end || utf8.FullRune(src[used:])) {
		r, n := utf8.DecodeRune(src[used:])
		if room -= utf8.RuneLen(r); room < 0 {
			break
		}
		dst = utf8.AppendRune(dst, r)
		used += n
	}
	return dst, used
}

// textSize returns how many bytes the text of b has.
func textSize(b []byte) (size int) {
	if utf8.Valid(b) {
		return len(b)
	}
	for len(b) > 0 {
		r, n := utf8.DecodeRune(b)
		size += utf8.RuneLen(r)
		b = b[n:]
	}
	return size
}

// tail keeps the last size bytes that were written to it, and up to a quarter more during
// writes.
type tail struct {
	size int
	buf  []byte
}

func (t *tail) write(p []byte) {
	if drop := len(t.buf) + len(p) - t.size; drop > t.size/4 {
		t.buf = append(t.buf[:0], t.buf[min(drop, len(t.buf)):]...)
	}
	t.buf = append(t.buf, p[max(len(p)-t.size, 0):]...)
}

func (t *tail) bytes() []byte { return t.buf[max(len(t.buf)-t.size, 0):] }
