package language

import (
	"regexp"
	"strings"
	"sync"
)

var imports = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?m)^[ \t]*(?:import|from)[ \t]+([A-Za-z_][\w.]*(?:[ \t]*,[ \t]*[A-Za-z_][\w.]*)*)`)
})

// Imports returns the modules that a Python program imports, from a quick scan. Text that looks like
// an import may mislead it.
func Imports(code string) (modules []string) {
	for _, match := range imports().FindAllStringSubmatch(code, -1) {
		for name := range strings.SplitSeq(match[1], ",") {
			modules = append(modules, strings.TrimSpace(name))
		}
	}
	return modules
}
