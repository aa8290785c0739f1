package main

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// load is what clients ask of a cluster while its nodes fail, and what became of it.
type load struct {
	cluster *cluster
	mark    string          // begins the words of all programs
	ctx     context.Context //nolint:containedctx // of the clients
	stop    context.CancelFunc
	group   sync.WaitGroup

	mu             sync.Mutex
	kept           map[string]string       // words by the id of the file that was acknowledged
	seen           map[string]map[int]bool // nodes on which a word was seen, by process
	failed         map[string]int          // answered with an error, or not: how
	turned         int                     // refused before anything was done, and asked of the next api
	sessions       int                     // answers of sessions
	foreign, bared int                     // with another's file, or without the one that was acknowledged
	lives          []*liveSession
	cells, writes  int // answers of live sessions
	missing        int // acknowledged files of live sessions that an answer does not have
	lost, twice    int // acknowledged files that are not there, programs on two nodes
}

// startLoad has clients ask both apis, each for runs that leave a file or in a session of its own.
func (c *cluster) startLoad(ctx context.Context) *load {
	ctx, stop := context.WithCancel(ctx)
	l := &load{cluster: c, mark: "mark-" + strings.ToLower(rand.Text()), ctx: ctx, stop: stop, kept: map[string]string{},
		seen: map[string]map[int]bool{}, failed: map[string]int{}}
	for n := range 3 {
		l.group.Go(func() {
			for i := n; ctx.Err() == nil; i += 3 {
				l.run(ctx, i)
			}
		})
		l.group.Go(func() { l.session(ctx, n) })
	}
	l.group.Go(func() {
		lab.Until(ctx, time.Hour, func() bool { l.look(); return false })
	})
	return l
}

func (l *load) api(i int) *node {
	apis := l.cluster.of("api")
	return apis[i%len(apis)]
}

// call asks an api, and the next one if that refuses, as a load balancer does.
func (l *load) call(ctx context.Context, i int, path string, body any) (a answer, err error) {
	lab.Until(ctx, lab.StartTime, func() bool {
		if a, err = l.api(i).call(ctx, "POST", path, body); !refused(a, err) {
			return true
		}
		i++
		l.mu.Lock()
		defer l.mu.Unlock()
		l.turned++
		return false
	})
	return a, err
}

// refused reports whether nothing was done: no process listens, or the answer says so. That a program
// was lost with its worker is no refusal.
func refused(a answer, err error) bool {
	if failed, ok := errors.AsType[*net.OpError](err); ok {
		return failed.Op == "dial"
	}
	return err == nil && a.status == http.StatusServiceUnavailable && a.again &&
		(strings.Contains(a.Text, "shutting down") || strings.Contains(a.Text, "take nothing new"))
}

// fail counts what did not end well, unless the load has ended. The caller holds mu.
func (l *load) fail(ctx context.Context, a answer, err error) {
	if ctx.Err() != nil {
		return
	}
	text, _, _ := strings.Cut(a.Text, `,"request_id"`)
	how := fmt.Sprint(a.status, " ", a.Status, " ", text)
	if err != nil { // without the addresses, of which each is another one
		how = err.Error()[strings.LastIndex(err.Error(), ": ")+1:]
	}
	l.failed[how[:min(len(how), 200)]]++
}

// failures is how much did not end well.
func (l *load) failures() (n int) {
	for how, count := range l.failed {
		fmt.Fprintf(os.Stderr, "%d: %s\n", count, how)
		n += count
	}
	return n
}

// count does what an answer that is good stands for, and counts any other one.
func (l *load) count(ctx context.Context, a answer, err error, good bool, do func()) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if good && err == nil && a.status == http.StatusOK && (a.Status == "ok" || a.Status == "") {
		do()
	} else {
		l.fail(ctx, a, err)
	}
}

// run has a program print its word, and keep it in a file.
func (l *load) run(ctx context.Context, i int) {
	word := fmt.Sprint(l.mark, "-", i)
	a, err := l.call(ctx, i, "/runs", map[string]any{"language": "bash", "args": []string{word},
		"code": `echo "$1" | tee made.txt; sleep 0.1`})
	l.count(ctx, a, err, len(a.Files) == 1 && a.Stdout == word+"\n", func() { l.kept[a.Files[0].ID] = word })
}

// open makes a session.
func (l *load) open(ctx context.Context, n int, body any) (id string) {
	lab.Until(ctx, time.Minute, func() bool {
		a, err := l.call(ctx, n, "/sessions", body)
		id = a.ID
		return err == nil && a.status == http.StatusCreated
	})
	return id
}

// session has the programs of a session keep a word in its file, and read it.
func (l *load) session(ctx context.Context, n int) {
	word, acknowledged := fmt.Sprint(l.mark, "-session-", n), false
	id := l.open(ctx, n, map[string]any{"kind": "files"})
	for i := n; ctx.Err() == nil; i++ {
		a, err := l.call(ctx, i, "/runs", map[string]any{"language": "bash", "session": id, "args": []string{word},
			"code": `[ ! -e who.txt ] || cat who.txt; echo "$1" > who.txt; sleep 0.1`})
		l.count(ctx, a, err, true, func() {
			switch a.Stdout {
			case word + "\n":
				l.sessions++
			case "":
				if acknowledged {
					l.bared++
				} else {
					l.sessions++
				}
			default:
				l.foreign++
			}
			acknowledged = true
		})
	}
}

// look notes on which nodes programs are.
func (l *load) look() {
	for word, at := range l.cluster.words(l.mark) {
		l.mu.Lock()
		if l.seen[word] == nil {
			l.seen[word] = map[int]bool{}
		}
		l.seen[word][at] = true
		l.mu.Unlock()
	}
}

// words returns the words that begin so on command lines of programs, and the process of
// their node.
func (c *cluster) words(prefix string) map[string]int {
	words, all := map[string]int{}, lab.Processes()
	for _, p := range all {
		for _, word := range p.Argv {
			if !strings.HasPrefix(word, prefix) {
				continue
			}
			for _, n := range c.nodes {
				if pid := int(n.pid.Load()); all.Within(p.PID, pid) {
					words[word] = pid
				}
			}
		}
	}
	return words
}

// holder returns the node that a word is on, or nil.
func (c *cluster) holder(ctx context.Context, word string) (found *node) {
	lab.Until(ctx, 20*time.Second, func() bool {
		at := c.words(word)[word]
		for _, n := range c.nodes {
			if int(n.pid.Load()) == at {
				found = n
			}
		}
		return found != nil
	})
	return found
}

// end ends the load, reads all files that were acknowledged, and counts.
func (l *load) end(ctx context.Context) {
	l.stop()
	l.group.Wait()
	for id, word := range l.kept {
		if a, err := l.api(0).call(ctx, "GET", "/files/"+id+"/content", nil); err != nil || a.Text != word+"\n" {
			l.lost++
		}
	}
	for _, live := range l.lives {
		l.missing += live.compare(ctx, l)
	}
	for word, nodes := range l.seen {
		if len(nodes) > 1 && !strings.Contains(word, "session") {
			l.twice++
		}
	}
}

// check fails if something was lost, cut off or done twice.
func (l *load) check(failed int) {
	if l.lost+l.twice+l.bared+l.missing+l.foreign+failed > 0 {
		lab.Fail("something was lost, cut off, or done twice")
	}
}
