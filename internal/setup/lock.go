package setup

import (
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"regexp"
	"strings"
)

// The oldest and the newest CPython that there is a lock for: 3.x.
const (
	oldestMinor = 11
	newestMinor = 14
)

//go:embed locks/python-*.txt
var locks embed.FS

// requirementsIn names the packages that users are promised. A lock holds
// these and all that they need.
//
//go:embed locks/requirements.in
var requirementsIn string

// lockFile returns the lock for CPython 3.minor.
type lockFile func(minor int) ([]byte, error)

func embeddedLock(minor int) ([]byte, error) {
	return locks.ReadFile(fmt.Sprintf("locks/python-3.%d.txt", minor))
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
