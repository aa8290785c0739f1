package oci

import (
	"archive/tar"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Images often have a base in common. A file that an image of this machine has already, with the
// same path, bytes, mode and time, becomes a hard link to that one: it needs no room on the disk,
// and memory only once while programs of both images have it mapped. Reading the other file to
// compare it takes less time than writing a new one.

// mostTwins is how many images a file is looked for in.
const mostTwins = 4

// openTwins opens the files of other images, which are locked until they are closed.
func (s *Store) openTwins() (twins []*os.Root, closeAll func()) {
	var holds []*os.File
	images, _ := s.List() // without them every file is written
	seen := map[string]bool{}
	for i := range images {
		id := images[i].ID
		if seen[id] || len(twins) == mostTwins {
			continue
		}
		seen[id] = true
		hold, err := s.hold(id)
		if err != nil || hold == nil {
			continue
		}
		holds = append(holds, hold)
		if root, err := os.OpenRoot(s.path(id, rootName)); err == nil {
			twins = append(twins, root)
		}
	}
	return twins, func() {
		for _, root := range twins {
			root.Close()
		}
		for _, hold := range holds {
			hold.Close()
		}
	}
}

// twin opens the file of another image that is most likely the same; nil if there is none.
func (t *tree) twin(real string, header *tar.Header) *os.File {
	if header.Size == 0 {
		return nil
	}
	for _, root := range t.twins {
		info, err := root.Lstat(real)
		if err != nil || info.Size() != header.Size || info.Mode() != permissions(header) ||
			!info.ModTime().Equal(header.ModTime) {
			continue
		}
		if file, err := root.Open(real); err == nil {
			return file
		}
	}
	return nil
}

// linkTwin makes a link to another image's file if the content is the same, and returns nil. Else it
// returns a reader of the whole content, which reads from the other file what is the same.
func (t *tree) linkTwin(in *folder, base string, twin *os.File, content io.Reader) (whole io.Reader, err error) {
	half := len(t.buf) / 2
	for same := int64(0); ; {
		n, err := io.ReadFull(content, t.buf[:half])
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return nil, err
		}
		if n == 0 {
			break
		}
		m, _ := io.ReadFull(twin, t.buf[half:half+n]) // a shorter one differs
		if !bytes.Equal(t.buf[:n], t.buf[half:half+m]) {
			read := bytes.NewReader(bytes.Clone(t.buf[:n]))
			return io.MultiReader(io.NewSectionReader(twin, 0, same), read, content), nil
		}
		same += int64(n)
		t.bytes += int64(n)
	}
	dir, err := in.at.Open(".")
	if err != nil {
		return nil, err
	}
	defer dir.Close()
	err = t.replace(in, base, func() error {
		return unix.Linkat(unix.AT_FDCWD, fmt.Sprintf("/proc/self/fd/%d", twin.Fd()), int(dir.Fd()), base,
			unix.AT_SYMLINK_FOLLOW)
	})
	for _, cannot := range []error{unix.EMLINK, unix.EPERM, unix.EXDEV, unix.ENOENT} {
		if errors.Is(err, cannot) {
			_, err = twin.Seek(0, io.SeekStart)
			return twin, err
		}
	}
	return nil, err
}
