package httpd

import (
	"net"
	"net/netip"
	"sync"
	"time"
)

// How long a connection lingers, as with nginx: without a byte, and in all.
const (
	lingerIdle = 5 * time.Second
	lingerTime = 30 * time.Second
)

// lingering are the connections that are closed for writing, while what the client still sends is read and discarded.
// A client that is refused in the middle of an upload may read the answer after the upload only; if the connection
// was closed before, it would be reset, and the answer might be lost. They are as many as one address may have, and
// as all may have together; others are closed at once. All are connections that the gate counts.
type lingering struct {
	mu        sync.Mutex
	all, each int
	open      map[*strictConn]struct{}
	from      map[netip.Prefix]int
	ended     bool
	work      sync.WaitGroup
}

func newLingering(most int) *lingering {
	all := max(most/8, 1)
	return &lingering{all: all, each: max(all/4, 1), open: map[*strictConn]struct{}{}, from: map[netip.Prefix]int{}}
}

// add lets a connection linger and closes it afterwards, or returns false.
func (l *lingering) add(c *strictConn) bool {
	at := network(address(c.RemoteAddr()))
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ended || len(l.open) >= l.all || l.from[at] >= l.each {
		return false
	}
	l.open[c] = struct{}{}
	l.from[at]++
	l.work.Go(func() {
		drain(c.TCPConn)
		_ = c.end() // nothing is left to be lost
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.open, c)
		if l.from[at]--; l.from[at] == 0 {
			delete(l.from, at)
		}
	})
	return true
}

// drain reads from a connection until the client closes it, or for as long as it may linger.
func drain(c net.Conn) {
	buffer, end := make([]byte, 16<<10), time.Now().Add(lingerTime)
	for {
		next := time.Now().Add(lingerIdle)
		if next.After(end) {
			next = end
		}
		if c.SetReadDeadline(next) != nil {
			return
		}
		if _, err := c.Read(buffer); err != nil {
			return
		}
	}
}

// close closes all of them. Later ones do not linger.
func (l *lingering) close() {
	l.mu.Lock()
	l.ended = true
	for c := range l.open {
		_ = c.end()
	}
	l.mu.Unlock()
	l.work.Wait()
}
