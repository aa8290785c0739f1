package executor

import (
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// A request for the mounted set has the default environment.
func TestSetEnvironment(t *testing.T) {
	h := &Machine{Sets: image.Sets{Default: "onyx",
		All: map[string]image.Set{"onyx": {Python: "/usr/bin/python3.12"}, "current": {}, "own": {}}}}
	e := &executor{machine: h, environments: map[string]*Environment{"onyx": {}, "current": {}, "own": {}, "": {}}}
	other := &executor{machine: &Machine{Sets: image.Sets{Default: "current", All: h.Sets.All}},
		environments: e.environments}
	for _, tt := range []struct {
		executor  *executor
		ask, want string
	}{
		{e, "", "onyx"}, {e, "onyx", "onyx"}, {e, "current", "current"},
		{other, "", ""}, {other, "current", ""}, {other, "onyx", "onyx"}, {other, "own", "own"},
	} {
		got, err := tt.executor.setEnvironment(tt.ask)
		if err != nil || got != e.environments[tt.want] {
			t.Errorf("asked for %q where %s is the default: another one than %q, error %v", tt.ask,
				tt.executor.machine.Sets.Default, tt.want, err)
		}
	}
	if _, err := e.setEnvironment("librechat"); err == nil {
		t.Error("a set that is not installed: no error")
	}
}

// Of idle images, the longest idle ones are unmounted when they are too many. One in use stays.
func TestEvictImages(t *testing.T) {
	i := &images{byID: map[string]*Environment{}}
	for n := range mostImages + 3 {
		name := string(rune('a' + n))
		i.byID[name] = &Environment{Name: name, left: time.Unix(int64(n+1), 0)}
	}
	i.byID["b"].users = 1
	i.evict()
	var names []string
	for _, env := range i.list() {
		names = append(names, env.Name)
	}
	if got, want := strings.Join(names, ""), "bdefghijk"; got != want {
		t.Errorf("%s stay, want %s", got, want)
	}
}

// Images are below the runtimes unless a folder is named. Without runtimes there are none.
func TestFolderOfImages(t *testing.T) {
	for _, tt := range []struct {
		options LaunchOptions
		want    string
	}{
		{LaunchOptions{}, ""},
		{LaunchOptions{Runtimes: "/data/runtimes"}, "/data/runtimes/images"},
		{LaunchOptions{Runtimes: "/opt/airlock/runtimes", Images: "/data/images"}, "/data/images"},
	} {
		if got := tt.options.images(); got != tt.want {
			t.Errorf("runtimes %q, images %q: %q, want %q", tt.options.Runtimes, tt.options.Images, got, tt.want)
		}
	}
}
