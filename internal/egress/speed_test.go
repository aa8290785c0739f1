package egress

import (
	"fmt"
	"io"
	"net"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"
)

// Numbers of one process: go test -run XXX -bench . -benchtime 300x. After 1,024
// connections a run gets 200 a second, so that more would measure that.

// BenchmarkFirstByte is a connection and the first byte of a server that speaks first.
func BenchmarkFirstByte(b *testing.B) {
	port := listenPublic(b, each(func(c net.Conn) { _, _ = io.WriteString(c, "x") }))
	r := newRig(b, grantOf(b, "good.test:"+port))
	one := make([]byte, 1)
	b.Run("direct", func(b *testing.B) {
		for b.Loop() {
			c, err := net.Dial("tcp", "127.0.0.2:"+port)
			if err != nil {
				b.Fatal(err)
			}
			_, _ = io.ReadFull(c, one)
			c.Close()
		}
	})
	b.Run("proxied", func(b *testing.B) {
		for b.Loop() {
			c, err := net.Dial("tcp", r.proxy)
			if err != nil {
				b.Fatal(err)
			}
			fmt.Fprintf(c, "CONNECT good.test:%s HTTP/1.1\r\nHost: good.test\r\n\r\n", port)
			if line := r.answer(c); !strings.Contains(line, "200") {
				b.Fatal(line)
			}
			_, _ = io.ReadFull(c, one)
			c.Close()
		}
	})
}

// BenchmarkRefusal is a connection that is refused.
func BenchmarkRefusal(b *testing.B) {
	r := newRig(b, grantOf(b, "good.test:443"))
	for b.Loop() {
		c, err := net.Dial("tcp", r.proxy)
		if err != nil {
			b.Fatal(err)
		}
		fmt.Fprint(c, "CONNECT evil.test:443 HTTP/1.1\r\nHost: evil.test\r\n\r\n")
		if line := r.answer(c); !strings.Contains(line, "403") {
			b.Fatal(line)
		}
		c.Close()
	}
}

// BenchmarkBytes is a download of 64 MiB. cpu-s/Gbit is the processor time of all of it,
// the server's and the program's too.
func BenchmarkBytes(b *testing.B) {
	const size = 64 << 20
	chunk := make([]byte, 256<<10)
	port := listenPublic(b, each(func(c net.Conn) {
		for range size / len(chunk) {
			if _, err := c.Write(chunk); err != nil {
				return
			}
		}
	}))
	grant := grantOf(b, "good.test:"+port)
	grant.MaxBytes = 1 << 50
	r := newRig(b, grant)
	b.SetBytes(size)
	before := processorTime()
	for b.Loop() {
		c, _ := r.connect("good.test:" + port)
		if n, _ := io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{c}, chunk); n != size {
			b.Fatal(n)
		}
		c.Close()
	}
	used := processorTime() - before
	b.ReportMetric(used.Seconds()/(float64(b.N)*size*8/1e9), "cpu-s/Gbit")
}

func processorTime() time.Duration {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// BenchmarkIdle (-benchtime 1x) holds 1,000 connections; B/conn is the memory of the proxy, of the
// server and of the program together.
func BenchmarkIdle(b *testing.B) {
	const connections = 1000
	wait := make(chan struct{})
	defer close(wait)
	port := listenPublic(b, each(func(c net.Conn) { _, _ = io.WriteString(c, "x"); <-wait }))
	r := newRig(b, grantOf(b, "good.test:"+port))
	for b.Loop() {
		var before, after runtime.MemStats
		runtime.GC()
		runtime.ReadMemStats(&before)
		held := make([]net.Conn, 0, connections)
		for range connections {
			c, line := r.connect("good.test:" + port)
			if _, err := io.ReadFull(c, make([]byte, 1)); err != nil {
				b.Fatal(line, err)
			}
			held = append(held, c)
		}
		runtime.GC()
		runtime.ReadMemStats(&after)
		b.ReportMetric(float64(after.HeapInuse+after.StackInuse-before.HeapInuse-before.StackInuse)/connections, "B/conn")
		for _, c := range held {
			c.Close()
		}
	}
}
