package setup

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

//go:embed locks/*.txt
var locks embed.FS

// requirements name the packages that users are promised, SET.in. A lock holds
// these and all that they need.
//
//go:embed locks/*.in
var requirements embed.FS

// lockFile returns the lock of a set for CPython 3.minor.
type lockFile func(set string, minor int) ([]byte, error)

func embeddedLock(set string, minor int) ([]byte, error) {
	return locks.ReadFile(fmt.Sprintf("locks/%s-3.%d.txt", set, minor))
}

// embeddedRoots returns the names of a set's main packages, one a line.
func embeddedRoots(set string) string {
	text, err := requirements.ReadFile("locks/" + set + ".in")
	if err != nil {
		return "" // the set "own" has what its file says
	}
	return string(text)
}

func digest(content []byte) string {
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:])
}

// named matches the package name that a line of a requirements file begins
// with. Lines that begin with a path, an address or an option do not match.
var named = regexp.MustCompile(`^[A-Za-z0-9](?:[A-Za-z0-9._-]*[A-Za-z0-9])?`)

// packageNames lists the packages that a requirements file names, one a line.
func packageNames(requirements string) []string {
	var names []string
	for line := range strings.Lines(requirements) {
		if name := named.FindString(strings.TrimLeft(line, " \t")); name != "" && !strings.HasPrefix(line, " ") {
			names = append(names, name)
		}
	}
	return names
}

// pins turns a lock into constraints: the same versions without hashes, which
// pip would otherwise demand of everything else, too.
func pins(lock []byte) []byte {
	var out strings.Builder
	for line := range strings.Lines(string(lock)) {
		if packageNames(line) != nil {
			pin, _, _ := strings.Cut(line, "\\")
			out.WriteString(strings.TrimSpace(pin) + "\n")
		}
	}
	return []byte(out.String())
}
