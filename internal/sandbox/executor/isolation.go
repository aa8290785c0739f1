package executor

import (
	"fmt"
	"slices"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/executor/kernelfile"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// isolation returns the layers that this host enforces, in the words shown by doctor,
// /health and the start of the service.
func (e *executor) isolation() engine.Isolation {
	i := e.machine.isolation(e.wall.Layers(), kernelfile.Read(image.ProcPath+"/sys/kernel", "core_pattern"))
	if e.machine.can.Live {
		i.Layers = append(i.Layers, e.layersLayer())
	}
	i.Backend = e.machine.can.Name
	if e.machine.can.Kernel != "" {
		i.Summary = e.machine.can.Kernel + ", " + i.Summary
	}
	return i
}

// isolation returns the layers of a wall and the executor's own, for a core pattern of the
// kernel.
func (h *Machine) isolation(wall []engine.Layer, corePattern string) engine.Isolation {
	i := engine.Isolation{Strict: h.Groups != nil && !streamsCores(corePattern)}
	i.Layers = slices.Concat(wall, []engine.Layer{
		h.groupLayer("memory limit",
			"the executor looks every 20 ms and ends what is over; each process alone is bounded by RLIMIT_DATA",
			engine.LayerWeaker),
		h.processLayer(),
		h.groupLayer("CPU limit", "a program may use every core, and yields only to its neighbours", engine.LayerMissing),
		EnforcedLayer("disk limit", "each workspace is a file system of its own with a size and a number of inodes"),
		coreLayer(corePattern),
	})
	i.Summary = h.summary()
	if streamsCores(corePattern) {
		i.Summary += ", core dumps go to a socket"
	}
	return i
}

// streamsCores reports whether the kernel (since Linux 6.16) sends the memory of a
// crashed process to a socket of the host. A core file limit does not prevent that.
// Processes that are not dumpable are exempt, but execve makes a process dumpable.
func streamsCores(pattern string) bool { return strings.HasPrefix(pattern, "@") }

func coreLayer(pattern string) engine.Layer {
	const name = "core dumps"
	if streamsCores(pattern) {
		return engine.Layer{
			Name: name, State: engine.LayerMissing,
			Detail: "the kernel sends the memory of a program that crashes to a socket of the host, whatever its limits",
			Cure:   "sysctl -w kernel.core_pattern=core, or a pattern that begins with |",
		}
	}
	return EnforcedLayer(name, "none is written, and no handler of the host is started")
}

func (h *Machine) summary() string {
	who := "root"
	if !h.Root {
		who = "user namespace"
	}
	switch {
	case h.Groups == nil:
		return who + ", no control groups"
	case h.Groups.Version == 2:
		return who + ", cgroup v2"
	}
	return who + ", cgroup v1"
}

// EnforcedLayer returns a layer that is whole.
func EnforcedLayer(name, detail string) engine.Layer {
	return engine.Layer{Name: name, State: engine.LayerEnforced, Detail: detail}
}

// UsersLayer returns the layer that keeps the users of sandboxes apart.
func (h *Machine) UsersLayer() engine.Layer {
	if h.Root {
		return EnforcedLayer("users", fmt.Sprintf("a user of its own for each sandbox, out of %d to %d", h.Users.First,
			h.Users.First+h.Users.Count-1))
	}
	return engine.Layer{
		Name: "users", State: engine.LayerWeaker,
		Detail: "every sandbox runs as the service's own user; namespaces alone, one of users among them, keep them apart",
		Cure:   "run the service as root: it drops to a user of its own",
	}
}

// processLayer returns the layer of the process limit. Without control groups the
// kernel limits the sandbox's user, which no other sandbox has: as root it has its own
// number, else its own user namespace.
func (h *Machine) processLayer() engine.Layer {
	if h.Groups == nil {
		return EnforcedLayer("process limit", "RLIMIT_NPROC, counted for each sandbox apart")
	}
	return h.groupLayer("process limit", "", engine.LayerEnforced)
}

// groupLayer returns a layer that control groups enforce if there are any.
func (h *Machine) groupLayer(name, without string, state engine.LayerState) engine.Layer {
	if h.Groups == nil {
		return engine.Layer{Name: name, State: state, Detail: without, Cure: h.groupCure()}
	}
	if name == "CPU limit" && !h.Groups.LimitsCPU() {
		return engine.Layer{Name: name, State: engine.LayerMissing, Detail: without, Cure: "mount the cpu controller"}
	}
	return EnforcedLayer(name, fmt.Sprintf("control group version %d", h.Groups.Version))
}

// groupCure returns how to enable control groups on this host.
func (h *Machine) groupCure() string {
	if !h.Root {
		return "run the service as root: this user may not make control groups"
	}
	return "mount the memory, pids and cpu controllers (" + h.groupsErr.Error() + ")"
}
