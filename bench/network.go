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
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// Network is what a network by permission costs. The server is in a network namespace of
// its own.
type Network struct {
	Without  Beside  `json:"without"`     // print(1) without a network: of a service without grants (Native), and of one whose egress process runs
	First    Beside  `json:"first_byte"`  // a connection and a byte: a program outside of a sandbox, directly (Native), and in one through the proxy
	Refusal  Summary `json:"refusal"`     // until a program knows that a host is refused
	Speed    float64 `json:"gbit_s"`      // of a download
	PerCore  float64 `json:"gbit_s_core"` // and by the processor time of the egress process
	Process  float64 `json:"process_mb"`  // private memory of the egress process
	Idle     float64 `json:"idle_mb"`     // that it has more with heldConnections
	Resident float64 `json:"resident_mb"` // with the binary's pages, which it shares with the service
}

//go:embed network.py
var networkClient string

const (
	heldConnections = 1000
	downloadSize    = 512 << 20
)

// networkPlace makes a namespace with a server in it.
func networkPlace(asked chan<- struct{}, resume <-chan struct{}) (address, subnet string, remove func(), err error) {
	number := os.Getpid() % 10000
	third := 20 + number%200
	name := fmt.Sprintf("airlock-bench-%d", number)
	near, far := fmt.Sprintf("alk-b0-%d", number), fmt.Sprintf("alk-b1-%d", number)
	base := fmt.Sprintf("10.215.%d.", third)
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
	made := make(chan error)
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
		made <- err
	}()
	if err := <-made; err != nil {
		tearDown()
		return "", "", nil, err
	}
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			go speak(c, asked, resume)
		}
	}()
	return l.Addr().String(), base + "0/30", func() { l.Close(); tearDown() }, nil
}

// speak is the server: a byte, and as many as it is asked for; one, and it waits before that.
func speak(c net.Conn, asked chan<- struct{}, resume <-chan struct{}) {
	defer c.Close()
	_, _ = io.WriteString(c, "x")
	line, err := bufio.NewReader(c).ReadString('\n')
	wanted, _ := strconv.Atoi(strings.TrimSpace(line))
	if err != nil {
		return
	}
	if wanted == 1 {
		asked <- struct{}{}
		<-resume
	}
	zeros := make([]byte, 256<<10)
	for wanted > 0 {
		n, err := c.Write(zeros[:min(wanted, len(zeros))])
		if err != nil {
			return
		}
		wanted -= n
	}
}

func (b *bench) measureNetwork(ctx context.Context) error {
	if err := b.services(ctx); err != nil {
		return err
	}
	asked, resume := make(chan struct{}), make(chan struct{})
	address, subnet, remove, err := networkPlace(asked, resume)
	if err != nil {
		b.results.Missing["network"] = err.Error()
		return nil
	}
	defer remove()
	with, err := b.startAirlock("--network-allow", address, "--network-private", subnet, "--network-max-bytes", "10GiB")
	if err != nil {
		return err
	}
	defer with.stop()
	if err := errors.Join(with.await(ctx), func() error { _, err := zygotesReady(ctx, with); return err }()); err != nil {
		return err
	}
	n := &networkRun{bench: b, service: with, address: address, result: &Network{}}
	idle := func(ctx context.Context) error { return n.idle(ctx, asked, resume) }
	for _, measure := range []func(context.Context) error{n.firstByte, n.refusal, n.without, n.download, idle} {
		if err := measure(ctx); err != nil {
			return err
		}
	}
	r := n.result
	b.results.Network = r
	fmt.Fprintf(b.progress, "   print(1) without a network: %.2f ms, beside an egress process %.2f ms\n",
		r.Without.Native.P50, r.Without.Theirs.P50)
	fmt.Fprintf(b.progress, "   first byte: %.2f ms directly, %.2f ms through the proxy; a refusal %.2f ms\n",
		r.First.Native.P50, r.First.Theirs.P50, r.Refusal.P50)
	fmt.Fprintf(b.progress, "   a download: %.2f Gbit/s, %.2f for each core of the egress process\n", r.Speed, r.PerCore)
	const words = "   the egress process: %.1f MB of its own (%.1f with the binary), %.1f MB more with %d idle\n"
	fmt.Fprintf(b.progress, words, r.Process, r.Resident, r.Idle, heldConnections)
	return ctx.Err()
}

type networkRun struct {
	bench   *bench
	service *server
	address string
	result  *Network
}

// inside runs the client in a sandbox with a grant, and outside without one.
func (n *networkRun) inside(ctx context.Context, rounds int, kind string) ([]float64, error) {
	body, err := json.Marshal(map[string]any{"language": "python", "code": networkClient, "timeout_ms": 60_000,
		"args":    []string{n.address, "3128", strconv.Itoa(rounds), kind},
		"network": map[string]any{"allow": []string{n.address}}})
	if err != nil {
		return nil, err
	}
	b := *n.bench
	b.warm = n.service
	_, answer, err := b.request(ctx, "/api/v1/runs", string(body), `"status":"ok"`)
	if err != nil {
		return nil, err
	}
	var run struct{ Stdout string }
	var times []float64
	return times, errors.Join(json.Unmarshal(answer, &run), json.Unmarshal([]byte(run.Stdout), &times))
}

func (n *networkRun) outside(ctx context.Context, rounds int, kind string) (times []float64, err error) {
	cmd := exec.CommandContext(ctx, n.bench.options.python, "-", n.address, "-", strconv.Itoa(rounds), kind)
	cmd.Stdin = strings.NewReader(networkClient)
	out, err := cmd.Output()
	return times, errors.Join(err, json.Unmarshal(out, &times))
}

// batches is in how many turns the rounds are made.
const batches = 10

func (n *networkRun) firstByte(ctx context.Context) error {
	var direct, proxied sample
	for range batches {
		for way, ask := range []func(context.Context, int, string) ([]float64, error){n.outside, n.inside} {
			times, err := ask(ctx, n.bench.plan.prints, "first")
			if err != nil {
				return err
			}
			if way == 0 {
				direct = append(direct, inMillis(times)...)
			} else {
				proxied = append(proxied, inMillis(times)...)
			}
		}
	}
	n.result.First = Beside{direct.summary(), proxied.summary()}
	return nil
}

func inMillis(values []float64) (s sample) {
	for _, v := range values {
		s = append(s, time.Duration(v*float64(time.Millisecond)))
	}
	return s
}

func (n *networkRun) refusal(ctx context.Context) error {
	times, err := n.inside(ctx, n.bench.plan.stages, "refusal")
	n.result.Refusal = inMillis(times).summary()
	return err
}

// without measures what grants cost a program without one, beside a service that gives none.
func (n *networkRun) without(ctx context.Context) (err error) {
	const body = `{"language":"python","code":"print(1)"}`
	other := *n.bench
	other.warm = n.service
	n.result.Without, err = n.bench.inTurn(ctx, func() (time.Duration, error) {
		took, _, err := n.bench.request(ctx, "/api/v1/runs", body, `1\n`)
		return took, err
	}, func() (time.Duration, error) {
		took, _, err := other.request(ctx, "/api/v1/runs", body, `1\n`)
		return took, err
	})
	return err
}

func (n *networkRun) download(ctx context.Context) error {
	before, err := n.process()
	if err != nil {
		return err
	}
	times, err := n.inside(ctx, downloadSize, "bytes")
	if err != nil {
		return err
	}
	after, err := n.process()
	const gbit, ticksPerSecond = downloadSize * 8 / 1e9, 100
	n.result.Speed = gbit / times[0]
	n.result.PerCore = gbit / (float64(after.ticks-before.ticks) / ticksPerSecond)
	return err
}

func (n *networkRun) idle(ctx context.Context, asked <-chan struct{}, resume chan<- struct{}) error {
	egress, err := n.process()
	if err != nil {
		return err
	}
	r := n.result
	if r.Process, _, err = memoryOf([]process{egress}); err != nil {
		return err
	}
	done := make(chan error, 1)
	go func() {
		_, err := n.inside(ctx, heldConnections, "idle")
		done <- err
	}()
	select {
	case <-asked:
	case err := <-done:
		return fmt.Errorf("idle connections: %w", err)
	}
	with, _, err := memoryOf([]process{egress})
	resume <- struct{}{}
	r.Idle = with - r.Process
	r.Resident = float64(egress.resident*os.Getpagesize()) / megabyte
	return errors.Join(err, <-done)
}

// process is the egress process of the service.
func (n *networkRun) process() (process, error) {
	for _, p := range processes() {
		if p.parent == n.service.cmd.Process.Pid && strings.HasSuffix(p.command, "egress confined") {
			return p, nil
		}
	}
	return process{}, errors.New("there is no egress process")
}

// goals are what was promised of the network.
func (n *Network) goals() []Goal {
	value := func(of func() float64) *float64 {
		if n == nil {
			return nil
		}
		return new(of())
	}
	return []Goal{
		{Name: "network: print(1) without one, beside an egress process, against a service without",
			Unit: "x", Must: 1.02, Aim: 1,
			Measured: value(func() float64 { return n.Without.Theirs.P50 / n.Without.Native.P50 })},
		{Name: "network: first byte through the proxy above direct", Unit: "ms", Must: 1.5, Aim: 0.5,
			Measured: value(func() float64 { return n.First.Theirs.P50 - n.First.Native.P50 })},
		{Name: "network: a refusal", Unit: "ms", Must: 5, Aim: 1, Measured: value(func() float64 { return n.Refusal.P50 })},
		{Name: "network: a download, for each core of the egress process", Unit: "Gbit/s", Must: 1, Aim: 4, More: true,
			Measured: value(func() float64 { return n.PerCore })},
		{Name: "network: 1,000 idle connections", Unit: "MB", Must: 30, Aim: 15,
			Measured: value(func() float64 { return n.Idle })},
	}
}
