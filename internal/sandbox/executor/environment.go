package executor

import (
	"cmp"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// An Environment is what programs find: the machine's own root with one of its sets of
// Python packages, or an image. The zygotes of the default one always run. The first
// program of another one starts its zygotes, which end when it is idle.
type Environment struct {
	Name   string      // of the set, or ID of the image; empty: the default one
	Root   *image.Root // that its programs see
	Set    string      // of Python packages, mounted over the default one; empty: that one itself
	Python string      // path of the interpreter
	Usual  []string    // variables of a Python program whose request sets none

	fontLists []string         // matplotlib's, created at setup
	pools     map[string]*pool // by tier; not modified after creation
	live      bool             // live Python interpreters can start

	// Of an image:
	record *engine.Image
	users  int         // runs in it; guarded by images.mu
	left   time.Time   // when the last of them ended; the same
	expiry *time.Timer // unmounts it; nil before it is idle
}

// environmentIdleTime is how long the zygotes of an environment other than the default one
// stay after its last program, and an image stays mounted.
const environmentIdleTime = 5 * time.Minute

// idleTime returns environmentIdleTime; tests shorten it.
func (e *executor) idleTime() time.Duration {
	if slices.Contains(e.config.Weaken, WeakIdleTime) {
		return 200 * time.Millisecond
	}
	return environmentIdleTime
}

// WeakIdleTime shortens idleTime in tests.
const WeakIdleTime = "idle time of sets"

// newEnvironments creates the machine's own environments.
func (e *executor) newEnvironments(fontLists []string) error {
	root, err := image.HostRoot()
	if err != nil {
		return err
	}
	python, _ := language.Find("python")
	usual := usualEnvironment(python, nil)
	e.environments = map[string]*Environment{}
	for _, set := range append([]string{""}, e.machine.Sets.Others()...) {
		e.environments[set] = &Environment{Name: set, Root: root, Set: set, Python: python.Run[0], Usual: usual,
			fontLists: fontLists, live: e.machine.Sets.HasLive(set)}
	}
	return nil
}

// environmentOf returns the environment of a request. The caller calls leave when the
// program has ended.
func (e *executor) environmentOf(r *RunRequest) (env *Environment, leave func(), err error) {
	if r.Image != "" {
		if r.Packages != "" {
			return nil, nil, errors.New("a set of Python packages in an image")
		}
		if env, err = e.images.enter(e, r.Image); err != nil {
			return nil, nil, err
		}
		return env, func() { e.images.leave(e, env) }, nil
	}
	env, err = e.setEnvironment(r.Packages)
	return env, func() {}, err
}

// setEnvironment returns the environment with a set.
func (e *executor) setEnvironment(name string) (*Environment, error) {
	sets := &e.machine.Sets
	if name == "" {
		name = sets.Default
	}
	set, ok := sets.All[name]
	switch {
	case name == "", ok && name == sets.Default && set.Python == "":
		name = ""
	case !ok:
		return nil, NewFailure(engine.ErrInvalid, fmt.Sprintf("the set of Python packages %q is not installed", name),
			"install it with `airlock setup --packages`, then restart the service")
	}
	return e.environments[name], nil
}

// mostImages bounds the mounted images in which no program runs: the interpreters of each may
// have 100 MB.
const mostImages = 8

// images are the mounted ones.
type images struct {
	mu   sync.Mutex
	byID map[string]*Environment
}

// enter returns the environment of an image, and mounts it if need be.
func (i *images) enter(e *executor, id string) (*Environment, error) {
	i.mu.Lock()
	defer i.mu.Unlock()
	env := i.byID[id]
	if env == nil {
		var err error
		if env, err = e.mountImage(id); err != nil {
			return nil, imageFailure(err)
		}
		if i.byID == nil {
			i.byID = map[string]*Environment{}
		}
		i.byID[id] = env
		i.evict()
	}
	env.users++
	return env, nil
}

// evict unmounts idle images that are too many, the longest idle first. The caller holds the lock.
func (i *images) evict() {
	var idle []*Environment
	for _, env := range i.byID {
		if env.users == 0 && !env.left.IsZero() {
			idle = append(idle, env)
		}
	}
	slices.SortFunc(idle, func(a, b *Environment) int { return a.left.Compare(b.left) })
	for _, env := range idle[:max(0, len(idle)-mostImages)] {
		i.unmount(env)
	}
}

// unmount unmounts an image. The caller holds the lock.
func (i *images) unmount(env *Environment) {
	if env.expiry != nil {
		env.expiry.Stop()
	}
	delete(i.byID, env.Name)
	env.close()
}

// leave unmounts an image later, unless it is used again.
func (i *images) leave(e *executor, env *Environment) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if env.users--; env.users > 0 {
		return
	}
	env.left = time.Now()
	if env.expiry != nil {
		env.expiry.Reset(e.idleTime())
		return
	}
	env.expiry = time.AfterFunc(e.idleTime(), func() { i.expire(env) })
}

func (i *images) expire(env *Environment) {
	i.mu.Lock()
	defer i.mu.Unlock()
	if env.users == 0 && i.byID[env.Name] == env {
		i.unmount(env)
	}
}

// close unmounts all images. No program runs.
func (i *images) close() {
	i.mu.Lock()
	defer i.mu.Unlock()
	for _, env := range i.byID {
		i.unmount(env)
	}
}

func (env *Environment) close() {
	for _, p := range env.pools {
		p.close()
	}
	if env.record != nil {
		env.Root.Unmount()
	}
}

// list returns the mounted images, sorted by ID.
func (i *images) list() []*Environment {
	i.mu.Lock()
	defer i.mu.Unlock()
	list := make([]*Environment, 0, len(i.byID))
	for _, env := range i.byID {
		list = append(list, env)
	}
	slices.SortFunc(list, func(a, b *Environment) int { return strings.Compare(a.Name, b.Name) })
	return list
}

func imageFailure(err error) error {
	if errors.Is(err, image.ErrNoImage) {
		return NewFailure(engine.ErrNotFound, "the image is not on this machine: it was removed, or is not complete",
			"`airlock images list` lists those that are, and `airlock images add` adds one")
	}
	return fmt.Errorf("the image cannot be used: %w", err)
}

// mountImage mounts an image.
func (e *executor) mountImage(id string) (*Environment, error) {
	record, err := image.ReadRecord(id)
	if err != nil {
		return nil, err
	}
	root, err := image.Mount(record, e.machine.Users)
	if err != nil {
		return nil, err
	}
	env := &Environment{Name: id, Root: root, record: record, live: image.HasLive(record)}
	if found, ok := record.Language("python"); ok {
		python, _ := language.Find("python")
		env.Python, env.Usual = found.Path, usualEnvironment(python, record)
		// Without groups nothing bounds the memory of a zygote, which only the operator can allow.
		if e.config.Warm != "" && (e.machine.Groups != nil || slices.Contains(e.config.WarmImages, id)) {
			e.newPools(env)
		}
	}
	return env, nil
}

// IsImage reports whether programs find an image, whose interpreter is not the machine's own.
func (env *Environment) IsImage() bool { return env.record != nil }

// hasPackage reports whether a Python package is there.
func (env *Environment) hasPackage(name string) bool {
	if env.record != nil {
		_, found := slices.BinarySearch(env.record.Modules, name)
		return found
	}
	return image.HasPackage(env.Set, name)
}

// poolOf returns the pool for a program: of its tier, or of the largest one that imports
// less; nil if there is none.
func (r *RunRequest) poolOf() *pool {
	if r.cold {
		return nil
	}
	if p := r.env.pools[r.Tier]; p != nil || r.Tier == liveTier || r.Tier == "" {
		return cmp.Or(p.learnedFor(r), p)
	}
	at := slices.IndexFunc(tiers, func(t Tier) bool { return t.Name == r.Tier })
	smaller := slices.Clone(tiers[:at])
	slices.Reverse(smaller)
	for _, t := range slices.Concat(tiers[at+1:], smaller) { // what imports more also serves it
		if p := r.env.pools[t.Name]; p != nil && !t.Live {
			return p
		}
	}
	return nil
}

// title returns the name of a pool, for operators.
func (p *pool) title() string {
	name := p.tier.Name
	if len(p.tier.Learned) > 0 && !p.env.IsImage() {
		name += ", learned"
	}
	return strings.TrimSpace(shortName(p.env.Name) + " " + name)
}

// shortName shortens the ID of an image; it leaves the name of a set.
func shortName(name string) string { return name[:min(len(name), len("sha256-")+12)] }

// startWarmImages starts the zygotes of images that are kept ready.
func (e *executor) startWarmImages() {
	for _, id := range e.config.WarmImages {
		env, err := e.images.enter(e, id) // and never leaves
		if err != nil {
			fmt.Fprintf(os.Stderr, "airlock executor: programs of the image %s start cold: %v\n", shortName(id), err)
			continue
		}
		for _, t := range tiers {
			if p := env.pools[t.Name]; p != nil {
				p.wake()
			}
		}
	}
}

// allEnvironments returns the default one, then those of the other sets and of the mounted images.
func (e *executor) allEnvironments() []*Environment {
	list := []*Environment{e.environments[""]}
	for _, set := range e.machine.Sets.Others() {
		list = append(list, e.environments[set])
	}
	return append(list, e.images.list()...)
}

// preloads returns a tier with the modules that an image says its programs often import.
func (env *Environment) preloads(t Tier) Tier {
	if env.record != nil && !t.RarelyConnects {
		t.Learned = env.record.Preload
	}
	return t
}
