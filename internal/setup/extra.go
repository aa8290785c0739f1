package setup

import (
	"os/exec"
	"slices"
	"strings"
)

// An Extra is a program of the distribution that programs may start, installed on request.
type Extra struct {
	Name     string
	Title    string
	command  string
	packages []string // Debian's
}

// Extras lists what `airlock setup --extras` can install.
func Extras() []Extra {
	return []Extra{{
		Name: "office", Title: "LibreOffice", command: "soffice",
		packages: []string{"libreoffice-calc-nogui", "libreoffice-impress-nogui", "libreoffice-writer-nogui"},
	}}
}

// Installed reports whether this host has the program.
func (e Extra) Installed() bool {
	_, err := exec.LookPath(e.command)
	return err == nil
}

// extraPackages returns the Debian packages of extras.
func extraPackages(names []string) (packages []string, err error) {
	for _, name := range names {
		i := slices.IndexFunc(Extras(), func(e Extra) bool { return e.Name == strings.TrimSpace(name) })
		if i < 0 {
			var known []string
			for _, e := range Extras() {
				known = append(known, e.Name)
			}
			return nil, &Error{Problem: "there is no extra " + name, Cure: "choose from " + strings.Join(known, ", ")}
		}
		packages = append(packages, Extras()[i].packages...)
	}
	return packages, nil
}
