package executor

import (
	"fmt"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/trick"
)

// A pool learns which packages its programs import that its tier lacks: what learnAfter of the last programs have
// imported, another zygote beside its own has imported already, for programs that import some of that. Only names
// of packages that the operator has installed are learned, and of modules in them that are meant for programs,
// because all these programs share the zygote. A program that may install packages, which would then be others,
// and one with variables that such a package may read when it is imported, do not start from it.
const (
	lastPrograms    = 8
	learnAfter      = 3
	maxLearned      = 8
	learnsWhileIdle = 10 // how many zygotes at most learn in idleTime
)

// maxImports and maxModule bound what a request says about imports.
const (
	maxImports = 32
	maxModule  = 100
)

// noteworthy returns those of the modules that no tier has by itself.
func noteworthy(modules []string) (list []string) {
	for _, name := range modules {
		known := slices.Contains(loaded, name) || slices.Contains(light, name) || slices.Contains(standard, name)
		if !known && len(name) <= maxModule && len(list) < maxImports && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// learning is what a pool has noticed. Guarded by the pool's mu.
type learning struct {
	programs [lastPrograms][]string // what the last ones imported, oldest at next
	next     int
	pool     *pool     // its tier has Learned; nil: nothing has been learned
	refused  []string  // what no zygote could learn
	single   bool      // only one more name at a time is learned
	busy     bool      // another pool is being made
	pause    time.Time // when that may be
}

// wanted returns what the next zygote should learn, nil if that is no more than the last one has.
func (l *learning) wanted() []string {
	var has []string
	if l.pool != nil {
		has = l.pool.tier.Learned
	}
	count := map[string]int{}
	var known, more []string
	for _, modules := range l.programs {
		for _, name := range modules {
			count[name]++
			switch {
			case count[name] != learnAfter || slices.Contains(l.refused, name):
			case slices.Contains(has, name):
				known = append(known, name)
			default:
				more = append(more, name)
			}
		}
	}
	if l.single {
		more = more[:min(len(more), 1)]
	}
	if more = more[:min(len(more), maxLearned-len(known))]; len(more) == 0 {
		return nil
	}
	return append(known, more...)
}

var forPrograms = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`^[A-Za-z]\w*(\.[A-Za-z]\w*)*$`) })

// learnable reports whether a zygote may import a module because programs do.
func (env *Environment) learnable(name string) bool {
	parts := strings.Split(name, ".")
	private := func(part string) bool { return strings.HasPrefix(part, "test") || part == "conftest" }
	if !forPrograms().MatchString(name) || slices.ContainsFunc(parts, private) {
		return false
	}
	file := strings.Join(parts, "/")
	return image.HasPackage(env.Set, file) || len(parts) > 1 && image.HasPackage(env.Set, file+".py")
}

// learn notes what a program imports, and begins to learn what many programs import. An image says itself what
// its programs import often, and a kernel of its own would take long to learn.
func (p *pool) learn(modules []string) {
	if p.tier.RarelyConnects || p.env.IsImage() || p.executor.machine.can.Kernel != "" || !trick.On(trick.Habits) {
		return
	}
	modules = slices.DeleteFunc(slices.Clone(modules), func(name string) bool {
		return slices.Contains(p.tier.Preload, name) || !p.env.learnable(name)
	})
	p.mu.Lock()
	defer p.mu.Unlock()
	l := &p.habits
	l.programs[l.next] = modules
	l.next = (l.next + 1) % lastPrograms
	if p.closed || p.zygote == nil || l.busy || time.Now().Before(l.pause) {
		return
	}
	names := l.wanted()
	if len(names) == 0 || availableMemory() < 4*LittleMemory {
		return
	}
	l.busy = true
	go p.relearn(names)
}

// relearn makes a pool whose zygote has imported names, in place of what had been learned before.
func (p *pool) relearn(names []string) {
	next := &pool{executor: p.executor, env: p.env, tier: p.tier, size: LeastWaiting, awake: true}
	next.tier.Learned = names
	var err error
	if p.group != nil {
		next.group, err = p.executor.boundGroup()
	}
	if err == nil {
		next.zygote, err = next.newZygote()
	}
	next.since = time.Now()
	p.mu.Lock()
	l := &p.habits
	l.busy, l.pause = false, time.Now().Add(p.executor.idleTime()/learnsWhileIdle)
	former := next
	switch {
	case err != nil:
		l.refuse(names)
		fmt.Fprintf(os.Stderr, "airlock executor: the %s zygote does not learn %s: %v\n", p.title(),
			strings.Join(names, ", "), err)
	case !p.closed:
		former, l.pool = l.pool, next
		next.expiry = time.AfterFunc(p.executor.idleTime(), func() { p.unlearn(next) })
	}
	p.mu.Unlock()
	if former != nil {
		former.retire()
	}
}

// unlearn ends what no program has used for a while.
func (p *pool) unlearn(what *pool) {
	p.mu.Lock()
	if p.habits.pool == what {
		p.habits.pool, p.habits.programs = nil, [lastPrograms][]string{}
	}
	p.mu.Unlock()
	what.retire()
}

// retireTime is how long the zygote of a pool has to exit by itself.
const retireTime = 10 * time.Second

// retire closes a pool that has learned. Its zygote exits once its socket is closed, and only then can its group
// be removed.
func (p *pool) retire() {
	p.mu.Lock()
	z := p.zygote
	p.zygote, p.closed = nil, true
	p.mu.Unlock()
	if z != nil {
		z.Close()
	}
	if p.group != nil {
		p.group.Idle(false) // else it may wait for a processor for long
		for end := time.Now().Add(retireTime); p.group.Processes() > 0 && time.Now().Before(end); {
			<-time.After(10 * time.Millisecond)
		}
	}
	p.close()
}

// refuse notes that a zygote could not learn names. If several are new, it may be the fault of one: from then on
// each is learned by itself.
func (l *learning) refuse(names []string) {
	fresh := slices.DeleteFunc(names, func(name string) bool {
		return l.pool != nil && slices.Contains(l.pool.tier.Learned, name)
	})
	if len(fresh) == 1 {
		l.refused = append(l.refused, fresh...)
	}
	l.single = true
}

// learned returns the pool whose zygote has learned what programs of p import, or nil.
func (p *pool) learned() *pool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.habits.pool
}

// learnedFor returns that pool if a program should start from it. p may be nil.
func (p *pool) learnedFor(r *RunRequest) *pool {
	if p == nil || r.Network || len(r.Imports) == 0 {
		return nil
	}
	learned := p.learned()
	if learned == nil || !learned.serves(r) {
		return nil
	}
	learned.mu.Lock()
	defer learned.mu.Unlock()
	if learned.zygote == nil || learned.closed {
		return nil
	}
	learned.expiry.Reset(p.executor.idleTime())
	return learned
}

// serves reports whether a program imports what the zygote has learned, and has no variable that one of the
// learned packages may read while it is imported.
func (p *pool) serves(r *RunRequest) bool {
	for _, name := range p.tier.Learned {
		top, _, _ := strings.Cut(name, ".")
		prefix := strings.ToUpper(top)
		if slices.ContainsFunc(r.Env, func(entry string) bool { return strings.HasPrefix(entry, prefix) }) {
			return false
		}
	}
	return slices.ContainsFunc(p.tier.Learned, func(name string) bool { return slices.Contains(r.Imports, name) })
}
