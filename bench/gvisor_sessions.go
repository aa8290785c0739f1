package main

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"golang.org/x/sync/errgroup"
)

// keptForks is how many sessions are made of one with its memory.
const keptForks = 10

// keptTable is a session whose memory is worth keeping.
const keptTable = `import pandas; t = pandas.DataFrame({"a": range(1000)}); t.describe(); None`

// keptAnswer is what a session answers that has it.
const keptAnswer = `"text/plain":"1000"`

// keptSessions measures pauses and forks of a session with memory.
func (b *bench) keptSessions(ctx context.Context, _, own *server, r *OwnKernel) error {
	c, err := dial(own.address)
	if err != nil {
		return err
	}
	defer c.close()
	session, err := c.createSession(own.address)
	if err == nil {
		err = session.run(session.cell(keptTable, ""), "")
	}
	if err != nil {
		return err
	}
	var pauses, resumes, forks sample
	for range b.plan.plots {
		began := time.Now()
		if err := c.do(newRequest("POST", session.path+"/pause", own.address, []byte(`{}`), asJSON)); err != nil {
			return err
		}
		pauses = append(pauses, time.Since(began))
		began = time.Now()
		if err := session.run(session.cell("len(t)", ""), keptAnswer); err != nil {
			return err
		}
		resumes = append(resumes, time.Since(began))
		pause(ctx, rest)
	}
	for range max(b.plan.plots/2, 2) {
		took, err := session.forks(ctx)
		if err != nil {
			return err
		}
		forks = append(forks, took)
		pause(ctx, rest)
	}
	r.Pause, r.Resume, r.Forks = pauses.summary(), resumes.summary(), forks.summary()
	return session.end()
}

// forks makes forks of a session, and returns how long it takes until each has answered a cell. It deletes them.
func (s *liveSession) forks(ctx context.Context) (took time.Duration, err error) {
	began := time.Now()
	body := fmt.Appendf(nil, `{"count":%d}`, keptForks)
	if err := s.do(newRequest("POST", s.path+"/fork", s.host, body, asJSON)); err != nil {
		return 0, err
	}
	var made struct{ Sessions []struct{ ID string } }
	if err := json.Unmarshal(s.body, &made); err != nil || len(made.Sessions) != keptForks {
		return 0, fmt.Errorf("the forks are %.400s", s.body)
	}
	all := make([]*liveSession, keptForks)
	for i, fork := range made.Sessions {
		c, err := dial(s.host)
		if err != nil {
			return 0, err
		}
		defer c.close()
		all[i] = &liveSession{c, s.host, sessionsPath + "/" + fork.ID}
	}
	group, _ := errgroup.WithContext(ctx)
	for _, fork := range all {
		group.Go(func() error { return fork.run(fork.cell("len(t)", ""), keptAnswer) })
	}
	err = group.Wait()
	took = time.Since(began)
	for _, fork := range all {
		if err == nil {
			err = fork.end()
		}
	}
	return took, err
}
