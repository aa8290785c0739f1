package egress

import (
	"context"

	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"runtime/debug"
	"sync"

	"golang.org/x/sys/unix"
	"golang.org/x/time/rate"

	"github.com/airlock-run/airlock/internal/engine"
)

// serviceSocket is the number of the socket to the service.
const serviceSocket = 3

// Main runs the egress process. The service ends it by closing the socket.
func Main(args []string) int {
	signal.Ignore(unix.SIGINT, unix.SIGTERM, unix.SIGHUP, unix.SIGPIPE, unix.SIGQUIT)
	if len(args) == 0 { // confine starts it again as another user, in an empty file system
		fmt.Fprintln(os.Stderr, "airlock egress:", confine())
		return 1
	}
	roots, err := seal()
	var link *net.UnixConn
	if err == nil {
		link, err = packets(os.NewFile(serviceSocket, "service"))
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "airlock egress:", err)
		return 1
	}
	// Most of the heap is garbage of the initialization of the binary's other packages.
	debug.FreeOSMemory()
	serve(link, newProxy(hostNetwork(), roots, waits{headerTime, idleTime}))
	return 0
}

// serve takes grants until the service closes the link.
func serve(link *net.UnixConn, p *proxy) {
	life, end := context.WithCancel(context.Background())
	var work sync.WaitGroup
	buffer := make([]byte, maxPacket)
	for {
		message, files, err := receive(link, buffer)
		if err != nil {
			break
		}
		r, err := p.acceptGrant(life, message, files)
		closeAll(files)
		if err == nil {
			work.Go(r.follow)
		}
	}
	end()
	work.Wait()
	p.shut()
}

// acceptGrant takes one grant, with its link and its listening socket.
func (p *proxy) acceptGrant(life context.Context, message []byte, files []*os.File) (_ *run, err error) {
	if len(files) != 2 {
		return nil, errors.New("a grant without its sockets")
	}
	link, err := packets(files[0])
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			answer, _ := json.Marshal(first{Error: err.Error()})
			_ = send(link, answer)
			link.Close()
		}
	}()
	r := &run{
		proxy: p, link: link, rate: rate.NewLimiter(byteRate, byteRate/4),
		starts: rate.NewLimiter(connectionRate, mostConnections), reports: make(chan engine.Contact, mostReports),
		ended: make(chan struct{}),
	}
	var asked grantMessage
	if err := json.Unmarshal(message, &asked); err != nil {
		return nil, err
	}
	r.grant, r.secrets, r.needles = &asked.Grant, asked.Secrets, map[string][]needle{}
	for _, s := range r.secrets {
		r.needles[s.Placeholder] = formsOf(s)
	}
	if len(r.secrets) > 0 && len(r.grant.Certificate) == 0 {
		return nil, errors.New("a grant with secrets and without an authority")
	}
	if len(r.grant.Certificate) > 0 {
		if r.authority, err = newAuthority(r.grant.Certificate, r.grant.Key); err != nil {
			return nil, err
		}
	}
	if r.listener, err = net.FileListener(files[1]); err != nil {
		return nil, err
	}
	r.life, r.end = context.WithCancel(life)
	r.plain = r.transport()
	if err := send(link, []byte("{}")); err != nil {
		r.end()
		r.listener.Close()
		return nil, err
	}
	return r, nil
}

// follow serves a grant until the service ends it.
func (r *run) follow() {
	r.work.Go(r.serve)
	reported := make(chan struct{})
	go func() { defer close(reported); r.sendReports() }()
	stop := context.AfterFunc(r.life, func() { _ = r.link.CloseRead() })
	_, _, _ = receive(r.link, make([]byte, 16)) // the service sends nothing more: this is its end
	stop()
	r.listener.Close()
	r.end()
	r.plain.CloseIdleConnections()
	r.work.Wait()
	r.endAll()
	close(r.ended)
	<-reported
}
