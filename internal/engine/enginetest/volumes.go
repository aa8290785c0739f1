package enginetest

import (
	"cmp"
	"context"
	"slices"

	"github.com/airlock-run/airlock/internal/engine"
)

// volume is a volume, and whether a program changed it when it was measured.
type volume struct {
	engine.Volume
	written bool
}

// AddVolume records a volume.
func (x *Index) AddVolume(ctx context.Context, v engine.Volume) error {
	if err := x.called(ctx, "AddVolume"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	for _, other := range x.volumes {
		if other.Owner == v.Owner && other.Name == v.Name {
			return engine.ErrConflict
		}
	}
	x.volumes[v.ID] = &volume{Volume: v}
	if err := x.checkQuota("AddVolume", v.Owner); err != nil {
		delete(x.volumes, v.ID)
		return err
	}
	return nil
}

// Volume returns a volume of an owner.
func (x *Index) Volume(ctx context.Context, owner engine.Owner, name string) (engine.Volume, error) {
	if err := x.called(ctx, "Volume"); err != nil {
		return engine.Volume{}, err
	}
	defer x.mu.Unlock()
	for _, v := range x.volumes {
		if v.Owner == owner && v.Name == name {
			return v.Volume, nil
		}
	}
	return engine.Volume{}, engine.ErrNotFound
}

// Volumes lists the volumes of an owner.
func (x *Index) Volumes(ctx context.Context, owner engine.Owner) ([]engine.Volume, error) {
	return x.volumesOf(ctx, "Volumes", func(v *volume) bool { return v.Owner == owner })
}

// WrittenVolumes lists the volumes that a program changed.
func (x *Index) WrittenVolumes(ctx context.Context) ([]engine.Volume, error) {
	return x.volumesOf(ctx, "WrittenVolumes", func(v *volume) bool { return v.written })
}

func (x *Index) volumesOf(ctx context.Context, op string, is func(*volume) bool) (found []engine.Volume, err error) {
	if err := x.called(ctx, op); err != nil {
		return nil, err
	}
	defer x.mu.Unlock()
	for _, v := range x.volumes {
		if is(v) {
			found = append(found, v.Volume)
		}
	}
	slices.SortFunc(found, func(a, b engine.Volume) int { return cmp.Compare(a.Name, b.Name) })
	return found, nil
}

// SetVolume records the size of a volume.
func (x *Index) SetVolume(ctx context.Context, id engine.ID, bytes int64, files int, written bool) error {
	if err := x.called(ctx, "SetVolume"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	v, ok := x.volumes[id]
	if !ok {
		return engine.ErrNotFound
	}
	v.Bytes, v.Files, v.written = bytes, files, written
	return nil
}

// DeleteVolume removes a volume.
func (x *Index) DeleteVolume(ctx context.Context, id engine.ID) error {
	if err := x.called(ctx, "DeleteVolume"); err != nil {
		return err
	}
	defer x.mu.Unlock()
	if _, ok := x.volumes[id]; !ok {
		return engine.ErrNotFound
	}
	delete(x.volumes, id)
	return nil
}
