package image

import (
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// Sets of Python packages. The default set is where interpreters look for packages. A
// sandbox of another set has that set mounted over the default one, so that all its
// interpreters find the same packages, even those that the program starts.

// Paths in a sandbox, and names of links.
const (
	liveFolder  = RuntimesPath + "/live" // with a folder of packages for each CPython
	SetsPath    = RuntimesPath + "/sets" // with a folder for each set
	ModulesPath = "/node_modules"        // where Node looks, whatever folder a program is in

	// currentLink is the link to the set "current"; other sets have currentLink-NAME.
	currentLink = "lib"
	currentSet  = "current"
)

// A Set is an installed set of Python packages.
type Set struct {
	folder string
	// Python is the interpreter that the set was installed for, if it is not
	// /usr/bin/python3 itself. It then replaces that one.
	Python string
}

// Sets are the installed sets of Python packages.
type Sets struct {
	Default string         // name of the default one; empty: none is installed
	All     map[string]Set // by name
	python  string         // the file of the default interpreter
}

// linkedSets returns the installed sets by their names.
func linkedSets(runtimes string) map[string]Set {
	found := map[string]Set{}
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
			found[name] = Set{folder, otherPython(folder, UsualPython())}
		}
	}
	return found
}

// UsualPython returns the target of /usr/bin/python3, such as /usr/bin/python3.11.
func UsualPython() string {
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
func defaultSet(sets map[string]Set, asked string) string {
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
func (s *Sources) addPackages(asked string) error {
	s.Sets.All, s.Sets.python = linkedSets(s.runtimes), UsualPython()
	s.Sets.Default = defaultSet(s.Sets.All, asked)
	places := map[string]string{FontsPath: filepath.Join(s.runtimes, "python/matplotlib"),
		ModulesPath: filepath.Join(s.runtimes, "node/lib")}
	for name, set := range s.Sets.All {
		inside := SetsPath + "/" + name
		if name == s.Sets.Default && set.Python == "" {
			inside = PackagesPath
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

// Others returns the names of the sets that a sandbox must mount: all but the default
// one, and also that if it has its own interpreter.
func (s Sets) Others() (names []string) {
	for _, name := range slices.Sorted(maps.Keys(s.All)) {
		if name != s.Default || s.All[name].Python != "" {
			names = append(names, name)
		}
	}
	return names
}

// HasPackage reports whether a set has a package. An empty name means the default set.
func HasPackage(set, name string) bool {
	folder := PackagesPath
	if set != "" {
		folder = SetsPath + "/" + set
	}
	_, err := os.Stat(Path + folder + "/" + name)
	return err == nil
}

var minorOfPython = regexp.MustCompile(`python(3\.\d+)$`)

// HasLive reports whether a set has the packages of live interpreters for its interpreter.
func (s Sets) HasLive(set string) bool {
	python := s.All[set].Python
	if set == "" {
		python = s.All[s.Default].Python
	}
	if python == "" {
		python = s.python
	}
	version := minorOfPython.FindStringSubmatch(python)
	if version == nil {
		return false
	}
	_, err := os.Stat(Path + liveFolder + "/" + version[1] + "/IPython")
	return err == nil
}

// addLive opens the packages of live interpreters, for the interpreters of the sets.
func (s *Sources) addLive() error {
	pythons := []string{s.Sets.python}
	for _, set := range s.Sets.All {
		pythons = append(pythons, set.Python)
	}
	slices.Sort(pythons)
	for _, python := range slices.Compact(pythons) {
		version := minorOfPython.FindStringSubmatch(python)
		if version == nil {
			continue
		}
		folder, err := filepath.EvalSymlinks(filepath.Join(s.runtimes, "python", "live-"+version[1]))
		if err != nil {
			continue // setup installed none
		}
		if err := s.add(folder, (liveFolder + "/" + version[1])[1:]); err != nil {
			return err
		}
		s.mounts[len(s.mounts)-1].nameless = true
	}
	return nil
}

// FontLists finds the lists of fonts of matplotlib created at setup.
func FontLists() (names []string) {
	entries, err := os.ReadDir(Path + FontsPath)
	if err != nil {
		return nil // no matplotlib
	}
	for _, entry := range entries {
		if strings.HasSuffix(entry.Name(), ".json") {
			names = append(names, entry.Name())
		}
	}
	return names
}
