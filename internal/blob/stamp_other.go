//go:build !linux

package blob

import (
	"io/fs"
	"os"
	"path/filepath"
)

func stampOf(info fs.FileInfo) stamp {
	return stamp{size: info.Size(), changed: info.ModTime().UnixNano(), mode: uint32(info.Mode())}
}

func lookAt(dir *os.File, name string) (stamp, bool) {
	info, err := os.Lstat(filepath.Join(dir.Name(), name))
	if err != nil {
		return stamp{}, false
	}
	return stampOf(info), info.Mode().IsRegular()
}
