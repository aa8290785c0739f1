package linux

import (
	"fmt"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor"
)

// Layers implements Wall.
func (l *wall) Layers() []engine.Layer {
	return []engine.Layer{
		executor.EnforcedLayer("file system", "its own root: read-only /usr, an /etc of its own, nothing else of the host"),
		executor.EnforcedLayer("network", "its own network namespace with nothing but loopback; no resolver"),
		executor.EnforcedLayer("processes", "its own pid namespace: it sees no others, and all of it dies together"),
		l.UsersLayer(),
		executor.EnforcedLayer("privileges", "no capabilities, none to gain, no new namespaces"),
		executor.EnforcedLayer("system calls", fmt.Sprintf("an allow list of %d calls; all others do not exist",
			len(hostAllowed())+len(hostRules()))),
		l.landlockLayer(),
	}
}

func (l *wall) landlockLayer() engine.Layer {
	const name = "landlock"
	switch {
	case l.landlock == 0:
		return engine.Layer{Name: name, State: engine.LayerMissing,
			Detail: "this kernel does not offer it; mounts alone bound the files",
			Cure:   "boot with landlock in the kernel's lsm= list"}
	case l.landlock < 3:
		return engine.Layer{Name: name, State: engine.LayerWeaker,
			Detail: fmt.Sprintf("version %d does not cover truncation", l.landlock),
			Cure:   "Linux 6.2 or later"}
	}
	return executor.EnforcedLayer(name,
		fmt.Sprintf("version %d: a second wall around files, signals and abstract sockets", l.landlock))
}
