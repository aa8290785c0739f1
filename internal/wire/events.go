package wire

import (
	"context"
	"iter"
	"net/http"
	"sync"
	"time"
	"unicode/utf8"
)

// Follow receives events in a goroutine, so that its caller is not blocked while a program is
// silent. stop ends the goroutine and must be called. The channel buffers room events, and is
// closed after the last.
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

// Send writes events to a connection whose head is written, up to the last one, and reports whether
// that was written. add appends the frame of an event, if it has one, and reports whether it is the
// last. After a silence Send writes a comment; zero: none. An error of the connection ends Send.
func Send[E any](
	w http.ResponseWriter, r *http.Request, events iter.Seq[E], silence time.Duration, add func([]byte, E) ([]byte, bool),
) (finished bool) {
	out := http.NewResponseController(w)
	if out.Flush() != nil || r.Method == http.MethodHead {
		return false
	}
	next, stop := Follow(r.Context(), events, 0)
	defer stop()
	var tick <-chan time.Time
	if silence > 0 {
		ticker := time.NewTicker(silence)
		defer ticker.Stop()
		tick = ticker.C
	}
	var frame []byte
	for {
		frame = frame[:0]
		var last bool
		select {
		case <-r.Context().Done():
			return false
		case <-tick:
			frame = append(frame, ": keep-alive\n\n"...)
		case e, more := <-next:
			if !more {
				return false
			}
			if frame, last = add(frame, e); len(frame) == 0 {
				continue
			}
		}
		if _, err := w.Write(frame); err != nil || out.Flush() != nil {
			return false
		}
		if last {
			return true
		}
	}
}

// AppendFrame appends one event. Its data is JSON in one line of ASCII: a program that prints
// "\n\nevent: result" must not be able to forge an event.
func AppendFrame(b []byte, event string, data []byte) []byte {
	b = append(append(b, "event: "...), event...)
	b = AppendASCII(append(b, "\ndata: "...), data)
	return append(b, "\n\n"...)
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
