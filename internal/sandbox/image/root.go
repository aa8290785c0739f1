package image

import (
	"encoding/json"
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

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/language"
)

// A Root is a tree of files that sandboxes see, read-only: the machine's own programs or
// those of an OCI image, with a generated /etc and mount points for each sandbox.
type Root struct {
	Path string // in the executor's mount namespace
	Home string // the same tree with RootHome in it, for live interpreters

	// Places are what programs may see of it. They stay open until Unmount.
	Places []Place

	// Bases are the parts of the tree over which a live session has a layer that it writes to,
	// outer ones first. Kept are the folders and files in them that stay as they are.
	Bases []Base
	Kept  []string

	folder *os.File // of an OCI image; its lock keeps the files
}

// A Place is an open folder of a root.
type Place struct {
	Folder *os.File
	Right  Right
}

// Right is what a program may do in a Place.
type Right int

// The rights.
const (
	List    Right = iota // list every folder
	Read                 // read and execute every file
	Devices              // read and write every device
)

// A Base is a part of a root that becomes writable, with its layers, the highest first.
type Base struct {
	At     string
	Layers []*os.File
}

// At returns the path of the root that a sandbox moves to.
func (r *Root) At(live bool) string {
	if live {
		return r.Home
	}
	return r.Path
}

// HostRoot returns the root with the machine's own programs.
func HostRoot() (*Root, error) {
	r := &Root{Path: Path, Home: HomePath}
	places := map[string]Right{Path: List, HomePath: List, Path + "/dev": Devices}
	for _, name := range []string{"/usr", "/etc", "/opt"} { // in both trees, like the packages of Node
		places[Path+name] = Read
	}
	if _, err := os.Stat(Path + ModulesPath); err == nil {
		places[Path+ModulesPath] = Read
	}
	if err := r.open(places); err != nil {
		return nil, err
	}
	if err := r.addBase("/", Path, HomePath); err != nil {
		return nil, err
	}
	if err := r.addBase(localFolder, Path+localFolder); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	return r, r.keepMounts()
}

// addBase adds a part of the root that consists of folders, the highest first.
func (r *Root) addBase(at string, folders ...string) error {
	base := Base{At: at}
	for _, folder := range folders {
		fd, err := unix.Open(folder, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: folder, Err: err}
		}
		base.Layers = append(base.Layers, os.NewFile(uintptr(fd), at))
	}
	r.Bases = append(r.Bases, base)
	return nil
}

// keepMounts notes what is mounted in the root, beside the folders that are Airlock's own.
func (r *Root) keepMounts() error {
	table, err := os.ReadFile(ProcPath + "/self/mountinfo")
	if err != nil {
		return err
	}
	kept := []string{"/dev", RuntimesPath}
	for line := range strings.Lines(string(table)) {
		fields := strings.Fields(line)
		if inside, ok := strings.CutPrefix(fields[4], r.Path+"/"); ok {
			kept = append(kept, "/"+inside)
		}
	}
	slices.Sort(kept)
	for _, name := range kept {
		if last := len(r.Kept) - 1; last < 0 || name != r.Kept[last] && !strings.HasPrefix(name, r.Kept[last]+"/") {
			r.Kept = append(r.Kept, name)
		}
	}
	return nil
}

// open opens what programs may see.
func (r *Root) open(places map[string]Right) error {
	for name, right := range places {
		fd, err := unix.Open(name, unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return &fs.PathError{Op: "open", Path: name, Err: err}
		}
		r.Places = append(r.Places, Place{os.NewFile(uintptr(fd), name), right})
	}
	return nil
}

// OCI images have three layers when they are mounted: what Airlock lays over every image,
// the files of the image, and what programs find if the image lacks it. The overlay is a
// file system of its own, so that no list of mounts reveals where the files are.

// Paths in the executor's mount namespace.
const (
	installedPath = "/runtimes" // what `airlock setup` installs
	imagesPath    = "/images"
	fetchedPath   = "/fetched"
	sharedPath    = "/shared"
	volumesPath   = "/volumes"
	rootsPath     = "/roots" // with a mounted root for each image in use
	overPath      = "/over"
	underPath     = "/under"
)

// Names in the folder of an image. The folder is called like the image's ID.
const (
	RecordName = "image.json" // an engine.Image
	FilesName  = "rootfs"
)

// ErrNoImage is the cause of Mount's error for an image that is not on this machine.
var ErrNoImage = errors.New("the image is not on this machine")

// overFolders are the mount points of each sandbox. A link of the image with such a name is hidden.
var overFolders = []string{"dev", "proc", "sys", "tmp", "run", "etc", "var", "mnt/data", "workspace", "volumes",
	strings.TrimPrefix(RootHome, "/"), strings.TrimPrefix(RuntimesPath, "/")}

// makeLayers makes the layers over and under every image, once.
func makeLayers(users Users) error {
	if _, err := os.Stat(underPath); err == nil {
		return nil
	}
	shared, err := os.ReadDir(sharedPath)
	if err != nil {
		return err
	}
	folders := slices.Clone(overFolders)
	for _, folder := range shared {
		folders = append(folders, strings.TrimPrefix(SharedIn(folder.Name()), "/"))
	}
	for _, folder := range folders {
		if err := os.MkdirAll(filepath.Join(overPath, folder), 0o755); err != nil {
			return err
		}
	}
	for name, text := range generatedEtc(users) {
		if err := os.WriteFile(filepath.Join(overPath, "etc", name), text, 0o644); err != nil { //nolint:gosec // all read it
			return err
		}
	}
	// An image may name the resolvers of where it was built. None can be reached.
	if err := os.WriteFile(filepath.Join(overPath, "etc/resolv.conf"), nil, 0); err != nil {
		return err
	}
	for name, target := range map[string]string{"var/tmp": "../tmp", "etc/mtab": "/proc/self/mounts"} {
		if err := os.Symlink(target, filepath.Join(overPath, name)); err != nil {
			return err
		}
	}
	known, _ := os.ReadFile(Path + CertificatesPath) // a machine may have none
	certificates := underPath + CertificatesPath
	if err := os.MkdirAll(filepath.Dir(certificates), 0o755); err != nil {
		return err
	}
	return os.WriteFile(certificates, known, 0o644) //nolint:gosec // all read it
}

// openLater opens the folders in which something may be installed later.
func (s *Sources) openLater(images, fetched string) error {
	if images != "" {
		_ = os.Mkdir(images, 0o755) // without a data directory there is none
	}
	for inside, folder := range map[string]string{installedPath: s.runtimes, imagesPath: images, fetchedPath: fetched,
		volumesPath: s.volumes} {
		if folder == "" {
			continue
		}
		fd, err := OpenTree(folder, 0)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue // what comes to be there is seen by the next executor
		}
		if err != nil {
			return err
		}
		s.later = append(s.later, source{host: folder, inside: inside, fd: fd})
	}
	return nil
}

// Folder is a folder of the host that programs may ask for.
type Folder struct {
	Path  string
	Write bool `json:",omitempty"` // programs may change what is in it
}

// openShared opens the folders of the host that programs may ask for. One that is not there is
// missing until the executor is started again.
func (s *Sources) openShared(shared map[string]Folder) error {
	for _, name := range slices.Sorted(maps.Keys(shared)) {
		s.shared = append(s.shared, name)
		fd, err := OpenTree(shared[name].Path, unix.AT_RECURSIVE)
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) {
			continue
		}
		if err != nil {
			return err
		}
		s.later = append(s.later, source{host: shared[name].Path, inside: path.Join(sharedPath, name), fd: fd,
			write: shared[name].Write})
	}
	return nil
}

// SharedIn returns the path of a shared folder in a sandbox.
func SharedIn(name string) string { return "/mnt/" + name }

// OpenShared opens a copy of a shared folder, which is mounted nowhere. One that programs may not write
// to is read-only in any case. The error is fs.ErrNotExist if the host has no such folder.
func OpenShared(name string, readOnly bool) (*os.File, error) {
	at := path.Join(sharedPath, name)
	if path.Dir(at) != sharedPath || path.Base(at) != name { // the service may be taken over
		return nil, &fs.PathError{Op: "open", Path: at, Err: fs.ErrNotExist}
	}
	var there, parent unix.Stat_t
	if err := errors.Join(unix.Stat(at, &there), unix.Stat(sharedPath, &parent)); err != nil {
		return nil, err
	}
	if there.Dev == parent.Dev || there.Nlink == 0 { // nothing is mounted there, or it was removed since
		return nil, &fs.PathError{Op: "open", Path: at, Err: fs.ErrNotExist}
	}
	fd, err := OpenTree(at, unix.AT_RECURSIVE)
	if err != nil {
		return nil, err
	}
	f := os.NewFile(uintptr(fd), name)
	if readOnly {
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE,
			&unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// ReplaceShared mounts a copy of a shared folder, which has its name, in the folder's place.
func ReplaceShared(f *os.File) error {
	return unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, path.Join(sharedPath, f.Name()), unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// SharedPlaces opens what programs may read of the shared folders, wherever they are mounted.
func SharedPlaces() (places []Place, err error) {
	entries, err := os.ReadDir(sharedPath)
	for _, entry := range entries {
		fd, err := unix.Open(path.Join(sharedPath, entry.Name()), unix.O_PATH|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		places = append(places, Place{os.NewFile(uintptr(fd), entry.Name()), Read})
	}
	return places, err
}

// attachLater attaches those folders for the executor alone.
func (s *Sources) attachLater() error {
	for _, folder := range s.later {
		attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV}
		switch {
		case path.Dir(folder.inside) == sharedPath: // data
			attributes.Attr_set |= unix.MOUNT_ATTR_NOEXEC
			if folder.write {
				attributes.Attr_set &^= unix.MOUNT_ATTR_RDONLY
			}
		case folder.inside == volumesPath:
			attributes.Attr_set &^= unix.MOUNT_ATTR_RDONLY
		}
		if err := unix.MountSetattr(folder.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, attributes); err != nil {
			return fmt.Errorf("restrict %s: %w", folder.host, err)
		}
		if err := attach(folder.fd, "."+folder.inside); err != nil {
			return err
		}
	}
	return nil
}

// folderOf returns the folder of an image, which was added here or fetched.
func folderOf(id string) string {
	if _, err := os.Lstat(path.Join(imagesPath, id)); err == nil {
		return path.Join(imagesPath, id)
	}
	return path.Join(fetchedPath, id)
}

// ReadRecord reads what is known of an image on this machine.
func ReadRecord(id string) (*engine.Image, error) {
	if path.Base(id) != id || !strings.HasPrefix(id, "sha256-") {
		return nil, fmt.Errorf("%q is not the ID of an image", id)
	}
	text, err := os.ReadFile(path.Join(folderOf(id), RecordName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, ErrNoImage
	}
	if err != nil {
		return nil, err
	}
	record := &engine.Image{}
	if err := json.Unmarshal(text, record); err != nil {
		return nil, fmt.Errorf("read what is known of the image: %w", err)
	}
	record.ID = id
	return record, nil
}

// Mount mounts an image. Its files stay on this machine until Unmount, even if it is removed.
// One goroutine at a time calls it.
func Mount(record *engine.Image, users Users) (_ *Root, err error) {
	if err := makeLayers(users); err != nil {
		return nil, fmt.Errorf("make what every image has: %w", err)
	}
	at := path.Join(rootsPath, record.ID)
	r := &Root{Path: at, Home: at}
	// A service that was taken over could have put links into the folder of what it fetched.
	folder := folderOf(record.ID)
	const noLink = unix.O_DIRECTORY | unix.O_NOFOLLOW
	if r.folder, err = os.OpenFile(folder, noLink, 0); err != nil {
		return nil, ErrNoImage
	}
	defer func() {
		if err != nil {
			r.Unmount()
		}
	}()
	if err := unix.Flock(int(r.folder.Fd()), unix.LOCK_SH|unix.LOCK_NB); err != nil {
		return nil, ErrNoImage // it is being removed
	}
	files := path.Join(folder, FilesName)
	entries, err := readFolder(files, noLink)
	if err != nil {
		return nil, ErrNoImage
	}
	if err := os.Mkdir(at, 0o755); err != nil {
		return nil, err
	}
	if err := mountLayers(at, overPath, files, underPath); err != nil {
		return nil, fmt.Errorf("mount the image's files as an overlay: %w", err)
	}
	if err := r.addAirlock(record); err != nil {
		return nil, err
	}
	err = errors.Join(r.addBase("/", overPath, files, underPath), r.keepMounts(), r.open(r.seen(entries)))
	return r, err
}

func readFolder(name string, flags int) ([]os.DirEntry, error) {
	folder, err := os.OpenFile(name, flags, 0)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	return folder.ReadDir(-1)
}

// addAirlock attaches the devices, and what runs programs.
func (r *Root) addAirlock(record *engine.Image) error {
	for _, tree := range []struct {
		path  string
		flags uint
	}{{"/dev", unix.AT_RECURSIVE}, {RuntimesPath, 0}, {language.Toolchain, 0}} {
		fd, err := OpenTree(Path+tree.path, tree.flags)
		if err == nil {
			err = attach(fd, r.Path+tree.path)
		}
		if err != nil && (tree.path != language.Toolchain || !errors.Is(err, fs.ErrNotExist)) {
			return err
		}
	}
	packages, minor := liveOf(record)
	if packages == "" {
		return nil
	}
	if err := mountLayers(r.Path+liveFolder+"/"+minor, Path+EmptyPath, packages); err != nil {
		return fmt.Errorf("mount the packages of live interpreters: %w", err)
	}
	return nil
}

// mountLayers mounts a read-only overlay of folders, the highest first. Programs see the
// names in a list of mounts, so the folders have others.
func mountLayers(at string, folders ...string) error {
	names := make([]string, len(folders))
	for i, folder := range folders {
		names[i] = fmt.Sprintf("layer%d", i)
		if err := os.Symlink(folder, "/"+names[i]); err != nil {
			return err
		}
		defer os.Remove("/" + names[i])
	}
	const flags = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV
	return unix.Mount("airlock", at, "overlay", flags, "lowerdir="+strings.Join(names, ":"))
}

// seen returns what programs may see of an image, in which there are these entries.
func (r *Root) seen(entries []os.DirEntry) map[string]Right {
	mounted := []string{"dev", "proc", "sys", "tmp", "workspace", "mnt"}
	places := map[string]Right{r.Path: List, r.Path + "/dev": Devices, r.Path + "/etc": Read, r.Path + "/opt": Read}
	for _, entry := range entries {
		if entry.IsDir() && !slices.Contains(mounted, entry.Name()) {
			places[path.Join(r.Path, entry.Name())] = Read
		}
	}
	return places
}

// Unmount unmounts an image. Sandboxes in it keep it until they end.
func (r *Root) Unmount() {
	for _, p := range r.Places {
		p.Folder.Close()
	}
	for _, base := range r.Bases {
		for _, layer := range base.Layers {
			layer.Close()
		}
	}
	_ = unix.Unmount(r.Path, unix.MNT_DETACH)
	_ = os.Remove(r.Path)
	r.folder.Close()
}

// HasLive reports whether the packages of live interpreters for an image's Python are installed.
func HasLive(record *engine.Image) bool {
	packages, _ := liveOf(record)
	return packages != ""
}

// liveOf returns the folder of those packages, if they are installed, and the version that they are for.
func liveOf(record *engine.Image) (packages, minor string) {
	python, _ := record.Language("python")
	parts := strings.SplitN(python.Version, ".", 3)
	if len(parts) < 2 {
		return "", ""
	}
	minor = parts[0] + "." + parts[1]
	packages, err := filepath.EvalSymlinks(installedPath + "/python/live-" + minor)
	if err != nil {
		return "", ""
	}
	return packages, minor
}
