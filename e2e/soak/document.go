package main

import (
	"fmt"
	"os"
	"runtime"
	"strings"
	"syscall"
	"time"
)

// fill replaces a part of a document, which stands between marks: <!-- soak:name -->
// and <!-- /soak:name -->. A document without them would keep figures of another
// run.
func fill(name, part, text string) error {
	document, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	begin, end := "<!-- soak:"+part+" -->\n", "<!-- /soak:"+part+" -->"
	before, rest, found := strings.Cut(string(document), begin)
	_, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return fmt.Errorf("%s has no place for %q", name, part)
	}
	return os.WriteFile(name, []byte(before+begin+strings.TrimRight(text, "\n")+"\n"+end+after), 0o644)
}

// machine says what was measured on, and when.
func machine() string {
	var name syscall.Utsname
	if err := syscall.Uname(&name); err != nil {
		return err.Error()
	}
	release := make([]byte, 0, len(name.Release))
	for _, c := range name.Release {
		if c == 0 {
			break
		}
		release = append(release, byte(c))
	}
	return fmt.Sprintf("%d processors, Linux %s, %s.", runtime.NumCPU(), release, time.Now().UTC().Format("2 January 2006"))
}
