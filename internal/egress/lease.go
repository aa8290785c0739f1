package egress

import (
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"

	"github.com/airlock-run/airlock/internal/engine"
)

// The limits of the connections of runs.
const (
	mostConnections = 1024            // of one run
	mostOfAll       = 8192            // of all runs
	connectionRate  = 200             // new ones per second, after the first mostConnections
	byteRate        = 512 << 20       // per second, in both directions
	idleTime        = 5 * time.Minute // without a byte in either direction
	headerTime      = 10 * time.Second
	longestLife     = 6 * time.Hour // of one connection
)

// run is a grant in force: the connections of one run.
type run struct {
	proxy     *proxy
	grant     *engine.Grant
	listener  net.Listener
	link      *net.UnixConn
	authority *authority // nil: nothing is inspected
	secrets   []engine.RevealedSecret
	needles   map[string][]needle // of each secret, by placeholder
	plain     *http.Transport
	life      context.Context //nolint:containedctx // of the connections
	end       context.CancelFunc
	work      sync.WaitGroup

	bytes   atomic.Int64
	open    atomic.Int32
	rate    *rate.Limiter // of bytes
	starts  *rate.Limiter
	reports chan engine.Contact
	ended   chan struct{} // closed when its connections have ended; later reports are lost
	begun   sync.Map      // contacts that have not ended
	lost    atomic.Int64  // reports that reports had no room for
}

// errBytes ends the connections of a run that has used up its bytes.
var errBytes = refuse("the run has used up the bytes that it may send and receive")

// count counts bytes and waits until they fit into the rate. It fails when the run has used
// up its bytes.
func (r *run) count(n int) error {
	if r.bytes.Add(int64(n)) > r.grant.MaxBytes {
		return errBytes
	}
	return r.rate.WaitN(r.life, n)
}

// serve accepts connections until the grant ends.
func (r *run) serve() {
	for {
		c, err := r.listener.Accept()
		if err != nil {
			if errors.Is(err, net.ErrClosed) || r.life.Err() != nil {
				return
			}
			select { // out of files, or of memory
			case <-time.After(50 * time.Millisecond):
				continue
			case <-r.life.Done():
				return
			}
		}
		conn, ok := c.(stream)
		if !ok || r.starts.Wait(r.life) != nil {
			c.Close()
			continue
		}
		if r.open.Add(1) > mostConnections || r.proxy.open.Add(1) > mostOfAll {
			r.open.Add(-1)
			if tcp, ok := c.(*net.TCPConn); ok {
				_ = tcp.SetLinger(0)
			}
			conn.Close()
			r.report(engine.Contact{At: time.Now(), Verdict: engine.VerdictRefused, Reason: "too many connections at once"})
			continue
		}
		client := &clientConn{stream: conn, run: r}
		client.stop = context.AfterFunc(r.life, func() { conn.Close() })
		r.work.Go(func() { r.proxy.greet(client) })
	}
}

// report queues a line of the audit log without waiting for the service.
func (r *run) report(c engine.Contact) {
	select {
	case r.reports <- c:
	default:
		r.lost.Add(1)
	}
}

// Reports are sent in batches, so that a run with many connections costs the service little.
const (
	mostReports = 4096
	batchSize   = 100
	batchTime   = 50 * time.Millisecond
)

// sendReports sends reports to the service until the grant ends, then the remaining ones,
// and closes the link.
func (r *run) sendReports() {
	defer r.link.Close()
	var batch []engine.Contact
	flush := func() bool {
		if lost := r.lost.Swap(0); lost > 0 && len(batch) > 0 {
			batch[len(batch)-1].More += int(lost)
		}
		if len(batch) == 0 {
			return true
		}
		message, err := json.Marshal(batch)
		batch = batch[:0]
		_ = r.link.SetWriteDeadline(time.Now().Add(lastReport))
		return err == nil && send(r.link, message) == nil
	}
	timer := time.NewTimer(batchTime)
	timer.Stop()
	for {
		select {
		case c := <-r.reports:
			if batch = append(batch, c); len(batch) == 1 {
				timer.Reset(batchTime)
			}
			if len(batch) < batchSize || flush() {
				continue
			}
			return // the service has ended
		case <-timer.C:
			if !flush() {
				return
			}
		case <-r.ended:
			for len(r.reports) > 0 {
				if batch = append(batch, <-r.reports); len(batch) == batchSize && !flush() {
					return
				}
			}
			flush()
			return
		}
	}
}

// contact is a connection that becomes a line of the audit log.
type contact struct {
	run            *run
	began          time.Time
	target         target
	address        netip.Addr
	sent, received atomic.Int64
	once           sync.Once
}

func (r *run) addContact(t target) *contact {
	c := &contact{run: r, began: time.Now(), target: t}
	r.begun.Store(c, nil)
	return c
}

// forget drops a contact that other contacts replace.
func (c *contact) forget() { c.run.begun.Delete(c) }

// endAll writes the lines of the connections that the end of the run closed: the goroutines
// of the HTTP transport that close them have no owner.
func (r *run) endAll() {
	r.begun.Range(func(c, _ any) bool {
		c.(*contact).end(nil)
		return true
	})
}

// end writes the line. Only the first end counts.
func (c *contact) end(err error) {
	c.once.Do(func() {
		defer c.run.begun.Delete(c) // after the report: endAll waits for what it finds
		line := engine.Contact{
			At: c.began, Host: c.target.host, Port: c.target.port, Sent: c.sent.Load(), Received: c.received.Load(),
			Took: time.Since(c.began), Verdict: engine.VerdictAllowed,
		}
		if c.address.IsValid() {
			line.Address = c.address.String()
		}
		if errors.Is(err, context.Canceled) {
			err = nil // its run has ended
		}
		if r, ok := errors.AsType[*refused](err); ok {
			line.Verdict, line.Reason = engine.VerdictRefused, r.reason
		} else if err != nil {
			line.Verdict, line.Reason = engine.VerdictFailed, err.Error()
		}
		const longest = 300
		line.Reason = line.Reason[:min(len(line.Reason), longest)]
		line.Host = line.Host[:min(len(line.Host), longest)]
		c.run.report(line)
	})
}

// connect checks a target and connects to it.
func (c *contact) connect(ctx context.Context) (*net.TCPConn, error) {
	if err := permitted(c.run.grant, c.target); err != nil {
		return nil, err
	}
	if c.run.bytes.Load() >= c.run.grant.MaxBytes {
		return nil, errBytes
	}
	server, err := c.run.proxy.network.dial(ctx, c.run.grant, c.target)
	if err != nil {
		return nil, err
	}
	if at, ok := server.RemoteAddr().(*net.TCPAddr); ok {
		c.address = at.AddrPort().Addr().Unmap()
	}
	return server, nil
}

// countedConn is a connection of the HTTP transport to a server, with the limits of the run.
type countedConn struct {
	net.Conn
	contact *contact
	stop    func() bool
	began   time.Time
	last    atomic.Int64 // when there was a byte, in Unix nanoseconds
}

func (c *countedConn) touch() { c.last.Store(time.Now().UnixNano()) }

// Read fails when no byte moved in either direction for the idle time.
func (c *countedConn) Read(b []byte) (n int, err error) {
	idle := c.contact.run.proxy.waits.idle
	for {
		_ = c.SetReadDeadline(time.Now().Add(idle))
		n, err = c.Conn.Read(b)
		if n > 0 || !errors.Is(err, os.ErrDeadlineExceeded) {
			break
		}
		if time.Since(time.Unix(0, c.last.Load())) >= idle || time.Since(c.began) >= longestLife {
			return 0, c.over(errIdle)
		}
	}
	c.touch()
	c.contact.received.Add(int64(n))
	if n > 0 {
		if err := c.over(c.contact.run.count(n)); err != nil {
			return 0, err
		}
	}
	return n, err
}

func (c *countedConn) Write(b []byte) (int, error) {
	if err := c.over(c.contact.run.count(len(b))); err != nil {
		return 0, err
	}
	_ = c.SetWriteDeadline(time.Now().Add(c.contact.run.proxy.waits.idle))
	n, err := c.Conn.Write(b)
	c.touch()
	c.contact.sent.Add(int64(n))
	return n, err
}

// over records that a limit ended the connection, if err is set.
func (c *countedConn) over(err error) error {
	if err != nil {
		c.contact.end(err)
	}
	return err
}

func (c *countedConn) Close() error {
	c.stop()
	c.contact.end(nil)
	return c.Conn.Close()
}

// transport returns the transport for requests that this process parses.
func (r *run) transport() *http.Transport {
	dial := func(ctx context.Context, _, address string) (net.Conn, error) {
		t, err := parseTarget(address)
		if err != nil {
			return nil, err
		}
		c := r.addContact(t)
		server, err := c.connect(ctx)
		if err != nil {
			c.end(err)
			return nil, err
		}
		counted := &countedConn{Conn: server, contact: c, began: time.Now(),
			stop: context.AfterFunc(r.life, func() { server.Close() })}
		counted.touch()
		return counted, nil
	}
	return &http.Transport{
		DialContext: dial, DisableCompression: true, MaxIdleConnsPerHost: 4, IdleConnTimeout: time.Minute,
		TLSHandshakeTimeout: connectTime, ExpectContinueTimeout: time.Second,
		TLSClientConfig:        &tls.Config{RootCAs: r.proxy.roots, MinVersion: tls.VersionTLS12},
		MaxResponseHeaderBytes: 256 << 10, ReadBufferSize: 16 << 10, WriteBufferSize: 16 << 10,
	}
}
