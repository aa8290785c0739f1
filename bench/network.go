package main

import (
	"bufio"
	"context"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/bench/lab"
)

//go:embed network.py
var networkProgram string

const downloadSize = 512 << 20

// networkPlace makes a network namespace with a server in it.
func networkPlace() (address, subnet string, remove func(), err error) {
	number := os.Getpid() % 10000
	name := fmt.Sprintf("airlock-bench-%d", number)
	near, far := fmt.Sprintf("alk-b0-%d", number), fmt.Sprintf("alk-b1-%d", number)
	base := fmt.Sprintf("10.215.%d.", 20+number%200)
	tearDown := func() {
		_ = exec.Command("ip", "netns", "del", name).Run()
		_ = exec.Command("ip", "link", "del", near).Run()
	}
	for _, args := range [][]string{
		{"netns", "add", name}, {"link", "add", near, "type", "veth", "peer", "name", far, "netns", name},
		{"addr", "add", base + "1/30", "dev", near}, {"link", "set", near, "up"},
		{"-n", name, "addr", "add", base + "2/30", "dev", far}, {"-n", name, "link", "set", far, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			tearDown()
			return "", "", nil, fmt.Errorf("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	listening := make(chan error)
	var l net.Listener
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends in the other namespace
		namespace, err := os.Open(filepath.Join("/run/netns", name))
		if err == nil {
			err = unix.Setns(int(namespace.Fd()), unix.CLONE_NEWNET)
			namespace.Close()
		}
		if err == nil {
			l, err = net.Listen("tcp4", base+"2:0")
		}
		listening <- err
	}()
	if err := <-listening; err != nil {
		tearDown()
		return "", "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go speak(c)
		}
	}()
	return l.Addr().String(), base + "0/30", func() { l.Close(); tearDown() }, nil
}

// speak is the server: a byte, and as many as it is asked for.
func speak(c net.Conn) {
	defer c.Close()
	_, _ = io.WriteString(c, "x")
	line, _ := bufio.NewReader(c).ReadString('\n')
	wanted, _ := strconv.Atoi(strings.TrimSpace(line))
	zeros := make([]byte, 256<<10)
	for wanted > 0 {
		n, err := c.Write(zeros[:min(wanted, len(zeros))])
		if err != nil {
			return
		}
		wanted -= n
	}
}

// measureNetwork measures what a network by permission costs: those who have none, and those who have it.
func (b *bench) measureNetwork(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	address, subnet, remove, err := networkPlace()
	if err != nil {
		b.missing("network", err)
		return nil
	}
	defer remove()
	with, err := b.startWarm(ctx, "--network-allow", address, "--network-private", subnet, "--network-max-bytes", "10GiB")
	if err != nil {
		return err
	}
	defer func() { _ = with.Stop() }() // nothing is measured any more
	took, err := b.compare(ctx, "print(1) without a network", b.full(300, 60),
		airlock("in a service that gives none", b.warm, &printing), airlock("beside an egress process", with, &printing))
	if err != nil {
		return err
	}
	b.goal("print(1) without a network, beside an egress process", "x", 1.02, 1, took[1]/took[0])
	c := newCaller(with.URL)
	defer c.close()
	inside := func(rounds int, kind string) (lab.Sample, error) {
		var run struct{ Stdout string }
		_, err := c.decode(ctx, "POST", runsPath, map[string]any{"language": "python", "code": networkProgram,
			"args":       []string{address, "3128", strconv.Itoa(rounds), kind},
			"timeout_ms": 60_000, "network": map[string]any{"allow": []string{address}}}, &run)
		return printed(run.Stdout, err)
	}
	outside := func(rounds int, kind string) (lab.Sample, error) {
		out, err := exec.CommandContext(ctx, b.python, "-c", networkProgram, address, "-", strconv.Itoa(rounds),
			kind).Output()
		return printed(string(out), err)
	}
	var direct, proxied lab.Sample
	for range 10 {
		near, err := outside(b.full(100, 20), "first")
		far, also := inside(b.full(100, 20), "first")
		if err = errors.Join(err, also); err != nil {
			return err
		}
		direct, proxied = append(direct, near...), append(proxied, far...)
	}
	b.row("a connection and its first byte", "direct", direct)
	b.row("a connection and its first byte", "a sandbox, through the proxy", proxied)
	b.goal("first byte through the proxy above direct", "ms", 1.5, 0.5, proxied.P50()-direct.P50())
	refused, err := inside(b.full(150, 60), "refusal")
	if err != nil {
		return err
	}
	b.row("a host that is refused", "a sandbox, through the proxy", refused)
	return b.download(with, inside)
}

// printed reads the times that the program prints, unless it failed.
func printed(out string, err error) (lab.Sample, error) {
	var times []float64
	if err == nil {
		err = json.Unmarshal([]byte(out), &times)
	}
	return lab.FromMillis(times), err
}

// download measures a large answer, by the processor time of the egress process.
func (b *bench) download(with *lab.Service, inside func(int, string) (lab.Sample, error)) error {
	egress := 0
	for _, p := range lab.Processes().Below(with.Cmd.Process.Pid) {
		if strings.HasSuffix(strings.Join(p.Argv, " "), "egress confined") {
			egress = p.PID
		}
	}
	if egress == 0 {
		return errors.New("there is no egress process")
	}
	before := lab.Used(egress)
	took, err := inside(downloadSize, "bytes")
	if err != nil {
		return err
	}
	const gbit = downloadSize * 8 / 1e9
	b.value("a download", "a sandbox, through the proxy", "Gbit/s", gbit/(took.P50()/1000))
	perCore := gbit / (lab.Used(egress) - before)
	b.value("a download", "for each core of the egress process", "Gbit/s", perCore)
	b.goal("a download, for each core of the egress process", "Gbit/s", 1, 4, perCore)
	return nil
}

// measureTraces compares a service that sends traces with one that does not. The collector is in this process, and
// reads nothing.
func (b *bench) measureTraces(ctx context.Context) error {
	if err := b.service(ctx); err != nil {
		return err
	}
	var sent atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	defer collector.Close()
	traced, err := b.startWarm(ctx, "--live=1000", "--owner-live=1000", "--owner-rate=100000", "--otlp-endpoint",
		collector.URL)
	if err != nil {
		return err
	}
	defer func() { _ = traced.Stop() }() // nothing is measured any more
	took, err := b.compare(ctx, "print(1) and traces", b.full(500, 100), airlock("that are not sent", b.warm, &printing),
		airlock("that are sent", traced, &printing))
	if err != nil {
		return err
	}
	if sent.Load() == 0 {
		return errors.New("the service that is to send traces sends none")
	}
	b.goal("print(1) while traces are sent, against a service that sends none", "x", 1.03, 1, took[1]/took[0])
	return nil
}
