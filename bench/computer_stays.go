package main

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"time"
)

// Stays is what it takes to keep the files of sessions.
type Stays struct {
	Sessions int     `json:"sessions"` // before a restart of the service
	Lost     int     `json:"lost"`     // files of them after it
	First    Summary `json:"first"`    // answer of each after it, one after the other
	Files    int     `json:"files"`    // of one session, and
	Bytes    int64   `json:"bytes"`    // of these
	Snapshot Summary `json:"snapshot"`
	Fork     Summary `json:"fork"`
}

// So many sessions outlive a restart, and one has so many files of such a size.
const (
	staySessions = 500
	stayFiles    = 1000
	stayFileSize = 100_000
)

// measureStays restarts a service with many sessions, and makes snapshots and forks of one with many files.
func (b *bench) measureStays(ctx context.Context) (*Stays, error) {
	data, err := b.newData()
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(data)
	args := []string{"--live=1000", "--owner-live=1000"}
	s, err := b.serve(data, nil, args...)
	if s, err = s.warmed(ctx, err); err != nil {
		return nil, err
	}
	r := &Stays{Sessions: staySessions, Files: stayFiles}
	paths, err := r.fill(s)
	if err == nil {
		err = r.copies(s, b.plan.inputs)
	}
	s.stop()
	if err != nil {
		return nil, err
	}
	s, err = b.serve(data, nil, args...)
	if s, err = s.awaited(ctx, err); err != nil {
		return nil, err
	}
	defer s.stop()
	return r, r.look(s, paths)
}

// fill makes sessions that have a file each.
func (r *Stays) fill(s *server) (paths []string, err error) {
	for n := range r.Sessions {
		c, err := dial(s.address)
		if err != nil {
			return nil, err
		}
		session, err := c.createSession(s.address)
		if err == nil {
			err = session.run(session.cell(fmt.Sprintf("open('a.txt', 'w').write('file %d') and None", n), ""), "")
		}
		c.close()
		if err != nil {
			return nil, err
		}
		paths = append(paths, session.path)
	}
	return paths, nil
}

// look asks each session for its file.
func (r *Stays) look(s *server, paths []string) error {
	var times sample
	for n, path := range paths {
		c, err := dial(s.address)
		if err != nil {
			return err
		}
		session := &liveSession{c, s.address, path}
		began := time.Now()
		if session.run(session.cell("print(open('a.txt').read())", ""), fmt.Sprintf("file %d\\n", n)) != nil {
			r.Lost++
		}
		times = append(times, time.Since(began))
		c.close()
	}
	r.First = times.summary()
	return nil
}

// copies makes snapshots and forks of a session with many files.
func (r *Stays) copies(s *server, rounds int) error {
	c, err := dial(s.address)
	if err != nil {
		return err
	}
	defer c.close()
	session, err := c.createSession(s.address)
	if err != nil {
		return err
	}
	code := fmt.Sprintf("import os\nfor i in range(%d): open(f'{i}.bin', 'wb').write(os.urandom(%d))", r.Files,
		stayFileSize)
	if err := session.run(session.cell(code, ""), ""); err != nil {
		return err
	}
	snapshot := newRequest("POST", session.path+"/snapshots", s.address, []byte(`{}`), asJSON)
	if err := c.do(snapshot); err != nil { // what the limits of a cell left is stored now
		return err
	}
	var snapshots, forks sample
	for range rounds {
		began := time.Now()
		if err := c.do(snapshot); err != nil {
			return err
		}
		snapshots = append(snapshots, time.Since(began))
		var made struct {
			Files int
			Bytes int64
		}
		if err := json.Unmarshal(c.body, &made); err != nil || made.Files != r.Files {
			return fmt.Errorf("a snapshot is %.400s", c.body)
		}
		r.Bytes = made.Bytes
		began = time.Now()
		if err := c.do(newRequest("POST", session.path+"/fork", s.address, []byte(`{}`), asJSON)); err != nil {
			return err
		}
		forks = append(forks, time.Since(began))
	}
	r.Snapshot, r.Fork = snapshots.summary(), forks.summary()
	return nil
}

func (r *Stays) text() string {
	if r == nil {
		return ""
	}
	return fmt.Sprintf("After a restart %d of %d sessions lack their file; a first answer takes %s ms (p99 %s).\n"+
		"A snapshot of %d files, together %d MB, takes %s ms, a fork %s ms.\n", r.Lost, r.Sessions, ms(r.First.P50),
		ms(r.First.P99), r.Files, r.Bytes/1_000_000, ms(r.Snapshot.P50), ms(r.Fork.P50))
}

// stays returns what was measured of it, or nil.
func (r *Results) stays() *Stays {
	if r.Computer == nil {
		return nil
	}
	return r.Computer.Stays
}

// goals are those of the issue.
func (r *Stays) goals() []Goal {
	value := func(of func() float64) *float64 {
		if r == nil {
			return nil
		}
		return new(of())
	}
	return []Goal{
		{Name: "computer: files lost by 500 sessions in a restart", Unit: "files", Must: 0, Aim: 0,
			Measured: value(func() float64 { return float64(r.Lost) })},
		{Name: "computer: p99 of their first answers after it", Unit: "s", Must: 2, Aim: 0.5,
			Measured: value(func() float64 { return r.First.P99 / 1000 })},
		{Name: "computer: snapshot of 1,000 files, 100 MB", Unit: "s", Must: 0.3, Aim: 0.1,
			Measured: value(func() float64 { return r.Snapshot.P50 / 1000 })},
		{Name: "computer: fork of it", Unit: "s", Must: 0.1, Aim: 0.05,
			Measured: value(func() float64 { return r.Fork.P50 / 1000 })},
	}
}
