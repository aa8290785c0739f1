package main

import (
	"archive/tar"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
	"gvisor.dev/gvisor/pkg/control/client"
	"gvisor.dev/gvisor/pkg/sentry/control"
	"gvisor.dev/gvisor/pkg/state/statefile"
	"gvisor.dev/gvisor/pkg/urpc"
	"gvisor.dev/gvisor/runsc/boot"
)

// A stored live session is a tar archive with the files that it has outside of its workspace, and behind
// that gVisor's state. The archive has those of /tmp and what is written to each layer of its root, by their places in
// the folder of the sandbox. The workspace is the executor's to keep.

// A layer is a folder of files over a part of the root, and where it is mounted, both in the executor's view.
type layer struct{ upper, at string }

// tmpFolder is the place of /tmp in the folder of the sandbox.
const tmpFolder = "tmp"

// store stores the sandbox, which stays stopped unless that fails.
func (a *answerer) store(to *os.File) (err error) {
	if a.proxy != "" {
		if err := a.stopListening(); err != nil {
			return err
		}
	}
	if err := a.made.Sandbox.Pause(id); err != nil {
		return fmt.Errorf("stop the sandbox: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.goOn())
		}
	}()
	archive := tar.NewWriter(to)
	for _, l := range append(a.layers, layer{folder + "/" + tmpFolder, tmpFolder}) {
		if err := pack(archive, l); err != nil {
			return fmt.Errorf("store the files of %s: %w", l.at, err)
		}
	}
	if err := archive.Close(); err != nil {
		return err
	}
	conn, err := client.ConnectTo(a.made.Sandbox.GetControlSocketPath())
	if err != nil {
		return err
	}
	defer conn.Close()
	return conn.Call(boot.ContMgrCheckpoint, &control.SaveOpts{Metadata: statefile.CompressionLevelNone.ToMetadata(),
		AppMFExcludeCommittedZeroPages: true, Resume: true, FilePayload: urpc.FilePayload{Files: []*os.File{to}}}, nil)
}

// goOn has the sandbox go on.
func (a *answerer) goOn() error {
	err := a.made.Sandbox.Resume(id)
	if a.proxy != "" {
		err = errors.Join(err, a.listen(a.proxy))
	}
	return err
}

// Marks of an overlay in the folder with what is written to it.
const (
	opaque    = "trusted.overlay.opaque" // attribute of a folder that hides the one below
	typeGone  = tar.TypeChar             // of an entry for a file that is no longer there
	hidesMark = "AIRLOCK.hides"          // record of an entry for such a folder
)

// pack adds what a layer has to an archive.
func pack(archive *tar.Writer, l layer) error {
	return filepath.WalkDir(l.upper, func(name string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		target := ""
		switch info.Mode().Type() {
		case 0, fs.ModeDir:
		case fs.ModeSymlink:
			if target, err = os.Readlink(name); err != nil {
				return err
			}
		case fs.ModeDevice | fs.ModeCharDevice: // it is gone
		default:
			return nil
		}
		header, err := tar.FileInfoHeader(info, target)
		if err != nil {
			return err
		}
		header.Name, header.Uname, header.Gname, header.Format = l.at+strings.TrimPrefix(name, l.upper), "", "", tar.FormatPAX
		one := make([]byte, 1)
		if n, err := unix.Lgetxattr(name, opaque, one); err == nil && n == 1 && one[0] == 'y' {
			header.PAXRecords = map[string]string{hidesMark: "y"}
		}
		if err := archive.WriteHeader(header); err != nil || header.Typeflag != tar.TypeReg {
			return err
		}
		fd, err := unix.Open(name, unix.O_RDONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		f := os.NewFile(uintptr(fd), name)
		defer f.Close()
		_, err = io.CopyN(archive, f, header.Size)
		return err
	})
}

// unpack makes the files of an archive in the folder of the sandbox, for a user. It reads no further than the archive.
func unpack(from io.Reader, user int) error {
	archive := tar.NewReader(from)
	var times []*tar.Header // of folders, which are set last
	for {
		header, err := archive.Next()
		switch {
		case errors.Is(err, io.EOF):
			for _, h := range times {
				_ = os.Chtimes(folder+"/"+h.Name, h.ModTime, h.ModTime)
			}
			return nil
		case err != nil:
			return err
		}
		if err := place(archive, header, user); err != nil {
			return fmt.Errorf("%s: %w", header.Name, err)
		}
		if header.Typeflag == tar.TypeDir {
			times = append(times, header)
		}
	}
}

// place makes one file. Whoever wrote the archive is trusted: nobody else can.
func place(archive io.Reader, header *tar.Header, user int) error {
	at := folder + "/" + header.Name
	switch header.Typeflag {
	case typeGone:
		return os.RemoveAll(at)
	case tar.TypeDir:
		if header.PAXRecords[hidesMark] != "" {
			if err := os.RemoveAll(at); err != nil {
				return err
			}
		}
		if err := os.Mkdir(at, 0o700); err != nil && !errors.Is(err, fs.ErrExist) {
			return err
		}
	case tar.TypeSymlink:
		_ = os.Remove(at) // one of the root
		if err := os.Symlink(header.Linkname, at); err != nil {
			return err
		}
		return os.Lchown(at, user, user)
	case tar.TypeReg:
		_ = os.Remove(at)
		f, err := os.OpenFile(at, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if err != nil {
			return err
		}
		_, err = io.Copy(f, archive)
		if err := errors.Join(err, f.Close()); err != nil {
			return err
		}
	default:
		return nil
	}
	if err := errors.Join(os.Chown(at, user, user), os.Chmod(at, header.FileInfo().Mode())); err != nil {
		return err
	}
	return os.Chtimes(at, header.ModTime, header.ModTime)
}
