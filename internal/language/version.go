package language

import (
	"bytes"
	"context"
	"maps"
	"os"
	"os/exec"
	"regexp"
	"strings"
	"sync"
	"time"
)

// InstalledVersion asks this host for the language: the first line of what its
// version command says, and whether it is installed at all.
func (l Language) InstalledVersion(ctx context.Context) (version string, ok bool) {
	if l.Missing() != "" {
		return "", false
	}
	ctx, cancel := context.WithTimeout(ctx, versionTime)
	defer cancel()
	command := exec.CommandContext(ctx, l.Version[0], l.Version[1:]...)
	command.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=/", "LANG=C.UTF-8"}
	command.WaitDelay = time.Second
	text, err := command.Output()
	line, _, _ := bytes.Cut(text, []byte("\n"))
	return strings.TrimSpace(string(line)), err == nil
}

// versionTime is how long a language may take to say its version.
const versionTime = 5 * time.Second

// InstalledVersions asks for the whole table at once. It has the versions of
// the installed languages by name.
func InstalledVersions(ctx context.Context) map[string]string {
	var (
		mu     sync.Mutex
		asking sync.WaitGroup
		found  = map[string]string{}
	)
	for _, l := range table {
		asking.Go(func() {
			if version, ok := l.InstalledVersion(ctx); ok {
				mu.Lock()
				defer mu.Unlock()
				found[l.Name] = version
			}
		})
	}
	asking.Wait()
	return found
}

// Versions remembers which languages are installed, for a minute: a setup may
// add one while the service runs. Its zero value is ready.
type Versions struct {
	mu    sync.Mutex
	asked time.Time
	found map[string]string
}

// freshness is how long an answer counts.
const freshness = time.Minute

// Get is InstalledVersions, or what it said lately.
func (v *Versions) Get(ctx context.Context) map[string]string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if v.found == nil || time.Since(v.asked) > freshness {
		found := InstalledVersions(ctx)
		if ctx.Err() != nil {
			return found // the caller has left meanwhile
		}
		v.found, v.asked = found, time.Now()
	}
	return maps.Clone(v.found)
}

// hostCommand is a program of a package in a command of the table, also where
// a shell starts it.
var hostCommand = regexp.MustCompile(`/usr/bin/[\w.+-]+`)

// Missing returns the first of the language's commands that is not on this
// host, empty if they all are. A compiler that is missing would else look to a
// program's author like a fault of the program.
func (l Language) Missing() (command string) {
	for _, words := range [][]string{l.Compile, l.Run} {
		for _, command := range hostCommand.FindAllString(strings.Join(words, " "), -1) {
			if info, err := os.Stat(command); err != nil || info.IsDir() {
				return command
			}
		}
	}
	return ""
}
