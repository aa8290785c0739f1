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
	before, _, after, err := cut(name, part)
	if err != nil {
		return err
	}
	return os.WriteFile(name, []byte(before+strings.TrimRight(text, "\n")+"\n"+after), 0o644)
}

// part returns what stands between the marks of a part.
func part(name, part string) (text string, err error) {
	_, text, _, err = cut(name, part)
	return text, err
}

// cut takes a document apart at the marks of a part, which stay outside.
func cut(name, part string) (before, text, after string, err error) {
	document, err := os.ReadFile(name)
	if err != nil {
		return "", "", "", err
	}
	begin, end := "<!-- soak:"+part+" -->\n", "<!-- /soak:"+part+" -->"
	before, rest, found := strings.Cut(string(document), begin)
	text, after, closed := strings.Cut(rest, end)
	if !found || !closed {
		return "", "", "", fmt.Errorf("%s has no place for %q", name, part)
	}
	return before + begin, text, end + after, nil
}

// today is the day of a measurement.
func today() string { return time.Now().UTC().Format("2 January 2006") }

// machine says what was measured on.
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
	return fmt.Sprintf("%d processors, Linux %s", runtime.NumCPU(), release)
}
