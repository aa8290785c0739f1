package linux

import (
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// Sets of Python packages. The default set is where interpreters look for packages, and
// its zygotes always run. A sandbox of another set has that set mounted over the
// default one, so that all its interpreters find the same packages, even those that the
// program starts. The first program of such a set starts its zygotes, which end when
// the set is idle.

const (
	setsPath    = runtimesPath + "/sets"
	modulesPath = "/node_modules" // where Node looks, whatever folder a program is in

	// currentLink is the link to the set "current"; other sets have currentLink-NAME.
	currentLink = "lib"
	currentSet  = "current"
)

// setIdleTime is how long the zygotes of a set other than the default one stay after
// its last program.
const setIdleTime = 5 * time.Minute

// packageSet is an installed set of Python packages.
type packageSet struct {
	folder string
	// python is the interpreter that the set was installed for, if it is not
	// /usr/bin/python3 itself. It then replaces that one.
	python string
}

// linkedSets returns the installed sets by their names.
func linkedSets(runtimes string) map[string]packageSet {
	found := map[string]packageSet{}
	links, err := filepath.Glob(filepath.Join(runtimes, "python", currentLink+"*"))
	if err != nil {
		return nil // the folder's name is no pattern
	}
	for _, link := range links {
		name := currentSet
		if base := filepath.Base(link); base != currentLink {
			if name = strings.TrimPrefix(base, currentLink+"-"); name == base || strings.Contains(name, ".") {
				continue // a link that setup is creating
			}
		}
		if folder, err := filepath.EvalSymlinks(link); err == nil {
			found[name] = packageSet{folder, otherPython(folder, usualPython())}
		}
	}
	return found
}

// usualPython returns the target of /usr/bin/python3, such as /usr/bin/python3.11.
func usualPython() string {
	python, _ := language.Find("python")
	file, err := filepath.EvalSymlinks(python.Run[0])
	if err != nil {
		return ""
	}
	return file
}

var minorOfSet = regexp.MustCompile(`(?:^|-)(3\.\d+)-[0-9a-f]+(?:-[0-9a-f]+)?$`)

// otherPython returns the interpreter that a set was installed for, from the name of
// its folder, if it is not the usual one.
func otherPython(folder, usual string) string {
	version := minorOfSet.FindStringSubmatch(filepath.Base(folder))
	if version == nil || usual == "" || strings.HasSuffix(usual, "python"+version[1]) {
		return ""
	}
	other := filepath.Join(filepath.Dir(usual), "python"+version[1])
	if _, err := os.Stat(other); err != nil {
		return ""
	}
	return other
}

// defaultSet chooses among the installed sets: the requested one, else current, else
// the first.
func defaultSet(sets map[string]packageSet, asked string) string {
	for _, name := range []string{asked, currentSet} {
		if sets[name].folder != "" {
			return name
		}
	}
	for _, name := range slices.Sorted(maps.Keys(sets)) {
		return name
	}
	return ""
}

// addPackages opens the sets, their list of fonts, and the packages of Node.
func (s *sources) addPackages(asked string) error {
	s.sets = linkedSets(s.runtimes)
	s.set = defaultSet(s.sets, asked)
	places := map[string]string{fontsPath: filepath.Join(s.runtimes, "python/matplotlib"),
		modulesPath: filepath.Join(s.runtimes, "node/lib")}
	for name, set := range s.sets {
		inside := setsPath + "/" + name
		if name == s.set && set.python == "" {
			inside = packagesPath
		}
		places[inside] = set.folder
	}
	for _, inside := range slices.Sorted(maps.Keys(places)) {
		folder, err := filepath.EvalSymlinks(places[inside])
		if err != nil {
			continue // it is not installed; the standard library is available
		}
		if err := s.add(folder, strings.TrimPrefix(inside, "/")); err != nil {
			return err
		}
		s.mounts[len(s.mounts)-1].nameless = true
	}
	return nil
}

// bindPackages mounts a set over the default one in the image at a path, and the set's
// interpreter over the usual one. It does nothing if name is empty.
func (h *host) bindPackages(name, image string) []spawn.Step {
	if name == "" {
		return nil
	}
	steps := []spawn.Step{bind("mount the package set "+name, image+setsPath+"/"+name, image+packagesPath)}
	if python := h.sets[name].python; python != "" {
		steps = append(steps, bind("mount "+python, image+python, image+usualPython()))
	}
	return steps
}

// otherSets returns the names of the sets that a sandbox must mount: all but the
// default one, and also that if it has its own interpreter.
func (h *host) otherSets() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(h.sets)) {
		if name != h.set || h.sets[name].python != "" {
			names = append(names, name)
		}
	}
	return names
}

// choosePackages clears the set of a request if it is the mounted one, and rejects a
// set that is not installed.
func (e *executor) choosePackages(r *runRequest) error {
	if r.Packages == "" {
		r.Packages = e.host.set
	}
	switch set, ok := e.host.sets[r.Packages]; {
	case ok && r.Packages == e.host.set && set.python == "":
		r.Packages = ""
	case !ok && r.Packages != "":
		return fmt.Errorf("the set of Python packages %q is not installed", r.Packages)
	}
	return nil
}

// poolOf returns the pool for a program, nil if there is none.
func (e *executor) poolOf(r *runRequest) *pool { return e.pools[poolName(r.Packages, r.Tier)] }

// poolName returns the name of the pool of a set's tier.
func poolName(set, tier string) string {
	if set == "" {
		return tier
	}
	return set + " " + tier
}

// setStartTime is how long the first programs of a set wait for its zygote, which
// imports the modules that they need. The wait does not count towards their time limit.
// A limit of two seconds, as in Onyx, would end during the imports of a cold program.
const setStartTime = 10 * time.Second

// wake starts the zygote of a set other than the default one, or of live interpreters,
// for its first program. It waits for a zygote that is starting.
func (p *pool) wake() {
	p.mu.Lock()
	if p.set == "" && !p.tier.live || p.closed || p.zygote != nil {
		p.mu.Unlock()
		return
	}
	if !p.awake {
		started := make(chan struct{})
		p.awake, p.started = true, started
		go func() {
			defer close(started)
			p.start()
		}()
	}
	started := p.started
	p.mu.Unlock()
	var enough <-chan time.Time
	if p.executor.config.Warm != warmFirst {
		limit := time.NewTimer(setStartTime)
		defer limit.Stop()
		enough = limit.C
	}
	select {
	case <-started:
	case <-enough:
	}
}

// stayAwake resets the timer that ends the zygote of such a set after its last program.
// Of the live interpreters of the default set, only the waiting sandboxes end. The
// caller holds the lock.
func (p *pool) stayAwake() {
	if p.set == "" && !p.tier.live || p.closed {
		return
	}
	if p.expiry == nil {
		p.expiry = time.AfterFunc(p.executor.idleTime(), p.sleep)
		return
	}
	p.expiry.Reset(p.executor.idleTime())
}

// idleTime returns setIdleTime; tests shorten it.
func (e *executor) idleTime() time.Duration {
	if slices.Contains(e.config.Weaken, weakIdleTime) {
		return 200 * time.Millisecond
	}
	return setIdleTime
}

// weakIdleTime shortens idleTime in tests.
const weakIdleTime = "idle time of sets"

// sleep ends the waiting sandboxes and the zygote.
func (p *pool) sleep() {
	p.mu.Lock()
	if p.filling || p.wanted > 0 || p.closed {
		p.stayAwake()
		p.mu.Unlock()
		return
	}
	z := p.zygote
	if p.set == "" {
		z = nil // the zygote stays
	} else {
		p.zygote, p.awake = nil, p.awake && z == nil // a zygote that is being started stays
	}
	p.mu.Unlock()
	p.empty()
	if z != nil {
		z.close()
	}
}

// hasPackage reports whether a set has a package. An empty name means the default set.
func hasPackage(set, name string) bool {
	folder := packagesPath
	if set != "" {
		folder = setsPath + "/" + set
	}
	_, err := os.Stat(imagePath + folder + "/" + name)
	return err == nil
}
