package oci

import (
	"errors"
	"syscall"

	"github.com/dustin/go-humanize"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/airlock-run/airlock/internal/engine"
)

// room refuses to write n more bytes if the disk would have less than MinFree then.
func (s *Store) room(n int64) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(s.Dir, &stat); err != nil {
		return nil //nolint:nilerr // writing tells
	}
	if free := int64(stat.Bavail)*stat.Bsize - s.MinFree; free < n {
		return refuse(engine.ErrFull, "make room there; nothing of the image was kept but whole layers of a registry, "+
			"for a day",
			"the disk that holds %s is full", s.Dir)
	}
	return nil
}

// expansion is to how much a compressed layer expands, at a guess.
const expansion = 2

// checkRoom refuses an image that most likely does not fit on the disk.
func (s *Store) checkRoom(o *opened) error {
	var need int64
	for _, l := range o.layers {
		if need += l.size; l.digest == (v1.Hash{}) { // of docker save, which does not compress
			continue
		}
		need += (expansion - 1) * l.size
		if o.remote && !exists(s.layerPath(l.digest)) {
			need += l.size
		}
	}
	if s.room(need) == nil {
		return nil
	}
	return refuse(engine.ErrFull, "make room there",
		"the image needs about %s while it is added, which the disk that holds %s does not have", sizeText(need), s.Dir)
}

// kindOr returns the kind of an error of writing to a full disk, else another one.
func kindOr(err error, other engine.Kind) engine.Kind {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return engine.ErrFull
	}
	return other
}

func sizeText(n int64) string { return humanize.IBytes(uint64(max(n, 0))) }
