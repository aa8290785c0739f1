package image

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/language"
)

// The languages need more inside a sandbox than their packages: the configuration of
// those packages, files of package language, and the airlock program, which is the
// compiler of some. A compiler reads hostile source, so it is a process inside the
// sandbox like any other.

// languageFolders are patterns of the folders of /etc that Debian's language packages
// use. They reveal nothing about the host; the rest of /etc/php may.
var languageFolders = []string{"/etc/java-*-openjdk", "/etc/R", "/etc/php/*/cli/conf.d", "/etc/php/*/mods-available"}

// addLanguages opens these parts of the host.
func (s *Sources) addLanguages() error {
	for _, pattern := range languageFolders {
		found, err := filepath.Glob(pattern)
		if err != nil {
			return err
		}
		for _, folder := range found {
			if err := s.add(folder, strings.TrimPrefix(folder, "/")); err != nil {
				return err
			}
		}
	}
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return err
	}
	program = strings.TrimSuffix(program, " (deleted)") // if the file was replaced, its successor compiles
	if _, err := os.Stat(program); err != nil {
		return nil //nolint:nilerr // without one, the shell tells a program that needs it
	}
	fd, err := OpenTree(filepath.Dir(program), 0)
	if err != nil {
		return err
	}
	s.toolchain = &source{host: filepath.Base(program), inside: strings.TrimPrefix(language.Toolchain, "/"), fd: fd}
	return nil
}

// placeLanguages puts the support files and the airlock program into the image. It
// exposes nothing else of the program's folder, not even its name.
func (s *Sources) placeLanguages(root *os.Root, at string) error {
	for name, content := range language.SupportFiles() {
		if err := root.WriteFile(filepath.Join(strings.TrimPrefix(language.Support, "/"), name), content, 0o644); err != nil {
			return err
		}
	}
	if s.toolchain == nil {
		return nil
	}
	if err := os.MkdirAll(toolchainFolder, 0o755); err != nil {
		return err
	}
	if err := s.overlay(*s.toolchain, toolchainFolder); err != nil {
		return fmt.Errorf("show our own program: %w", err)
	}
	defer unix.Unmount(toolchainFolder, unix.MNT_DETACH) //nolint:errcheck // it goes with the executor's world
	fd, err := OpenTree(filepath.Join(toolchainFolder, s.toolchain.host), 0)
	if err != nil {
		return err
	}
	return s.bindFile(root, at, source{host: "our own program", inside: s.toolchain.inside, fd: fd})
}

// toolchainFolder is used while the executor's mount tree is created.
const toolchainFolder = "toolchain"

// bindFile binds a file, read-only.
func (s *Sources) bindFile(root *os.Root, at string, m source) error {
	if err := root.WriteFile(m.inside, nil, 0o644); err != nil {
		unix.Close(m.fd)
		return err
	}
	attributes := &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(m.fd, "", unix.AT_EMPTY_PATH, attributes); err != nil {
		unix.Close(m.fd)
		return fmt.Errorf("make %s read-only: %w", m.host, err)
	}
	return attach(m.fd, filepath.Join(at, m.inside))
}
