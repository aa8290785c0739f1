package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"strings"
)

// liveSession is a client's live session. Each of its cells writes a file, and prints all files with their content;
// each fourth request writes one itself.
type liveSession struct {
	number int
	id     string
	kept   map[string]int // what was acknowledged last, by the name of the file
}

// liveFiles is how many files a session has.
const liveFiles = 12

// addLive has clients run cells, each in a live session of its own, until the load ends.
func (l *load) addLive() {
	for n := range 3 {
		s := &liveSession{number: n, kept: map[string]int{}}
		l.lives = append(l.lives, s)
		l.group.Go(func() { s.run(l.ctx, l) })
	}
}

// run has cells run at the apis in turn, and compares what each prints with what was acknowledged.
func (s *liveSession) run(ctx context.Context, l *load) {
	s.id = l.open(ctx, s.number, map[string]any{"kind": "live", "language": "javascript"})
	for i := s.number; ctx.Err() == nil; i++ {
		name := fmt.Sprintf("live-%d-%d", s.number, i%liveFiles)
		if i%4 == 3 { // beside the cells
			a, err := l.call(ctx, i, "/sessions/"+s.id+"/fs/write?path="+name, i)
			l.count(ctx, a, err, true, func() { l.writes++; s.kept[name] = i })
			continue
		}
		a, err := l.call(ctx, i, "/sessions/"+s.id+"/cells", map[string]any{"code": fmt.Sprintf(
			`var fs = require("fs"); fs.writeFileSync(%q, "%d"); `+
				`console.log(JSON.stringify(Object.fromEntries(fs.readdirSync(".").map(f => [f, +fs.readFileSync(f)]))))`,
			name, i)})
		var got struct {
			Outputs []struct{ Text string }
			Files   []struct{ Path string }
		}
		found := map[string]int{}
		_ = json.Unmarshal([]byte(a.Text), &got) // of an error it is nothing
		good := len(got.Outputs) > 0 && json.Unmarshal([]byte(got.Outputs[0].Text), &found) == nil
		l.count(ctx, a, err, good, func() {
			l.cells++
			l.missing += s.lacks(found, a.Text)
			for there := range found {
				if !strings.HasPrefix(there, fmt.Sprintf("live-%d-", s.number)) {
					l.foreign++
				}
			}
			for _, f := range got.Files {
				if f.Path == name {
					s.kept[name] = i
				}
			}
		})
	}
}

// lacks counts the acknowledged files that are missing among those that are found, or older.
func (s *liveSession) lacks(found map[string]int, said string) (n int) {
	for name, content := range s.kept {
		if now, there := found[name]; !there || now < content {
			n++
			fmt.Fprintf(os.Stderr, "%s has %d (%t), not %d: %.400s\n", name, now, there, content, said)
		}
	}
	return n
}

// compare looks for the acknowledged files among those that are stored, and counts those that are missing.
func (s *liveSession) compare(ctx context.Context, l *load) int {
	found := map[string]int{}
	a, err := l.api(0).call(ctx, "GET", "/sessions/"+s.id+"/files", nil)
	var got struct {
		Files []struct{ ID, Path string }
	}
	if err == nil {
		err = json.Unmarshal([]byte(a.Text), &got)
	}
	for _, f := range got.Files {
		if content, err := l.api(0).call(ctx, "GET", "/files/"+f.ID+"/content", nil); err == nil {
			var number int
			_ = json.Unmarshal([]byte(content.Text), &number)
			found[f.Path] = number
		}
	}
	return s.lacks(found, fmt.Sprint(err, a.Text))
}
