package linux

import (
	"path"

	"golang.org/x/sys/unix"

	"github.com/airlock-run/airlock/internal/sandbox/image"
	"github.com/airlock-run/airlock/internal/sandbox/linux/spawn"
)

// layers mounts the layers over a live session's root, with what stays as it is there. It
// returns where: at the place of the workspace in the root itself, or that if there is no layer.
func (s *sandbox) layers(root string) (at string, steps []spawn.Step) {
	if len(s.Layers) == 0 {
		return root, nil
	}
	at = root + image.RootWorkspace
	of := s.Environment.Root
	for i, base := range of.Bases {
		steps = append(steps, moveMount("mount a layer over "+base.At, s.Layers[i], path.Join(at, base.At)))
		if i > 0 {
			continue
		}
		for _, kept := range of.Kept {
			steps = append(steps, mount("keep "+kept, root+kept, at+kept, "", unix.MS_BIND|unix.MS_REC, ""))
		}
	}
	return at, steps
}
