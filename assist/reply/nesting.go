package reply

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"sort"
)

// A document in a fence of three backticks may hold fences of three backticks
// itself, and a bare run then closes the document, or opens or closes a fence
// inside it. No rule about the line alone can tell which. What can be told is
// which end of the document leaves all other runs of the reply in pairs, and in
// pairs that look like fences: text begins on the line behind an opening run,
// and ends on the line before a closing one.
//
// So every run gets a cost for each part that it could play, and the reading of
// the whole rest of the reply with the least cost is found from the end to the
// beginning, in time linear in the number of runs. The document's end is sure
// if the reading fits well and any other end costs clearly more.

// The costs. They are differences in the order of a natural logarithm of how
// often a part is played so in documents and replies.
const (
	costGap      = 5 // an opening run before, or a closing run behind, a blank line
	costTight    = 1 // no blank line on a fence's outer side
	costEndGap   = 3 // a document's own closing fence behind a blank line
	costEndTight = 4 // a document's own closing fence before a line of text
	costEmpty    = 8 // a fence without a line
	costText     = 6 // a fence that holds text with headings, links and sentences, at most
	costShape    = 4 // a document's closing fence at another column or of another length
	costInfo     = 5 // a run with a language inside of a fence that is no document
	costNamed    = 3 // a fence inside of a document is named as files of replies are
	costNested   = 2 // a document inside of a document
	costAbut     = 4 // an opening run right behind another run
	costUnclosed = 8 // the document's last fence is not closed
	costCut      = 10

	// sureMargin is what any other end must cost more.
	sureMargin = 6
)

// never is the cost of an impossible reading.
const never = math.MaxInt / 4

// nesting has, for each mark, the reading of the reply with the least cost from
// that mark on.
type nesting struct {
	indent int
	marks  []fenceMark
	infos  []int // how many marks before the i-th can only open
	texts  []int // how much the lines before the i-th look like text
	closer []int // the mark that closes a fence opened by the i-th, by CommonMark
	// prose, document and inner are the readings where the text before the i-th
	// mark is outside of all fences, in a document, in a document inside of a
	// document.
	prose, document, inner []reading
}

// reading is one way to read the reply from a mark on. The one with the least
// cost may contain something odd; it is then the best one, and yet not sure.
type reading struct {
	cost int
	end  int // the mark that ends the document
	next int // the mark before which the document continues, -1 if it ends there
	odd  odd
}

// odd lists unusual properties of a reading.
type odd uint8

const (
	// oddShape: a fence holds the beginning of another one, or a run stands
	// where models write none.
	oddShape odd = 1 << iota
	// oddFile: a document holds a fence with a language and a path, as a reply
	// has them for its files.
	oddFile
	// oddCut: the reply ends inside of a fence.
	oddCut
)

func (o odd) when(condition bool) odd {
	if condition {
		return o
	}
	return 0
}

// readNesting reads all marks from a document's first line on.
func (p *Parser) readNesting(from, indent int) *nesting {
	n := &nesting{indent: indent, marks: p.fenceMarks(from, indent)}
	n.findClosers()
	last := len(n.marks)
	n.prose, n.document, n.inner = make([]reading, last+1), make([]reading, last+1), make([]reading, last+1)
	n.document[last].cost, n.inner[last].cost = never, never
	for i := last - 1; i >= 0; i-- {
		n.inner[i] = cheapest(n.innerReadings(i))
		n.document[i] = cheapest(n.readings(i))
		n.prose[i] = n.proseReading(i)
	}
	return n
}

func cheapest(readings []reading) reading {
	best := reading{cost: never}
	for _, r := range readings {
		if r.cost < best.cost {
			best = r
		}
	}
	return best
}

// within returns the cost of a fence that the i-th mark opens and the e-th
// closes. It is odd if it holds what looks like the beginning of another fence.
func (n *nesting) within(i, e int) (cost int, strange odd) {
	m := &n.marks[i]
	cost = m.openCost() + n.marks[e].closeCost() + n.texts[e] - n.texts[i]
	if e == i+1 && n.marks[e].abuts {
		cost, strange = cost+costEmpty, oddShape
	}
	if infos := n.infos[e] - n.infos[i+1]; infos > 0 && m.length == 3 && m.char == '`' {
		cost, strange = cost+costInfo*infos, oddShape
	}
	return cost, strange
}

// readings returns the parts that the i-th mark can play in a document.
func (n *nesting) readings(i int) []reading {
	m := &n.marks[i]
	var list []reading
	named := costIf(m.named, costNamed)
	if m.char == '`' && !m.opens {
		list = append(list, reading{cost: m.endCost(n.indent) + n.prose[i+1].cost, end: i, next: -1,
			odd: n.prose[i+1].odd | oddShape.when(m.column != n.indent || m.length != 3)})
	}
	if e := n.closer[i]; e >= 0 {
		cost, strange := n.within(i, e)
		rest := n.document[e+1]
		list = append(list, reading{cost: named + cost + rest.cost, end: rest.end, next: e + 1,
			odd: strange | oddFile.when(m.file) | rest.odd})
		if n.marks[e].char == '`' {
			list = append(list, reading{end: e, next: -1, odd: oddShape,
				cost: named + m.openCost() + costUnclosed + n.marks[e].endCost(n.indent) + n.prose[e+1].cost})
		}
	}
	if m.nest {
		rest := n.inner[i+1]
		list = append(list, reading{cost: named + m.openCost() + costNested + rest.cost, end: rest.end, next: -1,
			odd: oddFile.when(m.file) | rest.odd})
	}
	return list
}

// innerReadings returns the readings in a document inside of a document.
func (n *nesting) innerReadings(i int) []reading {
	m := &n.marks[i]
	var list []reading
	if m.char == '`' && !m.opens {
		rest := n.document[i+1]
		list = append(list, reading{cost: m.closeCost() + rest.cost, end: rest.end, odd: rest.odd})
	}
	if e := n.closer[i]; e >= 0 {
		cost, strange := n.within(i, e)
		rest := n.inner[e+1]
		list = append(list, reading{cost: cost + rest.cost, end: rest.end, odd: strange | rest.odd})
	}
	return list
}

// proseReading returns the reading where the i-th mark opens a fence of the
// reply's own.
func (n *nesting) proseReading(i int) reading {
	m := &n.marks[i]
	if m.markup && m.length == 3 && m.char == '`' {
		rest := n.document[i+1]
		return reading{cost: min(never, m.openCost()+rest.cost), odd: rest.odd}
	}
	e := n.closer[i]
	switch {
	case e < 0 && m.opens:
		return reading{cost: m.openCost() + costCut, odd: oddCut} // the reply was cut
	case e < 0:
		return reading{cost: never, odd: oddShape}
	}
	cost, strange := n.within(i, e)
	rest := n.prose[e+1]
	return reading{cost: min(never, cost+rest.cost), odd: strange | oddShape.when(!m.opens && m.gapBehind) | rest.odd}
}

// findClosers finds for each mark the next bare one of its character that is not
// shorter, and counts what can only open.
func (n *nesting) findClosers() {
	size := len(n.marks)
	n.closer, n.infos, n.texts = make([]int, size), make([]int, size+1), make([]int, size+1)
	for i := range n.marks {
		n.infos[i+1] = n.infos[i]
		n.texts[i+1] = n.texts[i] + min(n.marks[i].text, costText)
		if n.marks[i].opens {
			n.infos[i+1]++
		}
	}
	// stacks hold bare marks from right to left, each longer than those above it.
	stacks := map[byte][]int{}
	for i := size - 1; i >= 0; i-- {
		m := &n.marks[i]
		stack := stacks[m.char]
		// The nearest that is long enough is the topmost of those.
		k := sort.Search(len(stack), func(k int) bool { return n.marks[stack[k]].length < m.length })
		n.closer[i] = -1
		if k > 0 {
			n.closer[i] = stack[k-1]
		}
		if !m.opens {
			for len(stack) > 0 && n.marks[stack[len(stack)-1]].length <= m.length {
				stack = stack[:len(stack)-1]
			}
			stacks[m.char] = append(stack, i)
		}
	}
}

// documentEnd is where a document ends.
type documentEnd struct {
	close int // the mark, -1 if no reading comes out
	other int // the mark of the next best reading, -1 if there is none
	last  int // the last mark that leaves the rest in pairs, -1 if there is none
	sure  bool
	inner []Span // the fences inside
}

// end finds the end of a document whose body begins before a mark.
func (n *nesting) end(first int) documentEnd {
	best := documentEnd{close: -1, other: -1, last: -1}
	for i := len(n.marks) - 1; i >= first && best.last < 0; i-- {
		if m := &n.marks[i]; !m.opens && m.char == '`' && n.prose[i+1].cost < never {
			best.last = i
		}
	}
	whole := n.document[first]
	if whole.cost >= never {
		return best
	}
	best.close = whole.end
	own, second := 0, never
	passed := 0 // the cost up to the mark at hand
	for i := first; i >= 0; {
		chosen := n.document[i]
		taken := false
		for _, r := range n.readings(i) {
			if !taken && r == chosen {
				taken = true
			} else if r.end != best.close && passed+r.cost < second {
				second, best.other = passed+r.cost, r.end
			}
		}
		if chosen.next < 0 {
			if chosen.end > i { // a document inside, or a fence that is not closed
				best.inner = append(best.inner, Span{n.marks[i].start, n.marks[chosen.end].start - 1})
			}
			own = passed + chosen.cost - n.prose[best.close+1].cost
			break
		}
		best.inner = append(best.inner, Span{n.marks[i].start, n.marks[chosen.next-1].end})
		passed += chosen.cost - n.document[chosen.next].cost
		i = chosen.next
	}
	best.sure = second-whole.cost >= sureMargin && (whole.odd == 0 || whole.odd == oddFile && second >= never ||
		whole.odd == oddCut && own == 0)
	return best
}

// isDocument reports whether a run in the open fence can only be paired with the whole
// reply.
func (p *Parser) isDocument() bool {
	f := &p.fence
	return f.markup && f.char == '`' && f.length == 3 && !f.paired && !f.searches && !f.patch && !f.inHunk &&
		p.doubt == ""
}

// maxNestings bounds the indentations at which documents are paired. More than
// one or two is no reply of a model.
const maxNestings = 8

// pairDocument finds the end of the open document, and reads it again from its
// first line on. Before the reply is complete it only waits.
func (p *Parser) pairDocument() {
	if !p.ended {
		p.mode = inDocument
		return
	}
	f := &p.fence
	n := p.nestings[f.indent]
	if n == nil && len(p.nestings) < maxNestings {
		if p.nestings == nil {
			p.nestings = map[int]*nesting{}
		}
		n = p.readNesting(f.body, f.indent)
		p.nestings[f.indent] = n
	}
	f.paired, f.close, f.others, f.scan = true, -1, nil, scan{}
	if n != nil {
		p.documentEnd(f, n)
	}
	if f.close < 0 {
		f.tangle("the fences inside of it do not pair")
	}
	p.mode = inFence
	p.next, p.seen = f.body, f.body
}

func (p *Parser) documentEnd(f *fence, n *nesting) {
	first := sort.Search(len(n.marks), func(i int) bool { return n.marks[i].start >= f.body })
	end := n.end(first)
	if !end.sure && end.last >= 0 {
		// It may hold all that follows, up to the last fence.
		p.mayHold, p.holder = n.marks[end.last].end, f.where.raw
	}
	if end.close < 0 {
		return
	}
	f.close, f.inner = n.marks[end.close].start, end.inner
	if end.sure {
		return
	}
	f.tangle("the fences inside of it can be paired in more than one way")
	f.offer = f.close
	if end.other > end.close && !slices.ContainsFunc(
		n.marks[end.close:end.other], func(m fenceMark) bool { return m.file }) {
		f.offer = n.at(end.other)
	}
	for _, mark := range [...]int{end.close, end.other, end.last} {
		if at := n.at(mark); at >= 0 && !slices.Contains(f.others, at) {
			f.others = append(f.others, at)
		}
	}
	slices.Sort(f.others)
}

// shows reports whether a line of a document stands in a fence of its own,
// where nothing is left out of the document. Lines come in order.
func (f *fence) shows(line int) bool {
	for len(f.inner) > 0 && f.inner[0].End < line {
		f.inner = f.inner[1:]
	}
	return len(f.inner) > 0 && f.inner[0].Start <= line
}

// at is where a mark begins, -1 for none.
func (n *nesting) at(mark int) int {
	if mark < 0 {
		return -1
	}
	return n.marks[mark].start
}

// otherEnds gives the readings of a document whose end is not sure. The longer
// of the best two is the item's content, since a document that was cut is easily
// overlooked.
func (p *Parser) otherEnds(it *Item, f *fence) {
	if len(f.others) < 2 {
		return
	}
	read := func(end int) Reading {
		line := bytes.Count(p.buf[f.start:end], []byte("\n"))
		return Reading{fmt.Sprintf("it ends with line %d of its fence", line), f.file(p.buf[f.body:end])}
	}
	it.Readings = append(it.Readings, read(f.offer))
	it.Content = it.Readings[0].Content
	for _, end := range slices.Backward(f.others) {
		if end != f.offer {
			it.Readings = append(it.Readings, read(end))
		}
	}
	it.Body.End = f.offer
	it.Span.End = max(it.Span.End, p.lineAfter(f.offer))
}
