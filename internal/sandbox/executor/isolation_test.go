package executor

import (
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/cgroup"
)

// A host that sends the memory of crashed programs to a socket is not strict, and
// reports a remedy.
func TestCoreDumpsThatAreStreamed(t *testing.T) {
	h := &Machine{Root: true, Users: usersOf(firstBlock), Groups: &cgroup.Tree{Version: 2}}
	for pattern, streamed := range map[string]bool{
		"core\n": false, "\n": false, "": false, "/var/crash/core.%p\n": false,
		"|/usr/lib/systemd/systemd-coredump %P\n": false, "core@host\n": false,
		"@/run/coredump.socket\n": true, "@@/run/coredump.socket\n": true, "@linuxafsk/coredump.socket\n": true,
	} {
		i := h.isolation(nil, pattern)
		if i.Strict == streamed || strings.Contains(i.Summary, "core dumps") != streamed {
			t.Errorf("%q: strict %v, %s", pattern, i.Strict, i.Summary)
		}
		layer := i.Layers[len(i.Layers)-1]
		if layer.Name != "core dumps" || (layer.State == engine.LayerMissing) != streamed || (layer.Cure != "") != streamed {
			t.Errorf("%q: %+v", pattern, layer)
		}
	}
}
