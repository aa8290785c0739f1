// Package image makes the roots that sandboxes see, and knows what is in them: the host's
// programs and libraries with the sets of Python packages, or the files of an OCI image;
// and the files of package guest and of package language. It makes no sandbox: a wall
// moves each of its sandboxes into a root.
package image

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
	"github.com/airlock-run/airlock/internal/sandbox/guest"
)

// The root with the host's own programs is a small read-only tmpfs, called the image. It has
// the host's programs and libraries bound into it, a newly written /etc, and mount points
// for each sandbox. The executor creates it once, in its own mount namespace, and then
// leaves the host's root itself. From then on the executor cannot name a host's file
// even by mistake.

// Paths in the executor's mount namespace, once it has moved there.
const (
	Path = "/image"
	// HomePath is the image with RootHome in it. Short-lived programs have no home.
	HomePath  = "/image-home"
	HeldPath  = "/held" // of workspaces that persist
	ProcPath  = "/proc"
	GroupPath = "/cgroup"
)

// Paths in the image.
const (
	RootWorkspace = "/workspace"
	RootData      = "/mnt/data"
	RootHome      = "/home/user" // of interpreters, for protocols whose code hard-codes it
	RuntimesPath  = guest.Folder
	PackagesPath  = RuntimesPath + "/python"
	FontsPath     = RuntimesPath + "/matplotlib"

	// NothingPath is an empty file that replaces hidden files. Unlike /dev/null it is
	// not writable.
	NothingPath = RuntimesPath + "/nothing"
	// EmptyPath is the empty folder that replaces hidden folders.
	EmptyPath = RuntimesPath + "/empty"

	// CertificatesPath is the path of the host's certificates.
	CertificatesPath = "/etc/ssl/certs/ca-certificates.crt"
)

// Hostname is the name of the machine that a sandbox sees.
const Hostname = "airlock"

// Users are the users that sandboxes run as.
type Users struct{ First, Count int }

// Sources are the parts of the host that the image uses. Each is opened before the
// host's root is detached.
type Sources struct {
	Sets Sets

	runtimes string // folder of installed runtimes; may not exist yet
	etc      map[string][]byte
	mounts   []source

	shared    []string // names of the folders of the host that programs may ask for
	volumes   string   // folder of the volumes; empty: there are none
	toolchain *source  // the folder of the airlock program, whose name is host; nil without
	later     []source // folders in which something may be installed later
}

type source struct {
	host, inside string
	fd           int
	// nameless is set if the folder may be anywhere on the host, at a path that must
	// not appear in a list of mounts.
	nameless bool
	write    bool // a folder that programs may ask for, and change what is in it
}

// masked are the folders of /usr that are private to the host: software that its
// administrator built, and the Python packages of its distribution, whose versions
// would shadow the installed ones.
var masked = []string{localFolder, debianPackages}

const (
	localFolder    = "/usr/local"
	debianPackages = "/usr/lib/python3/dist-packages"
)

// etcFiles and etcFolders are the parts of the host's /etc that programs need and that
// reveal nothing about the host.
var (
	etcFiles   = []string{"ld.so.cache", "ld.so.conf", "mime.types", "protocols", "services", "debian_version"}
	etcFolders = []string{"alternatives", "fonts", "ld.so.conf.d", "libreoffice"}
)

// Open opens what the roots use of the host: the installed runtimes in a folder, with the
// default set of Python packages, and the images in another, among others. The service writes
// images that it fetches into a third one. shared are folders of the host, by name, that programs
// may ask for, and volumes is the folder of the volumes, if there is one.
func Open(runtimes, images, fetched, packages, volumes string, shared map[string]Folder) (*Sources, error) {
	// Copies of shared mounts, as systemd makes all of a host's, would pass on to the host what is
	// mounted on them.
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	s := &Sources{runtimes: runtimes, volumes: volumes, etc: map[string][]byte{}}
	if err := s.add("/usr", "usr"); err != nil {
		return nil, err
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if st, err := os.Lstat("/" + link); err == nil && st.IsDir() {
			if err := s.add("/"+link, link); err != nil {
				return nil, err
			}
		}
	}
	for _, name := range etcFolders {
		if err := s.add("/etc/"+name, "etc/"+name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	for _, name := range etcFiles {
		if b, err := os.ReadFile("/etc/" + name); err == nil {
			s.etc[name] = b
		}
	}
	for _, name := range slices.Backward(hostCertificates) {
		if b, err := os.ReadFile(name); err == nil && len(b) < maxBundle {
			s.etc[strings.TrimPrefix(CertificatesPath, "/etc/")] = b
		}
	}
	for _, device := range []string{"null", "zero", "full", "random", "urandom"} {
		if err := s.add("/dev/"+device, "dev/"+device); err != nil {
			return nil, err
		}
	}
	if err := s.add("/dev/tty", "dev/tty"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	err := errors.Join(s.addPackages(packages), s.addLive(), s.openLater(images, fetched), s.openShared(shared))
	if err != nil {
		return nil, err
	}
	return s, s.addLanguages()
}

// add opens a detached copy of a part of the host's tree.
func (s *Sources) add(host, inside string) error {
	fd, err := OpenTree(host, unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	s.mounts = append(s.mounts, source{host: host, inside: inside, fd: fd})
	return nil
}

// Enter creates the executor's mount tree with the image and moves into it. The image has
// the programs, which are the wall's own, at their paths: executable, but not readable,
// so that the kernel protects the memory and files of such a process from its first
// instruction.
func (s *Sources) Enter(users Users, programs map[string][]byte) error {
	// Everything is built on a tmpfs over a folder that exists on every host. The mount
	// is only in this namespace, and is detached soon afterwards.
	const scratch = "/tmp"
	groups, groupsErr := OpenTree("/sys/fs/cgroup", unix.AT_RECURSIVE)
	if err := unix.Mount("airlock", scratch, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=4m,mode=755"); err != nil {
		return fmt.Errorf("mount scratch: %w", err)
	}
	if err := os.Chdir(scratch); err != nil {
		return err
	}
	folders := []string{Path, HomePath, HeldPath, ProcPath, GroupPath, installedPath, imagesPath, fetchedPath, rootsPath,
		sharedPath, volumesPath}
	for _, name := range s.shared {
		folders = append(folders, path.Join(sharedPath, name))
	}
	for _, folder := range folders {
		if err := os.Mkdir("."+folder, 0o755); err != nil {
			return err
		}
	}
	if err := unix.Mount("proc", "."+ProcPath, "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount proc: %w", err)
	}
	if groupsErr == nil {
		if err := attach(groups, "."+GroupPath); err != nil {
			return err
		}
	}
	if err := s.build("."+Path, users, programs); err != nil {
		return err
	}
	if err := errors.Join(addHome("."+Path, "."+HomePath), s.attachLater()); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("leave the host's root: %w", err)
	}
	return os.Chdir("/")
}

// OpenTree opens a detached copy of a part of the tree.
func OpenTree(path string, flags uint) (int, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|flags)
	if err != nil {
		return -1, fmt.Errorf("open %s: %w", path, err)
	}
	return fd, nil
}

func attach(fd int, target string) error {
	defer unix.Close(fd)
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, target, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("attach %s: %w", target, err)
	}
	return nil
}

// build fills the image in a folder.
func (s *Sources) build(at string, users Users, programs map[string][]byte) error {
	if err := unix.Mount("airlock", at, "tmpfs", unix.MS_NOSUID, "size=2m,mode=755"); err != nil {
		return fmt.Errorf("mount image: %w", err)
	}
	root, err := os.OpenRoot(at)
	if err != nil {
		return err
	}
	defer root.Close()
	folders := []string{
		"usr", "etc/ssl/certs", "proc", "tmp", "var", "run", "dev/shm", "dev/pts", "mnt/data", "workspace", "volumes",
		strings.TrimPrefix(EmptyPath, "/"),
	}
	for _, name := range s.shared {
		folders = append(folders, strings.TrimPrefix(SharedIn(name), "/"))
	}
	for _, folder := range folders {
		if err := root.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	links := map[string]string{
		"var/tmp": "../tmp", "dev/fd": "/proc/self/fd", "dev/stdin": "/proc/self/fd/0", "dev/stdout": "/proc/self/fd/1",
		"dev/stderr": "/proc/self/fd/2", "etc/localtime": "/usr/share/zoneinfo/Etc/UTC",
		"etc/os-release": "../usr/lib/os-release",
		"etc/mtab":       "/proc/self/mounts",
	}
	for _, name := range []string{"bin", "sbin", "lib", "lib32", "lib64", "libx32"} {
		if target, err := os.Readlink("/" + name); err == nil {
			links[name] = target
		}
	}
	for name, target := range links {
		if err := root.Symlink(target, name); err != nil {
			return err
		}
	}
	for name, content := range s.etcContent(users) {
		if err := root.WriteFile("etc/"+name, content, 0o644); err != nil {
			return err
		}
	}
	for _, m := range s.mounts {
		if err := s.bind(root, at, m); err != nil {
			return err
		}
	}
	if err := root.WriteFile(strings.TrimPrefix(NothingPath, "/"), nil, 0o644); err != nil {
		return err
	}
	for minor := oldestPython; minor <= newestPython; minor++ { // mount points, in images too
		if err := root.MkdirAll(fmt.Sprintf("%s/3.%d", liveFolder, minor)[1:], 0o755); err != nil {
			return err
		}
	}
	if err := os.CopyFS(filepath.Join(at, guest.Folder), guest.Files()); err != nil {
		return err
	}
	for path, program := range programs {
		if err := root.WriteFile(strings.TrimPrefix(path, "/"), program, 0o111); err != nil {
			return err
		}
	}
	if err := s.placeLanguages(root, at); err != nil {
		return err
	}
	if err := mask(at); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, at, 0,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}

// Minor versions of CPython that an image may have with live interpreters.
const oldestPython, newestPython = 8, 20

// addHome copies the image's mounts below another folder, with a mount point for a
// workspace.
func addHome(image, at string) error {
	if err := unix.Mount("airlock", at, "tmpfs", unix.MS_NOSUID, "size=64k,mode=755"); err != nil {
		return fmt.Errorf("mount image: %w", err)
	}
	entries, err := os.ReadDir(image)
	if err != nil {
		return err
	}
	for _, entry := range entries {
		from, to := filepath.Join(image, entry.Name()), filepath.Join(at, entry.Name())
		if target, err := os.Readlink(from); err == nil {
			if err := os.Symlink(target, to); err != nil {
				return err
			}
			continue
		}
		if err := os.Mkdir(to, 0o755); err != nil {
			return err
		}
		fd, err := OpenTree(from, unix.AT_RECURSIVE)
		if err != nil {
			return err
		}
		if err := attach(fd, to); err != nil {
			return err
		}
	}
	if err := os.MkdirAll(at+RootHome, 0o755); err != nil {
		return err
	}
	return unix.MountSetattr(unix.AT_FDCWD, at, 0,
		&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID})
}

// bind attaches one source, read-only.
func (s *Sources) bind(root *os.Root, at string, m source) error {
	device := strings.HasPrefix(m.inside, "dev/")
	var err error
	if device {
		err = root.WriteFile(m.inside, nil, 0o644)
	} else {
		err = root.MkdirAll(m.inside, 0o755)
	}
	if err != nil {
		return err
	}
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_RDONLY}
	if !device {
		attributes.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if err := unix.MountSetattr(m.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attributes); err != nil {
		return fmt.Errorf("make %s read-only: %w", m.host, err)
	}
	target := filepath.Join(at, m.inside)
	if !m.nameless {
		return attach(m.fd, target)
	}
	return s.overlay(m, target)
}

// overlay mounts a read-only overlay of a folder and an empty folder. The overlay is a
// separate file system, so no list of mounts reveals its path on the host. If the
// kernel does not support that, overlay binds the folder like the others.
func (s *Sources) overlay(m source, target string) error {
	for _, folder := range []string{lowerFolder, emptyFolder} {
		if err := os.MkdirAll(folder, 0o755); err != nil {
			return err
		}
	}
	if err := attach(m.fd, lowerFolder); err != nil {
		return err
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	err := unix.Mount("airlock", target, "overlay", flags, "lowerdir="+lowerFolder+":"+emptyFolder)
	if err != nil {
		err = unix.Mount(lowerFolder, target, "", unix.MS_BIND|unix.MS_REC, "")
	}
	return errors.Join(err, unix.Unmount(lowerFolder, unix.MNT_DETACH))
}

// Folders used while the mount tree is created.
const (
	lowerFolder = "runtime"
	emptyFolder = "empty"
)

// mask hides the host's own parts of /usr. The installed packages replace the folder
// where Debian's interpreters look for local ones, so that no environment variable is
// needed to find them.
func mask(at string) error {
	for _, folder := range masked {
		target := at + folder
		if _, err := os.Stat(target); err != nil {
			continue
		}
		if err := unix.Mount("airlock", target, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "size=64k,mode=755"); err != nil {
			return fmt.Errorf("mask %s: %w", folder, err)
		}
		fill := map[string]func(string) error{localFolder: fillLocal, debianPackages: placePip}[folder]
		if err := fill(target); err != nil {
			return err
		}
		if err := unix.MountSetattr(unix.AT_FDCWD, target, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}); err != nil {
			return err
		}
	}
	return nil
}

// fillLocal fills /usr/local with links to packages, where Debian's interpreters look
// for them, and with common commands that Debian names differently or lacks.
func fillLocal(target string) error {
	for minor := 11; minor <= 14; minor++ {
		lib := fmt.Sprintf("%s/lib/python3.%d", target, minor)
		if err := os.MkdirAll(lib, 0o755); err != nil {
			return err
		}
		if err := os.Symlink(PackagesPath, lib+"/dist-packages"); err != nil {
			return err
		}
	}
	bin := target + "/bin"
	if err := os.Mkdir(bin, 0o755); err != nil {
		return err
	}
	if _, err := os.Stat(target + "/../bin/soffice"); err == nil {
		for _, name := range []string{"soffice", "libreoffice"} {
			//nolint:gosec // a command
			if err := os.WriteFile(bin+"/"+name, []byte(officeScript), 0o755); err != nil {
				return err
			}
		}
	}
	python, _ := language.Find("python")
	return errors.Join(
		os.Symlink(python.Run[0], bin+"/python"),
		os.WriteFile(bin+"/pip", guest.Pip(), 0o755), //nolint:gosec // a command
		os.Symlink("pip", bin+"/pip3"),
	)
}

// officeScript starts LibreOffice. Without a folder for its settings it would leave them
// among the program's files.
const officeScript = `#!/bin/sh
mkdir -p "${XDG_CONFIG_HOME:=/tmp/.config}" && export XDG_CONFIG_HOME && exec /usr/bin/soffice "$@"
`

// placePip puts the module where only Debian's interpreters find it.
func placePip(target string) error {
	return os.WriteFile(target+"/pip.py", guest.Pip(), 0o644)
}

// etcContent returns the files of the /etc of the machine's own environment. They contain
// only the parts of the host's that programs need to start.
func (s *Sources) etcContent(users Users) map[string][]byte {
	content := generatedEtc(users)
	maps.Copy(content, s.etc)
	return content
}

// generatedEtc returns the files of /etc that are alike in every environment.
func generatedEtc(users Users) map[string][]byte {
	var passwd, group strings.Builder
	passwd.WriteString("root:x:0:0:root:/:/usr/sbin/nologin\n")
	group.WriteString("root:x:0:\n")
	for i := range users.Count {
		name := "sandbox"
		if i > 0 {
			name = fmt.Sprintf("sandbox%d", i)
		}
		fmt.Fprintf(&passwd, "%s:x:%d:%d::%s:/bin/bash\n", name, users.First+i, users.First+i, RootWorkspace)
		fmt.Fprintf(&group, "%s:x:%d:\n", name, users.First+i)
	}
	return map[string][]byte{
		"passwd":        []byte(passwd.String()),
		"group":         []byte(group.String()),
		"hosts":         []byte("127.0.0.1 localhost\n::1 localhost\n127.0.1.1 " + Hostname + "\n"),
		"hostname":      []byte(Hostname + "\n"),
		"nsswitch.conf": []byte("passwd: files\ngroup: files\nhosts: files\n"),
		"timezone":      []byte("Etc/UTC\n"),
		"host.conf":     []byte("multi on\n"),
	}
}

// maxBundle bounds the file of certificates: the image is small.
const maxBundle = 512 << 10

// hostCertificates are the usual paths of the certificates of authorities on a host.
var hostCertificates = []string{
	CertificatesPath, "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem", "/etc/ssl/ca-bundle.pem",
}
