package reply

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"
)

// typical is a reply of about 8 KB: three files, two blocks, prose.
func typical() []byte {
	var b strings.Builder
	b.WriteString("I have implemented the login. Here are the files:\n\n")
	for i, path := range []string{"src/api/auth.ts", "src/hooks/useAuth.ts", "src/components/Login.tsx"} {
		fmt.Fprintf(&b, "### %d. The %s\n\nIt does what we agreed on.\n\n```typescript:%s\n", i+1, path, path)
		for line := range 56 {
			fmt.Fprintf(&b, "export const value%d = compute(%d, \"name\");\n", line, line)
		}
		b.WriteString("```\n\n")
	}
	b.WriteString(progress("75"))
	b.WriteString("\n" + submission + "\nTell me if something is missing.\n")
	return []byte(b.String())
}

// long is a reply of so many bytes: files and prose as models write them.
func long(n int) []byte {
	var b bytes.Buffer
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, "Now the next file, which does the next thing.\n\n```typescript:src/module%d.ts\n", i)
		for line := range 200 {
			fmt.Fprintf(&b, "  export const value%d = compute(%d, \"name\");\n\n", line, line)
			if line%10 == 0 {
				b.WriteString("  // what the next ones are for\n")
			}
		}
		b.WriteString("```\n\n")
	}
	return b.Bytes()
}

// newlines counts the line feeds, the minimal work of any line reader.
func newlines(text []byte) (n int) {
	for {
		i := bytes.IndexByte(text, '\n')
		if i < 0 {
			return n
		}
		n++
		text = text[i+1:]
	}
}

func inChunks(text []byte, size int) {
	p := NewParser(Options{})
	for rest := text; len(rest) > 0; {
		n := min(size, len(rest))
		_, _ = p.Write(rest[:n])
		rest = rest[n:]
	}
	_ = p.Close()
}

// TestSpeed prints the speed of the parser on this machine, beside that of a scan
// for line feeds, in time of the processor. It fails only where something is wrong
// by far.
func TestSpeed(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector slows everything down")
	}
	text := long(1 << 20)
	rate := func(size int, d time.Duration) float64 { return float64(size) / d.Seconds() / 1e6 }
	var lines int
	scan, whole := time.Hour, time.Hour
	for range 4 { // in turns, so that both see the machine's quiet moments
		scan = min(scan, fastest(func() { lines = newlines(text) }))
		whole = min(whole, fastest(func() { Parse(text) }))
	}
	ratio := float64(scan) / float64(whole)
	reading := fastest(func() {
		p := NewParser(Options{})
		p.buf = text
		p.advance()
	})
	t.Logf("%d lines: line feeds alone %.0f MB/s, Parse %.0f MB/s, ratio %.2f", lines, rate(len(text), scan),
		rate(len(text), whole), ratio)
	t.Logf("reading without the hash for the ids: %.0f MB/s, ratio %.2f", rate(len(text), reading),
		float64(scan)/float64(reading))

	small := text
	chunks := fastest(func() { inChunks(small, 4) })
	t.Logf("in chunks of 4 bytes: %.0f MB/s", rate(len(small), chunks))

	reply := typical()
	const rounds = 50
	one := fastest(func() {
		for range rounds {
			Parse(reply)
		}
	}) / rounds
	t.Logf("a reply of %d bytes: %v", len(reply), one)

	pieces := rate(len(small), chunks) / rate(len(text), scan)
	short := rate(len(reply), one) / rate(len(text), scan)
	if ratio < 0.02 || pieces < 0.003 || short < 0.003 { // measured: 0.21, 0.045 and 0.064
		t.Errorf("far too slow beside a scan: ratio %.2f, in chunks %.4f, a reply %.4f", ratio, pieces, short)
	}
}

func BenchmarkNewlines(b *testing.B) {
	text := long(4 << 20)
	b.SetBytes(int64(len(text)))
	for b.Loop() {
		newlines(text)
	}
}

func BenchmarkParse(b *testing.B) {
	for _, c := range []struct {
		name string
		text []byte
	}{{"8KB", typical()}, {"4MB", long(4 << 20)}, {"openers", bytes.Repeat([]byte("```ts:src/a.ts\n"), 1<<20/15)}} {
		b.Run(c.name, func(b *testing.B) {
			b.SetBytes(int64(len(c.text)))
			b.ReportAllocs()
			for b.Loop() {
				Parse(c.text)
			}
		})
	}
}

func BenchmarkChunks(b *testing.B) {
	text := long(1 << 20)
	for _, size := range []int{4, 64, 4096} {
		b.Run(fmt.Sprint(size), func(b *testing.B) {
			b.SetBytes(int64(len(text)))
			for b.Loop() {
				inChunks(text, size)
			}
		})
	}
}

// TestTranscriptSpeed prints what the parser does with replies of real text:
// Markdown documents with their own fences in them, and prose around. Generated
// replies of long code with few fences, which TestSpeed takes, are read faster.
func TestTranscriptSpeed(t *testing.T) {
	if raceEnabled {
		t.Skip("the race detector slows everything down")
	}
	var replies [][]byte
	size := 0
	for i, text := range documents() {
		f := &frames[i%len(frames)]
		replies = append(replies, []byte(f.before+text+f.after))
		size += len(replies[i])
	}
	if size == 0 {
		t.Skip("no Markdown documents are at hand on this machine")
	}
	rate := func(d time.Duration) float64 { return float64(size) / d.Seconds() / 1e6 }
	whole := rate(fastest(func() {
		for _, text := range replies {
			Parse(text)
		}
	}))
	chunks := rate(fastest(func() {
		for _, text := range replies {
			inChunks(text, 4)
		}
	}))
	t.Logf("%d replies, %d bytes: whole %.0f MB/s, in chunks of 4 bytes %.0f MB/s", len(replies), size, whole, chunks)
	if whole < 2 || chunks < 1 {
		t.Errorf("far too slow: whole %.0f MB/s, in chunks %.0f MB/s", whole, chunks)
	}
}
