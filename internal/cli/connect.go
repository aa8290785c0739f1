package cli

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
	"github.com/airlock-run/airlock/internal/dialect/native"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/httpd"
)

// connection is a client of a service, and the service itself if it is in this process.
type connection struct {
	client  *client.Client
	service *service // nil: the service is another process
	serving chan error
	server  *httpd.Server
	folder  string // temporary storage
}

// connect connects to the service that runs code for this command: the one at
// --server, else the one that holds the data directory, else a temporary one in this
// process.
func (a *app) connect(ctx context.Context) (*connection, error) {
	if a.Config.Server != "" {
		return a.dial(a.Config.Server)
	}
	if a.socketAnswers(ctx) {
		return a.dial("unix://" + a.Config.Socket())
	}
	if err := a.checkData(); err != nil {
		return nil, err
	}
	return a.startLocal(ctx)
}

// checkData returns an error if --data names no directory. One that is missing by default is none: without the packages
// of setup there is Python as the machine has it.
func (a *app) checkData() error {
	if a.Config.Server != "" || a.Config.Origin("data") != "--data" {
		return nil
	}
	err := command.ReadableFolder(a.Config.Data)
	if f, ok := errors.AsType[*command.Failure](err); ok {
		f.Hint = "--data is where Airlock has its packages, and `airlock setup --data DIR` makes it; " +
			"a program gets files with -f"
	}
	return err
}

// connectFor is connect for a program that wants a wall, whose request names it. A temporary service has that one
// alone; if wall is empty, that of the settings.
func (a *app) connectFor(ctx context.Context, wall string) (*connection, error) {
	if err := checkWall(wall); err != nil {
		return nil, err
	}
	if wall == "" || a.Config.Server != "" || a.socketAnswers(ctx) {
		return a.connect(ctx)
	}
	if err := a.checkData(); err != nil {
		return nil, err
	}
	return a.startLocalWith(ctx, sandboxes{a.ownLauncher(0), engine.Wall(wall)})
}

// checkWall returns an error if --wall names no wall. It may be empty.
func checkWall(wall string) error {
	switch wall {
	case "", config.WallShared, config.WallGVisor:
		return nil
	}
	return command.Fail(command.ExitUsage, "", "--wall is %q, and may be %s or %s", wall, config.WallShared,
		config.WallGVisor)
}

// withService does something with the service at --server, or with the one that
// holds the data directory. Without either it fails with the hint and the problem.
func (a *app) withService(ctx context.Context, hint, problem string, do func(*client.Client) error) error {
	if a.Config.Server == "" && !a.socketAnswers(ctx) {
		return command.Fail(command.ExitUnavailable, hint, "%s", problem)
	}
	conn, err := a.connect(ctx)
	if err != nil {
		return err
	}
	defer conn.close()
	return do(conn.client)
}

// cliAgent is the User-Agent by which the native API recognizes the command line.
const cliAgent = "airlock-cli"

func (a *app) dial(server string) (*connection, error) {
	c, err := client.New(client.Options{Server: server, Key: a.Config.Key.Reveal(), Agent: cliAgent})
	if err != nil {
		return nil, err
	}
	return &connection{client: c}, nil
}

// socketAnswers reports whether a service holds the data directory. A killed service
// leaves a socket file on which no process listens.
func (a *app) socketAnswers(ctx context.Context) bool {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", a.Config.Socket())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// startLocal starts a service in this process, with temporary storage. Only the
// languages' packages come from the data directory.
func (a *app) startLocal(ctx context.Context) (*connection, error) {
	return a.startLocalWith(ctx, a.sandboxes(a.ownLauncher(0)))
}

// startLocalWith does the same with sandboxes of the caller's.
func (a *app) startLocalWith(ctx context.Context, sandboxes sandboxes) (_ *connection, err error) {
	c := &connection{serving: make(chan error, 1)}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	// MkdirTemp gives it the mode 0700.
	if c.folder, err = os.MkdirTemp("", "airlock-run-"); err != nil {
		return nil, command.Fail(command.ExitUnavailable, "set TMPDIR to a folder that you can write to",
			"no folder for temporary files: %w",
			err)
	}
	if c.service, err = a.startService(ctx, c.folder, nil, sandboxes, nil); err != nil {
		return nil, err
	}
	listener := newMemoryListener()
	server, err := a.httpServer(c.service, []net.Listener{listener})
	if err != nil {
		return nil, err
	}
	c.server = server
	go func() { c.serving <- server.Serve() }()
	c.client, err = client.New(client.Options{Server: "http://localhost", Dial: listener.Dial, Agent: cliAgent})
	return c, err
}

// inProcess returns a client of an engine in this process that acts for one caller, without a socket.
func (a *app) inProcess(e *engine.Service, caller engine.Caller) *client.Client {
	api := native.New(e, native.Options{Caller: func(*http.Request) engine.Caller { return caller },
		MaxUpload: a.Config.MaxUpload, Log: a.Log})
	return client.WithHandler(http.StripPrefix("/api/v1", api), client.Options{Agent: "airlock"})
}

// serveMemory serves a handler on a listener in memory, to which dial connects, until end is called.
func serveMemory(handler http.Handler) (dial func(context.Context) (net.Conn, error), end func()) {
	listener := newMemoryListener()
	server := &http.Server{Handler: handler, ReadHeaderTimeout: time.Minute}
	done := make(chan struct{})
	go func() { defer close(done); _ = server.Serve(listener) }() // ends with Close
	return listener.Dial, func() { _ = server.Close(); <-done }
}

// closeTimeout bounds how long a service in this process may take to end. The caller
// has abandoned what it still runs.
const closeTimeout = 10 * time.Second

// close ends a service in this process, and what still runs in it.
func (c *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if c.client != nil {
		c.client.Close()
	}
	if c.service != nil {
		hurried, stop := context.WithCancel(ctx)
		stop()
		_ = c.service.engine.Shutdown(hurried) // kills what is left
	}
	if c.server != nil {
		_ = c.server.Shutdown(ctx)
		<-c.serving //nolint:errcheck // the requests have returned their errors
	}
	if c.service != nil {
		_ = c.service.close()
	}
	if c.folder != "" {
		_ = os.RemoveAll(c.folder)
	}
}

// download writes a file's bytes.
func (c *connection) download(ctx context.Context, id string, to io.Writer) error {
	_, err := c.client.Download(ctx, id, to)
	return err
}

// memoryListener is a listener without an address, to which only this process can
// connect. With it a command talks to its own engine as to any service. Each
// connection is a pair of unix sockets, so that the kernel vouches for the peer.
type memoryListener struct {
	conns  chan net.Conn
	closed chan struct{}
	once   sync.Once
}

func newMemoryListener() *memoryListener {
	return &memoryListener{conns: make(chan net.Conn), closed: make(chan struct{})}
}

// Accept returns the server's end of the next connection.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

// Dial returns the client's end of a new connection.
func (l *memoryListener) Dial(ctx context.Context) (net.Conn, error) {
	ours, theirs, err := connPair()
	if err != nil {
		return nil, err
	}
	select {
	case l.conns <- theirs:
		return ours, nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-l.closed:
		err = net.ErrClosed
	}
	ours.Close()
	theirs.Close()
	return nil, err
}

func connPair() (ours, theirs net.Conn, err error) {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	if ours, err = fileConn(fds[0]); err != nil {
		unix.Close(fds[1])
		return nil, nil, err
	}
	if theirs, err = fileConn(fds[1]); err != nil {
		ours.Close()
		return nil, nil, err
	}
	return ours, theirs, nil
}

// fileConn takes ownership of the socket, also when it fails.
func fileConn(fd int) (net.Conn, error) {
	f := os.NewFile(uintptr(fd), "memory")
	defer f.Close() // FileConn has a copy of its own
	return net.FileConn(f)
}

// Close ends Accept. Connections that were made continue.
func (l *memoryListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr returns an address without a name.
func (l *memoryListener) Addr() net.Addr { return &net.UnixAddr{Net: "unix"} }
