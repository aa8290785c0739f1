package engine

import (
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/language"
)

// PackageSets are the sets of Python packages that programs can have, and the
// rules that assign them.
type PackageSets struct {
	// Installed are their names. The first is the default of the sandbox.
	Installed []string
	// Origins and Keys name the set of runs whose request names none: of those
	// that came with a key, by its public id, and of those through a protocol.
	// A set that is not installed counts as not named.
	Origins map[Origin]string
	Keys    map[string]string
	// Main are the main packages of each installed set that can be imported, in order of name.
	Main map[string][]Package
	// Has reports whether an installed set has a module, such as "google.cloud"; nil: nobody knows.
	Has func(set, module string) bool
	// With returns the sets that have a package, such as "Pillow", once they are installed; nil: nobody knows.
	With func(distribution string) []string
}

// Package is a package of a set.
type Package struct {
	Name, Version string
}

// PackageSet is a set of Python packages, and whose programs get it.
type PackageSet struct {
	Name    string
	Default bool     // for programs without a matching rule
	Origins []Origin // the protocols whose programs get it, unless a key or a request names another
	// Instead is the set that programs of Origins get because this one is not
	// installed; empty if it is.
	Instead string
}

// PackageSets returns the installed sets of Python packages, the default set
// first, and then the sets that a protocol's programs should have but that
// are not installed.
func (s *Service) PackageSets() []PackageSet { return s.cfg.Packages.Describe() }

// Describe returns the sets, as Service.PackageSets says.
func (p *PackageSets) Describe() []PackageSet {
	var sets []PackageSet
	for i, name := range p.Installed {
		set := PackageSet{Name: name, Default: i == 0}
		for _, origin := range []Origin{OriginNative, OriginOnyx, OriginLibreChat} {
			if p.of(Caller{}, origin) == name {
				set.Origins = append(set.Origins, origin)
			}
		}
		sets = append(sets, set)
	}
	for _, origin := range []Origin{OriginNative, OriginOnyx, OriginLibreChat} {
		if name := p.Origins[origin]; name != "" && !slices.Contains(p.Installed, name) {
			sets = append(sets, PackageSet{Name: name, Origins: []Origin{origin}, Instead: p.of(Caller{}, origin)})
		}
	}
	return sets
}

// PackagesOf returns the set of a caller's programs whose requests name none, and its main packages; "" if no set is
// installed.
func (s *Service) PackagesOf(caller Caller, origin Origin) (set string, main []Package) {
	set = s.cfg.Packages.of(caller, origin)
	return set, s.cfg.Packages.Main[set]
}

// of chooses the set of a run whose request names none; empty where nothing is
// installed.
func (p *PackageSets) of(caller Caller, origin Origin) string {
	for _, name := range []string{p.Keys[caller.Key], caller.Packages, p.Origins[origin]} {
		if name != "" && slices.Contains(p.Installed, name) {
			return name
		}
	}
	if len(p.Installed) == 0 {
		return ""
	}
	return p.Installed[0]
}

// choosePackages replaces what a request says of packages by the set that it
// gets: "" for the sandbox's default.
func (s *Service) choosePackages(caller Caller, req *RunRequest) error {
	sets := &s.cfg.Packages
	name := req.Packages
	switch {
	case name == "":
		name = sets.of(caller, req.Profile.Origin)
	case !slices.Contains(sets.Installed, name):
		return missingSet(name, sets.Installed)
	}
	if len(sets.Installed) > 0 && name == sets.Installed[0] {
		name = ""
	}
	req.Packages = name
	return nil
}

func missingSet(name string, installed []string) error {
	if !slices.Contains(language.PackageSets(), name) {
		return Invalid("python_packages", "%.40q is not known; there are %s", name,
			strings.Join(language.PackageSets(), ", "))
	}
	there := "no set is there"
	if len(installed) > 0 {
		there = "there are " + strings.Join(installed, ", ")
	}
	return &Error{
		Op: "check", Kind: ErrInvalid, ID: "python_packages", Err: fmt.Errorf(
			"%q is not installed on this server; %s", name, there),
		Hint: "Install it there with `airlock setup --packages " + name +
			"` and restart the service, or leave it out.",
	}
}
