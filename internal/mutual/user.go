package mutual

import (
	"bufio"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
	"sync"
	"time"
)

// ErrUser is the error for a peer on this machine of another user if there is no token.
var ErrUser = errors.New("without a worker token a worker and an api must run as the same user")

// Hint says what to do about ErrFar, ErrToken and ErrUser.
const Hint = "set AIRLOCK_WORKER_TOKEN to the same value on apis and workers; `openssl rand -hex 32` makes one"

// CheckUser returns an error unless a connection is to a process of this user on this machine.
// TCP has no SO_PEERCRED, but the kernel lists for each socket the user who made it. A client
// sees that only when the peer has accepted the connection, for which CheckUser waits.
func CheckUser(ctx context.Context, conn net.Conn) error {
	return checkUser(ctx, conn.LocalAddr().String(), conn.RemoteAddr().String())
}

func checkUser(ctx context.Context, local, remote string) error {
	if !loopback(remote) {
		return fmt.Errorf("%w: %s", ErrFar, Hint)
	}
	ctx, cancel := context.WithTimeout(ctx, linkTime)
	defer cancel()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for {
		uid, err := socketUser(remote, local)
		switch {
		case err != nil:
			return err
		case uid == os.Geteuid():
			return nil
		case uid >= 0:
			return fmt.Errorf("%w, and this one is of user %d, that one of user %d: %s", ErrUser, os.Geteuid(), uid, Hint)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("%w, and the kernel does not tell whose %s is: %s", ErrUser, remote, Hint)
		}
	}
}

// socketUser returns the user who made the TCP socket with these addresses, or -1 if no process
// has it open: not yet or no longer, as the kernel then calls it root's.
func socketUser(local, remote string) (uid int, err error) {
	from, err := netip.ParseAddrPort(local)
	if err != nil {
		return -1, err
	}
	to, err := netip.ParseAddrPort(remote)
	if err != nil {
		return -1, err
	}
	for _, name := range []string{"tcp", "tcp6"} { // a socket of either family may have an IPv4 address
		uid, err := findSocket("/proc/self/net/"+name, unmap(from), unmap(to))
		if err != nil && !errors.Is(err, os.ErrNotExist) || uid >= 0 {
			return uid, err
		}
	}
	return -1, nil
}

func unmap(a netip.AddrPort) netip.AddrPort {
	return netip.AddrPortFrom(a.Addr().Unmap().WithZone(""), a.Port())
}

// findSocket looks for an open socket in a table of the kernel.
func findSocket(table string, local, remote netip.AddrPort) (uid int, err error) {
	f, err := os.Open(table)
	if err != nil {
		return -1, err
	}
	defer f.Close()
	overflow, err := os.ReadFile("/proc/sys/kernel/overflowuid")
	if err != nil {
		return -1, err
	}
	const established = "01"
	lines := bufio.NewScanner(f)
	for lines.Scan() { // sl local_address rem_address st queues timer retrnsmt uid timeout inode ...
		column := strings.Fields(lines.Text())
		if len(column) < 10 || column[3] != established || column[9] == "0" ||
			column[7] == strings.TrimSpace(string(overflow)) || // a user that this namespace has no number for
			socketAddress(column[1]) != local || socketAddress(column[2]) != remote {
			continue
		}
		return strconv.Atoi(column[7])
	}
	return -1, lines.Err()
}

// socketAddress reads an address as the kernel prints it: words in the machine's byte order.
func socketAddress(text string) netip.AddrPort {
	host, port, _ := strings.Cut(text, ":")
	bytes, err := hex.DecodeString(host)
	number, err2 := strconv.ParseUint(port, 16, 16)
	if err != nil || err2 != nil || len(bytes)%4 != 0 {
		return netip.AddrPort{}
	}
	for i := 0; i < len(bytes); i += 4 {
		word := binary.BigEndian.Uint32(bytes[i:])
		binary.NativeEndian.PutUint32(bytes[i:], word)
	}
	ip, _ := netip.AddrFromSlice(bytes)
	return netip.AddrPortFrom(ip.Unmap(), uint16(number))
}

// Listener returns a listener whose connections fail unless they are of this user, for a server
// that has no token.
func Listener(l net.Listener) net.Listener { return userListener{l} }

type userListener struct{ net.Listener }

func (l userListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	check := sync.OnceValue(func() error { return CheckUser(context.Background(), conn) })
	return &userConn{Conn: conn, check: check}, nil
}

// userConn checks the peer with the first use, in the goroutine of the connection.
type userConn struct {
	net.Conn
	check func() error
}

func (c *userConn) Read(p []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.Conn.Read(p)
}

func (c *userConn) Write(p []byte) (int, error) {
	if err := c.check(); err != nil {
		return 0, err
	}
	return c.Conn.Write(p)
}
