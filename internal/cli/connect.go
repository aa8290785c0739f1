package cli

import (
	"context"
	"io"
	"net"
	"os"
	"time"

	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/httpd"
)

// connection is a service to talk to, and whatever has to be kept for that.
type connection struct {
	client  *client.Client
	service *service // in this process; nil: the service is elsewhere
	serving chan error
	server  *httpd.Server
	folder  string // throw-away storage
}

// connect finds who runs code for this command: the service at --server, else
// the one that holds the data directory, else one of our own that goes when
// we do.
func (a *app) connect(ctx context.Context) (*connection, error) {
	if a.cfg.Server != "" {
		return a.dial(a.cfg.Server)
	}
	if a.socketAnswers(ctx) {
		return a.dial("unix://" + a.cfg.Socket())
	}
	return a.startLocal(ctx)
}

// cliAgent is how the native API knows the command line.
const cliAgent = "airlock-cli"

func (a *app) dial(server string) (*connection, error) {
	c, err := client.New(client.Options{Server: server, Key: a.cfg.Key.Reveal(), Agent: cliAgent})
	if err != nil {
		return nil, err
	}
	return &connection{client: c}, nil
}

// socketAnswers reports whether a service holds the data directory. A socket
// file that nobody listens on is what a killed service leaves.
func (a *app) socketAnswers(ctx context.Context) bool {
	conn, err := (&net.Dialer{Timeout: 2 * time.Second}).DialContext(ctx, "unix", a.cfg.Socket())
	if err != nil {
		return false
	}
	conn.Close()
	return true
}

// startLocal starts a service in this process, with storage that is removed
// at the end. Only the languages' packages come from the data directory.
func (a *app) startLocal(ctx context.Context) (_ *connection, err error) {
	c := &connection{serving: make(chan error, 1)}
	defer func() {
		if err != nil {
			c.close()
		}
	}()
	// Made for us alone: mode 0700.
	if c.folder, err = os.MkdirTemp("", "airlock-run-"); err != nil {
		return nil, fail(exitUnavailable, "set TMPDIR to a folder that you can write to", "no folder for temporary files: %w",
			err)
	}
	if c.service, err = a.startService(ctx, c.folder, nil, a.ownLauncher(0), nil); err != nil {
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

// closeTime is how long a service of our own may take to end. What it runs by
// then was abandoned by the caller for it.
const closeTime = 10 * time.Second

// close ends a service of our own, and what still runs in it.
func (c *connection) close() {
	ctx, cancel := context.WithTimeout(context.Background(), closeTime)
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
		<-c.serving //nolint:errcheck // whoever asked it something was told how it ended
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

// serviceAnswers is socketAnswers in words.
func (a *app) serviceAnswers(ctx context.Context) (bool, string) {
	if a.socketAnswers(ctx) {
		return true, "answers on " + a.cfg.Socket()
	}
	return false, "nobody answers on " + a.cfg.Socket() + "; `airlock serve` starts one"
}
