package linux

import (
	"fmt"
	"strings"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/linux/kernelfile"
)

// isolation returns the layers that this host enforces, in the words shown by doctor,
// /health and the start of the service.
func (h *host) isolation() engine.Isolation {
	return h.isolationWith(kernelfile.Read(procPath+"/sys/kernel", "core_pattern"))
}

// isolationWith is isolation for a given core pattern of the kernel.
func (h *host) isolationWith(corePattern string) engine.Isolation {
	i := engine.Isolation{Backend: "linux", Strict: h.groups != nil && !streamsCores(corePattern)}
	i.Layers = []engine.Layer{
		enforced("file system", "its own root: read-only /usr, an /etc of its own, nothing else of the host"),
		enforced("network", "its own network namespace with nothing but loopback; no resolver"),
		enforced("processes", "its own pid namespace: it sees no others, and all of it dies together"),
		h.users(),
		enforced("privileges", "no capabilities, none to gain, no new namespaces"),
		enforced("system calls", fmt.Sprintf("an allow list of %d calls; all others do not exist",
			len(hostAllowed())+len(hostRules()))),
		h.landlockLayer(),
		h.groupLayer("memory limit",
			"the executor looks every 20 ms and ends what is over; each process alone is bounded by RLIMIT_DATA",
			engine.LayerWeaker),
		h.processLayer(),
		h.groupLayer("CPU limit", "a program may use every core, and yields only to its neighbours", engine.LayerMissing),
		enforced("disk limit", "each workspace is a file system of its own with a size and a number of inodes"),
		coreLayer(corePattern),
	}
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
	return enforced(name, "none is written, and no handler of the host is started")
}

func (h *host) summary() string {
	who := "root"
	if !h.root {
		who = "user namespace"
	}
	switch {
	case h.groups == nil:
		return who + ", no control groups"
	case h.groups.Version == 2:
		return who + ", cgroup v2"
	}
	return who + ", cgroup v1"
}

func enforced(name, detail string) engine.Layer {
	return engine.Layer{Name: name, State: engine.LayerEnforced, Detail: detail}
}

func (h *host) users() engine.Layer {
	if h.root {
		return enforced("users", fmt.Sprintf("a user of its own for each sandbox, out of %d to %d", h.uids.first,
			h.uids.first+h.uids.count-1))
	}
	return engine.Layer{
		Name: "users", State: engine.LayerWeaker,
		Detail: "every sandbox runs as the service's own user; namespaces alone, one of users among them, keep them apart",
		Cure:   "run the service as root: it drops to a user of its own",
	}
}

func (h *host) landlockLayer() engine.Layer {
	const name = "landlock"
	switch {
	case h.landlock == 0:
		return engine.Layer{Name: name, State: engine.LayerMissing,
			Detail: "this kernel does not offer it; mounts alone bound the files",
			Cure:   "boot with landlock in the kernel's lsm= list"}
	case h.landlock < 3:
		return engine.Layer{Name: name, State: engine.LayerWeaker,
			Detail: fmt.Sprintf("version %d does not cover truncation", h.landlock),
			Cure:   "Linux 6.2 or later"}
	}
	return enforced(name, fmt.Sprintf("version %d: a second wall around files, signals and abstract sockets", h.landlock))
}

// processLayer returns the layer of the process limit. Without control groups the
// kernel limits the sandbox's user, which no other sandbox has: as root it has its own
// number, else its own user namespace.
func (h *host) processLayer() engine.Layer {
	if h.groups == nil {
		return enforced("process limit", "RLIMIT_NPROC, counted for each sandbox apart")
	}
	return h.groupLayer("process limit", "", engine.LayerEnforced)
}

// groupLayer returns a layer that control groups enforce if there are any.
func (h *host) groupLayer(name, without string, state engine.LayerState) engine.Layer {
	if h.groups == nil {
		return engine.Layer{Name: name, State: state, Detail: without, Cure: h.groupCure()}
	}
	if name == "CPU limit" && !h.groups.LimitsCPU() {
		return engine.Layer{Name: name, State: engine.LayerMissing, Detail: without, Cure: "mount the cpu controller"}
	}
	return enforced(name, fmt.Sprintf("control group version %d", h.groups.Version))
}

// groupCure returns how to enable control groups on this host.
func (h *host) groupCure() string {
	if !h.root {
		return "run the service as root: this user may not make control groups"
	}
	return "mount the memory, pids and cpu controllers (" + h.groupsErr.Error() + ")"
}
