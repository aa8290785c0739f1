package wire

import (
	"context"
	"iter"
	"sync"
	"unicode/utf8"
)

// Follow waits for events on behalf of a connection, which must not be blocked
// for as long as a program is silent: one goroutine waits, and ends with stop,
// which must be called. Up to room events wait to be taken together. The channel
// is closed after the last.
func Follow[T any](ctx context.Context, events iter.Seq[T], room int) (next <-chan T, stop func()) {
	ctx, cancel := context.WithCancel(ctx)
	out := make(chan T, room)
	var pump sync.WaitGroup
	pump.Go(func() {
		defer close(out)
		for e := range events {
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	})
	return out, func() { cancel(); pump.Wait() }
}

// AppendASCII appends JSON with every character outside of ASCII as \uXXXX:
// readers of Server-Sent Events differ in whether U+0085, U+2028 and U+2029 end
// a line. Such characters are only ever inside of strings.
func AppendASCII(b, text []byte) []byte {
	const hex = "0123456789abcdef"
	unit := func(u rune) {
		b = append(b, '\\', 'u', hex[u>>12&15], hex[u>>8&15], hex[u>>4&15], hex[u&15])
	}
	for len(text) > 0 {
		if text[0] < utf8.RuneSelf {
			b = append(b, text[0])
			text = text[1:]
			continue
		}
		c, size := utf8.DecodeRune(text)
		text = text[size:]
		if c > 0xffff {
			c -= 0x10000
			unit(0xd800 + c>>10)
			c = 0xdc00 + c&0x3ff
		}
		unit(c)
	}
	return b
}
