package language

import (
	"regexp"
	"strings"
	"sync"
)

// One statement begins a line or follows a semicolon. Brackets and comments end what is looked at.
var imports = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)(?:^|;)[ \t]*` +
		`(?:import[ \t]+([\w., \t]+)|from[ \t]+([\w.]+)[ \t]+import[ \t(]+([\w, \t]*))`)
})

// Imports returns the modules that a Python program imports, from a quick scan. What it imports from a
// module may be a module too. Text that looks like an import may mislead it.
func Imports(code string) (modules []string) {
	for _, found := range imports().FindAllStringSubmatch(code, -1) {
		modules = append(modules, names(found[1], "")...)
		if found[2] != "" {
			modules = append(append(modules, found[2]), names(found[3], found[2]+".")...)
		}
	}
	return modules
}

// names returns what a list names, without what it is imported as.
func names(list, prefix string) (found []string) {
	for part := range strings.SplitSeq(list, ",") {
		if fields := strings.Fields(part); len(fields) > 0 {
			found = append(found, prefix+fields[0])
		}
	}
	return found
}
