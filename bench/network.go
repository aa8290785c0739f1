package main

import (
	"context"
	_ "embed"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync/atomic"

	"github.com/airlock-run/airlock/bench/lab"
)

//go:embed network.py
var networkProgram string

// networkPlace starts a server in a network namespace of its own.
func (b *bench) networkPlace(ctx context.Context) (address, subnet string) {
	number := os.Getpid() % 10000
	name := fmt.Sprintf("airlock-bench-%d", number)
	near, far := fmt.Sprintf("alk-b0-%d", number), fmt.Sprintf("alk-b1-%d", number)
	base := fmt.Sprintf("10.215.%d.", 20+number%200)
	b.ends = append(b.ends, func() {
		_ = exec.Command("ip", "netns", "del", name).Run()
		_ = exec.Command("ip", "link", "del", near).Run()
	})
	for _, args := range [][]string{
		{"netns", "add", name}, {"link", "add", near, "type", "veth", "peer", "name", far, "netns", name},
		{"addr", "add", base + "1/30", "dev", near}, {"link", "set", near, "up"},
		{"-n", name, "addr", "add", base + "2/30", "dev", far}, {"-n", name, "link", "set", far, "up"},
	} {
		if out, err := exec.Command("ip", args...).CombinedOutput(); err != nil {
			lab.Fail("ip %s: %w: %s", strings.Join(args, " "), err, out)
		}
	}
	address = base + "2:8000"
	b.await(ctx, lab.Must(lab.Start(address, nil, "/usr/bin/env", "ip", "netns", "exec", name, b.python, "-c",
		networkProgram, address, "-", "0", "serve")))
	return address, base + "0/30"
}

// measureNetwork measures what a network by permission costs: those who have none, and those who have it.
func (b *bench) measureNetwork(ctx context.Context) {
	var address, subnet string
	if err := lab.Try(func() { address, subnet = b.networkPlace(ctx) }); err != nil {
		b.Missing("network", err)
		return
	}
	s := b.service(ctx)
	with := b.startWarm(ctx, "--network-allow", address, "--network-private", subnet, "--network-max-bytes", "10GiB")
	took := b.compare(ctx, "print(1) without a network", b.full(300, 60),
		airlock("in a service that gives none", s, &printing), airlock("beside an egress process", with, &printing))
	b.Goal("print(1) without a network, beside an egress process", "x", 1.02, 1, took[1]/took[0])
	c := b.caller(with)
	inside := func(rounds int, kind string) lab.Sample {
		var run struct{ Stdout string }
		c.decode(ctx, "POST", runsPath, map[string]any{"language": "python", "code": networkProgram,
			"args":       []string{address, "3128", strconv.Itoa(rounds), kind},
			"timeout_ms": 60_000, "network": map[string]any{"allow": []string{address}}}, &run)
		return printed(run.Stdout)
	}
	var direct, proxied lab.Sample
	for range 10 {
		rounds := b.full(100, 20)
		direct = append(direct, printed(string(lab.Must(exec.CommandContext(ctx, b.python, "-c", networkProgram, address, "-",
			strconv.Itoa(rounds), "first").Output())))...)
		proxied = append(proxied, inside(rounds, "first")...)
	}
	b.Row("a connection and its first byte", "direct", direct)
	b.Row("a connection and its first byte", "a sandbox, through the proxy", proxied)
	b.Goal("first byte through the proxy above direct", "ms", 1.5, 0.5, proxied.P50()-direct.P50())
	b.Row("a host that is refused", "a sandbox, through the proxy", inside(b.full(150, 60), "refusal"))

	// A large answer, by the processor time of the egress process.
	egress := 0
	for _, p := range lab.Processes().Below(with.Cmd.Process.Pid) {
		if strings.HasSuffix(strings.Join(p.Argv, " "), "egress confined") {
			egress = p.PID
		}
	}
	if egress == 0 {
		lab.Fail("there is no egress process")
	}
	before := lab.Used(egress)
	const size = 512 << 20
	const gbit = size * 8 / 1e9
	b.Value("a download", "a sandbox, through the proxy", "Gbit/s", gbit/(inside(size, "bytes").P50()/1000))
	perCore := gbit / (lab.Used(egress) - before)
	b.Value("a download", "for each core of the egress process", "Gbit/s", perCore)
	b.Goal("a download, for each core of the egress process", "Gbit/s", 1, 4, perCore)
}

// printed reads the times that the program prints.
func printed(out string) lab.Sample {
	var times []float64
	lab.Check(json.Unmarshal([]byte(out), &times))
	return lab.FromMillis(times)
}

// measureTraces compares a service that sends traces with one that does not. The collector is in this process, and
// reads nothing.
func (b *bench) measureTraces(ctx context.Context) {
	var sent atomic.Int64
	collector := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { sent.Add(1) }))
	defer collector.Close()
	traced := b.startWarm(ctx, append(slices.Clone(many), "--otlp-endpoint", collector.URL)...)
	took := b.compare(ctx, "print(1) and traces", b.full(500, 100),
		airlock("that are not sent", b.service(ctx), &printing), airlock("that are sent", traced, &printing))
	if sent.Load() == 0 {
		lab.Fail("the service that is to send traces sends none")
	}
	b.Goal("print(1) while traces are sent, against a service that sends none", "x", 1.03, 1, took[1]/took[0])
}
