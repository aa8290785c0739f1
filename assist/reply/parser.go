package reply

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"strconv"
)

// Options configure a Parser. The zero value is ready to use.
type Options struct {
	// Registry has the types of status blocks; nil is Standard().
	Registry *Registry
	// Events, if not nil, is called for each event, from within Write and Close.
	Events func(Event)
}

// ErrClosed is returned by Write and Close after Close.
var ErrClosed = errors.New("the reply was closed; begin another parser for another reply")

// Parser reads a reply that arrives in chunks, and returns the same items as Parse of the
// whole. It keeps the reply's bytes. It must not be used by several goroutines at once.
type Parser struct {
	options  Options
	registry *Registry

	buf    []byte // the reply so far
	next   int    // where the first line begins that was not read yet
	seen   int    // how far line feeds were looked for
	ended  bool   // nothing more arrives
	closed *Reply

	state
}

// mode is what the current line stands in.
type mode uint8

const (
	inProse mode = iota
	inFence
	inThought
	inSearch   // an edit outside of any fence
	inEnvelope // a patch envelope outside of any fence
	inDiff     // a unified diff outside of any fence
	inTag
	inDocument // a document with fences inside, which only the whole reply pairs
)

// Parse reads a whole reply.
func Parse(text []byte) *Reply { return ParseWith(text, Options{}) }

// ParseWith is Parse with options.
func ParseWith(text []byte, options Options) *Reply {
	p := NewParser(options)
	p.buf, p.ended = text[:len(text):len(text)], true
	p.advance()
	p.finish()
	return p.closed
}

// NewParser returns a parser at the start of a reply.
func NewParser(options Options) *Parser {
	p := &Parser{options: options, registry: options.Registry}
	if p.registry == nil {
		p.registry = Standard()
	}
	return p
}

// Write parses the next chunk. It fails only after Close.
func (p *Parser) Write(chunk []byte) (int, error) {
	if p.closed != nil {
		return 0, ErrClosed
	}
	p.buf = append(p.buf, chunk...)
	p.advance()
	return len(chunk), nil
}

// Close ends the reply: open items are truncated, and every item gets its id.
func (p *Parser) Close() error {
	if p.closed != nil {
		return ErrClosed
	}
	p.finish()
	return nil
}

// Reply returns the reply as read, nil before Close.
func (p *Parser) Reply() *Reply { return p.closed }

// advance parses the complete lines.
func (p *Parser) advance() {
	for {
		if p.mode == inDocument {
			p.seen = len(p.buf)
			return
		}
		i := bytes.IndexByte(p.buf[p.seen:], '\n')
		if i < 0 {
			p.seen = len(p.buf)
			return
		}
		start, end := p.next, p.seen+i
		p.next, p.seen = end+1, end+1
		if p.mode == inFence {
			// Most lines of code are nothing but code. The line feed ends this loop.
			at := start
			for p.buf[at] == ' ' || p.buf[at] == '\t' {
				at++
			}
			if special[p.buf[at]] {
				p.fenceLine(start, end)
			}
			continue
		}
		p.line(start, end)
	}
}

// special are the first characters, behind white space, of lines that a fence
// has to look at.
var special = func() (t [256]bool) {
	for _, c := range []byte("`~<>=+-*/#;%{.[('\"rR@\xe2") {
		t[c] = true
	}
	return t
}()

// finish parses the rest and decides what depends on the end of the reply.
func (p *Parser) finish() {
	p.ended = true
	if p.mode == inDocument {
		p.pairDocument()
	}
	for {
		p.advance()
		if p.next < len(p.buf) {
			start := p.next
			p.next, p.seen = len(p.buf), len(p.buf)
			p.line(start, len(p.buf))
		}
		// At the end the rest may have to be read once more, under plainer rules.
		if p.next == len(p.buf) && !p.atEnd() {
			break
		}
	}
	p.offerBelow()
	p.closeBlock(len(p.buf), false)
	p.closeWrapper()
	p.warnBlocks()
	sum := sha256.Sum256(p.buf)
	r := &Reply{SHA256: hex.EncodeToString(sum[:]), Size: len(p.buf), Items: p.items, Warnings: p.warnings, Tags: p.tags,
		Examples: p.examples}
	prefix := r.SHA256[:24] + "-"
	for i, it := range r.Items {
		it.Ordinal = i + 1
		it.ID = prefix + strconv.Itoa(i+1)
		if it.Verdict == VerdictExample {
			r.Examples++
		}
	}
	p.closed = r
}

// line reads a line outside of fences.
func (p *Parser) line(start, end int) {
	switch p.mode {
	case inFence:
		p.fenceLine(start, end)
	case inThought:
		p.thoughtLine(start, end)
	case inSearch:
		p.searchLine(start, end)
	case inEnvelope:
		p.envelopeLine(start, end)
	case inDiff:
		p.diffLine(start, end)
	case inTag:
		p.tagLine(start, end)
	default:
		p.proseLine(start, end)
	}
}

// Open returns the item that is being read, with its content so far and
// VerdictTruncated; ok is false between items.
func (p *Parser) Open() (it Item, ok bool) {
	if p.mode != inFence && p.mode != inDocument || !p.fence.named || p.closed != nil {
		return Item{}, false
	}
	it = p.opened(len(p.buf))
	it.Reason, it.Content = "it is still arriving", p.fence.content(p.buf[p.fence.body:])
	return it, true
}

// EventType is what an Event reports.
type EventType string

// The events of a Parser.
const (
	// EventOpened: an item with a known path begins. Its content is still to
	// come and its verdict is not known; Parser.Open shows what there is.
	EventOpened EventType = "opened"
	// EventItem: an item is complete.
	EventItem EventType = "item"
	// EventRevised: text further on changed what an item is: superseded by a
	// later one, ambiguous after all, a thought.
	EventRevised EventType = "revised"
)

// Event reports the progress of a Parser. Events depend on the reply alone,
// not on how it was cut into chunks.
type Event struct {
	Type EventType
	// Item is the item as it is now; it may be revised until Close.
	Item Item
}
