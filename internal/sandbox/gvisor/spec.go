package gvisor

import (
	"encoding/json"
	"os"
	"os/exec"
	"path"
	"slices"
	"time"

	specs "github.com/opencontainers/runtime-spec/specs-go"
	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/executor"
	"github.com/airlock-run/airlock/internal/sandbox/image"
)

// Folders of a sandbox, in folder.
const (
	workspaceFolder = "workspace"
	tmpFolder       = "tmp"
	rootFolder      = "root"   // with the layers of a live session
	sharedFolder    = "shared" // with mounts and volumes
)

// Limits that are the same for every program.
const (
	maxOpenFiles = 1024
	shmSize      = "size=67108864"
)

// specification returns an open file with the specification of the sandbox.
func (w *cell) specification() (*os.File, error) {
	text, err := json.Marshal(w.spec())
	if err != nil {
		return nil, err
	}
	fd, err := unix.MemfdCreate("config.json", unix.MFD_CLOEXEC)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), "config.json")
	_, err = f.Write(text)
	return f, err
}

func (w *cell) spec() *specs.Spec {
	r := w.program
	env := r.Env
	if env == nil {
		env = w.Environment.Usual
	}
	return &specs.Spec{
		Version:  specs.Version,
		Hostname: image.Hostname,
		// What is stored of its files has this name; see gvisor.patch.
		Annotations: map[string]string{"io.kubernetes.cri.container-name": sandboxID},
		Root:        w.root(),
		Process: &specs.Process{
			User: specs.User{UID: w.inner(), GID: w.inner()},
			Args: r.Argv, Env: env, Cwd: r.Root,
			Capabilities: &specs.LinuxCapabilities{}, NoNewPrivileges: true,
			Rlimits: limits(r),
		},
		Mounts: w.mounts(),
		Linux: &specs.Linux{
			Namespaces: []specs.LinuxNamespace{{Type: specs.PIDNamespace}, {Type: specs.IPCNamespace},
				{Type: specs.UTSNamespace}, {Type: specs.MountNamespace}, {Type: specs.NetworkNamespace},
				{Type: specs.UserNamespace}},
			UIDMappings: w.users(), GIDMappings: w.users(),
		},
	}
}

// root returns the root of the sandbox: of a live session with its layers, if it has them.
func (w *cell) root() *specs.Root {
	if len(w.Layers) > 0 {
		return &specs.Root{Path: path.Join(folder, rootFolder)}
	}
	return &specs.Root{Path: w.Environment.Root.At(w.Request.Live), Readonly: true}
}

// layerMounts returns what is to be mounted for the layers, in its order: them, and what stays as it is there.
func (w *cell) layerMounts() (list []layerMount) {
	if len(w.Layers) == 0 {
		return nil
	}
	of := w.Environment.Root
	for i, base := range of.Bases {
		list = append(list, layerMount{w.Layers[i], path.Join(rootFolder, base.At)})
		if i > 0 {
			continue
		}
		for _, kept := range of.Kept {
			list = append(list, layerMount{nil, of.Path + kept + ":" + path.Join(rootFolder, kept)})
		}
	}
	return list
}

// A layerMount is an open mount with the path at which to attach it or, without one, a pair of paths.
type layerMount struct {
	open *os.File
	at   string
}

// inner returns the program's user as its own kernel knows it: the same in every sandbox, as in every copy.
func (w *cell) inner() uint32 { return uint32(w.wall.Users.First) }

// users maps the program's user to that of the box, and the kernel's to one that nothing else has.
func (w *cell) users() []specs.LinuxIDMapping {
	uid := uint32(w.UID)
	return []specs.LinuxIDMapping{{ContainerID: w.inner(), HostID: uid, Size: 1},
		{ContainerID: 0, HostID: uid + kernelUsers, Size: 1}}
}

func (w *cell) mounts() []specs.Mount {
	quiet := []string{"nosuid", "nodev"}
	bind := func(from, to string, options ...string) specs.Mount {
		return specs.Mount{Type: "bind", Source: from, Destination: to, Options: append([]string{"rbind"}, options...)}
	}
	workspace := path.Join(folder, workspaceFolder)
	list := []specs.Mount{
		{Type: "proc", Source: "proc", Destination: "/proc"},
		{Type: "tmpfs", Source: "tmpfs", Destination: "/dev"},
		bind(path.Join(folder, tmpFolder), "/tmp", quiet...),
		{Type: "tmpfs", Source: "tmpfs", Destination: "/dev/shm", Options: append([]string{"mode=1777", shmSize}, quiet...)},
		bind(workspace, image.RootWorkspace, quiet...),
		bind(workspace, image.RootData, quiet...),
	}
	if w.Request.Live {
		list = append(list, bind(workspace, image.RootHome, quiet...),
			specs.Mount{Type: "devpts", Source: "devpts", Destination: "/dev/pts"})
	}
	for _, at := range w.sharedMounts() {
		list = append(list, bind(path.Join(folder, sharedFolder, at), at, quiet...))
	}
	if set := w.Environment.Set; set != "" {
		list = append(list, bind(path.Join(w.Environment.Root.Path, image.SetsPath, set), image.PackagesPath, "ro"))
	}
	return list
}

// giveShared hands over mounts and volumes, which are attached below a folder at their places in the sandbox.
func (w *cell) giveShared(c *exec.Cmd) {
	for _, f := range w.Mounts {
		give(c, f, "--mount=%d:"+sharedFolder+image.SharedIn(f.Name()))
	}
	for i, f := range w.Volumes {
		give(c, f, "--mount=%d:"+sharedFolder+w.Request.Volumes[i].Path)
	}
	if slices.Contains(w.Request.VolumeFolders(), path.Dir(image.RootData)) {
		c.Args = append(c.Args, "--mount="+path.Join(folder, workspaceFolder)+":"+sharedFolder+image.RootData)
	}
}

// sharedMounts returns the places of mounts and volumes in the sandbox. A folder with volumes has no others.
func (w *cell) sharedMounts() (places []string) {
	folders := w.Request.VolumeFolders()
	for _, f := range w.Mounts {
		if at := image.SharedIn(f.Name()); !slices.Contains(folders, path.Dir(at)) {
			places = append(places, at)
		}
	}
	return append(places, folders...)
}

// limits returns the limits that the sandbox's own kernel enforces.
func limits(r *executor.RunRequest) []specs.POSIXRlimit {
	list := []specs.POSIXRlimit{
		{Type: "RLIMIT_NOFILE", Soft: maxOpenFiles, Hard: maxOpenFiles},
		{Type: "RLIMIT_CORE"},
		{Type: "RLIMIT_FSIZE", Soft: fileSize(r), Hard: fileSize(r)},
	}
	if r.CPUTime > 0 {
		seconds := uint64((r.CPUTime + time.Second - 1) / time.Second)
		list = append(list, specs.POSIXRlimit{Type: "RLIMIT_CPU", Soft: seconds, Hard: seconds + 1})
	}
	return list
}

// fileSize bounds one file, in the workspace and in volumes.
func fileSize(r *executor.RunRequest) uint64 { return uint64(max(r.Workspace, r.FileSize)) }
