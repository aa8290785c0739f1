package cli

import (
	"context"
	"errors"
	"io"
	"path/filepath"
	"slices"

	"github.com/airlock-run/airlock/internal/bucket"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
)

// With a bucket the images are in it, for all nodes of the cluster. A command writes the files
// of an image here, finds its languages, and sends them to the bucket. Nodes that run programs
// fetch them from there, into a cache in the data directory.

// sharedImages returns the images in the bucket; nil: there is no bucket.
func (a *app) sharedImages() *bucket.Images {
	if a.shared == nil && a.Config.Blobs != "" {
		a.shared = bucket.NewImages(a.Config.Blobs)
	}
	return a.shared
}

// addImage adds an image to this machine or to the bucket.
func (a *app) addImage(ctx context.Context, s *oci.Store, name, source string, modules []string) (oci.Result, error) {
	shared := a.sharedImages()
	if shared == nil {
		return s.Add(ctx, name, source, modules)
	}
	if err := oci.CheckName(name); err != nil {
		return oci.Result{}, err
	}
	reference, err := oci.CanonicalReference(source)
	if err != nil {
		return oci.Result{}, err
	}
	taken := func(format string, args ...any) error {
		return command.Fail(command.ExitFailed, "choose another name, or `airlock images remove "+name+"` first", format, args...)
	}
	switch has, _, err := shared.Get(ctx, name); {
	case engine.KindOf(err) == engine.ErrNotFound:
	case err != nil:
		return oci.Result{}, err
	case has.Reference != reference:
		return oci.Result{}, taken("there is an image %s already, of %s", name, has.Reference)
	case modules != nil && !slices.Equal(modules, has.Preload):
		return oci.Result{}, taken("the image %s preloads other modules", name)
	default:
		return oci.Result{Image: has}, nil
	}
	result, err := s.Add(ctx, name, source, modules)
	if err != nil {
		return oci.Result{}, err
	}
	return a.shareImage(ctx, s, result, modules)
}

// shareImage sends an image of this machine to the bucket, and removes it here. It stays if that
// fails, so that the next try is quick.
func (a *app) shareImage(ctx context.Context, s *oci.Store, result oci.Result, modules []string) (oci.Result, error) {
	i := result.Image
	err := a.shared.Put(ctx, i, modules, func(to io.Writer) error {
		sent := int64(0)
		return s.Export(ctx, i.ID, writerFunc(func(p []byte) (int, error) {
			n, err := to.Write(p)
			sent += int64(n)
			s.Progress("upload", i.Name, sent, 0)
			return n, err
		}))
	})
	if err != nil {
		return oci.Result{}, err
	}
	_, err = s.Remove(i.Name)
	result.Changed, result.InUse = true, false
	return result, errors.Join(err, a.shared.Sweep(ctx))
}

type writerFunc func(p []byte) (int, error)

func (f writerFunc) Write(p []byte) (int, error) { return f(p) }

// updateImage fetches an image again if its source has another one by now.
func (a *app) updateImage(ctx context.Context, s *oci.Store, name string) (oci.Result, error) {
	shared := a.sharedImages()
	if shared == nil {
		return s.Update(ctx, name)
	}
	has, modules, err := shared.Get(ctx, name)
	if err != nil {
		return oci.Result{}, noSuchImage(name, err)
	}
	id, err := s.Resolve(ctx, has.Reference)
	if err != nil || id == has.ID {
		return oci.Result{Image: has}, err
	}
	result, err := s.Add(ctx, name, has.Reference, modules)
	if err == nil && result.Image.ID != id { // an earlier command has failed to send another one
		result, err = s.Update(ctx, name)
	}
	if err != nil {
		return oci.Result{}, err
	}
	return a.shareImage(ctx, s, result, modules)
}

func noSuchImage(name string, err error) error {
	if engine.KindOf(err) != engine.ErrNotFound {
		return err
	}
	return command.Fail(command.ExitFailed, "`airlock images list` lists them", "there is no image %.100s", name)
}

// removeImages removes images of this machine or of the bucket.
func (a *app) removeImages(ctx context.Context, names []string) error {
	report := removedReport{Removed: []removedImage{}}
	if shared := a.sharedImages(); shared != nil {
		for _, name := range names {
			if err := shared.Remove(ctx, name); err != nil {
				return a.Finish(&report, noSuchImage(name, err))
			}
			report.Removed = append(report.Removed, removedImage{name, false})
		}
		return a.Finish(&report, nil)
	}
	return a.withImages("", func(s *oci.Store) error {
		for _, name := range names {
			inUse, err := s.Remove(name)
			if err != nil {
				return a.Finish(&report, a.imagesError(err))
			}
			report.Removed = append(report.Removed, removedImage{name, inUse})
		}
		return a.Finish(&report, nil)
	})
}

// imageCacheFolder returns the folder of the images that this node fetches.
func (a *app) imageCacheFolder() string { return filepath.Join(a.Config.Data, "image-cache") }

func (a *app) openImageCache() (*oci.Cache, error) {
	room, _ := disk.Look(a.imageCacheFolder(), a.Config.MinFree) // writing tells of a disk that cannot be looked at
	cache, err := oci.OpenCache(oci.CacheConfig{Dir: a.imageCacheFolder(), Bytes: a.Config.ImageCache, MinFree: room.Floor,
		Log: a.Log})
	if err != nil {
		return nil, dataError(a.Config.Data, err)
	}
	return cache, nil
}

// fetching is a sandbox of this process whose programs have images of the bucket.
type fetching struct {
	engine.Sandbox
	images *bucket.Images
	cache  *oci.Cache
	fault  error // why there is no cache
}

// fetchImages opens the cache of images for a sandbox of this process, before its executor starts,
// which sees the folder. It returns nil if there is no bucket.
func (a *app) fetchImages() *fetching {
	shared := a.sharedImages()
	if shared == nil {
		return nil
	}
	f := &fetching{images: shared}
	f.cache, f.fault = a.openImageCache()
	return f
}

// around returns a sandbox that fetches the images of its programs.
func (f *fetching) around(sandbox engine.Sandbox) engine.Sandbox {
	if f == nil {
		return sandbox
	}
	f.Sandbox = sandbox
	return f
}

// Run implements engine.Sandbox.
func (f *fetching) Run(ctx context.Context, spec *engine.Spec, host engine.Host) (*engine.Outcome, error) {
	if spec.Image == nil || spec.Image.Archive == nil {
		return f.Sandbox.Run(ctx, spec, host)
	}
	if f.fault != nil {
		return nil, f.fault
	}
	release, err := f.cache.Use(ctx, spec.Image.ID, func(ctx context.Context) (*engine.Image, io.ReadCloser, error) {
		archive, err := f.images.Open(ctx, spec.Image.ID)
		return spec.Image, archive, err
	})
	if err != nil {
		return nil, err
	}
	defer release()
	if ids, known := f.images.IDs(); known {
		f.cache.Keep(ids)
	}
	return f.Sandbox.Run(ctx, spec, host)
}

// Close implements engine.Sandbox.
func (f *fetching) Close() error {
	err := f.Sandbox.Close()
	if f.cache != nil {
		err = errors.Join(err, f.cache.Close())
	}
	return err
}
