package executor

import "time"

// setStartTime is how long the first programs of an environment wait for its zygote, which
// imports the modules that they need. The wait does not count towards their time limit.
// A limit of two seconds, as in Onyx, would end during the imports of a cold program.
const setStartTime = 10 * time.Second

// wake starts the zygote of an environment other than the default one, or of live interpreters,
// for its first program. It waits for a zygote that is starting, but for none that takes too long.
func (p *pool) wake() {
	p.mu.Lock()
	if p.env.Name == "" && !p.tier.Live || p.closed || p.zygote != nil {
		p.mu.Unlock()
		return
	}
	if !p.awake {
		started := make(chan struct{})
		p.awake, p.started, p.began = true, started, time.Now()
		go func() {
			defer close(started)
			p.start()
		}()
	}
	started, began := p.started, p.began
	p.mu.Unlock()
	var enough <-chan time.Time
	if p.executor.config.Warm != warmFirst {
		limit := time.NewTimer(setStartTime - time.Since(began))
		defer limit.Stop()
		enough = limit.C
	}
	select {
	case <-started:
	case <-enough:
	}
}

// stayAwake resets the timer that ends the zygote of such an environment after its last program.
// Of the live interpreters of the default one, only the waiting sandboxes end. The
// caller holds the lock.
func (p *pool) stayAwake() {
	if p.env.Name == "" && !p.tier.Live || p.closed {
		return
	}
	if p.expiry == nil {
		p.expiry = time.AfterFunc(p.executor.idleTime(), p.sleep)
		return
	}
	p.expiry.Reset(p.executor.idleTime())
}

// sleep ends the waiting sandboxes and the zygote.
func (p *pool) sleep() {
	p.mu.Lock()
	if p.filling || p.wanted > 0 || p.closed {
		p.stayAwake()
		p.mu.Unlock()
		return
	}
	z := p.zygote
	if p.env.Name == "" {
		z = nil // the zygote stays
	} else {
		p.zygote, p.awake = nil, p.awake && z == nil // a zygote that is being started stays
	}
	p.mu.Unlock()
	p.empty()
	if z != nil {
		z.Close()
	}
}
