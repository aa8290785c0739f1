package main

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureImages makes images of the CPython of Debian 13, adds them, and runs programs there.
func (b *bench) measureImages(ctx context.Context) error {
	system := filepath.Join(b.pythons, "trixie")
	if _, err := os.Stat(system + "/usr/bin/python3"); err != nil {
		b.missing("images", errors.New("make pythons fetches the CPython of Debian 13"))
		return nil
	}
	runtimes := filepath.Join(b.scratch, "runtimes") // images are added there
	entries, err := os.ReadDir(b.runtimes)
	err = errors.Join(err, os.Mkdir(runtimes, 0o755))
	for _, entry := range entries {
		if entry.Name() != "images" {
			err = errors.Join(err, os.Symlink(filepath.Join(b.runtimes, entry.Name()), filepath.Join(runtimes, entry.Name())))
		}
	}
	data, also := lab.NewData(b.scratch, runtimes)
	if err = errors.Join(err, also); err != nil {
		return err
	}
	took, memory, err := b.addImage(ctx, data, system, "large", 680*lab.Megabyte)
	if err != nil {
		return err
	}
	b.row("an image of 500 MB, compressed, is added", "airlock images add", lab.Sample{took})
	b.goal("images: an archive of 500 MB added", "s", 20, 10, took.Seconds())
	b.goal("images: the memory for it", "MB", 250, 100, memory)
	s, err := b.serve(ctx, data, nil)
	if s, err = warmed(ctx, s, err); err != nil {
		return err
	}
	defer func() { _ = s.Stop() }() // nothing is measured any more
	inside := printing
	var first lab.Sample
	c := newCaller(s.URL)
	defer c.close()
	for i := range b.full(5, 2) {
		inside.image = fmt.Sprint("slim", i)
		if _, _, err := b.addImage(ctx, data, system, inside.image, int64(i+1)); err != nil { // each is another image
			return err
		}
		lab.Pause(ctx, time.Second)
		took, err := c.do(ctx, "POST", runsPath,
			map[string]string{"language": "python", "code": "print(1)", "image": inside.image}, `"stdout":"1\n"`)
		if err != nil {
			return err
		}
		first = append(first, took)
	}
	b.row("first print(1) after an image was added", "airlock", first)
	b.goal("images: first print(1) after airlock images add", "s", 2, 1, first.P50()/1000)
	medians, err := b.compare(ctx, "print(1)", b.full(150, 60), airlock("in the machine's own environment", s, &printing),
		airlock("in an image", s, &inside))
	b.goal("images: print(1) in one against the machine's own environment", "x", 1.15, 1, medians[1]/medians[0])
	return err
}

// addImage makes an image of a system and some noise, and returns how long its addition took, and how much memory.
func (b *bench) addImage(ctx context.Context, data, system, image string, noise int64) (time.Duration, float64, error) {
	archive := filepath.Join(b.scratch, image+".tar")
	defer os.Remove(archive)
	if err := writeImage(archive, system, noise); err != nil {
		return 0, 0, err
	}
	cmd := exec.CommandContext(ctx, b.airlock, "images", "add", image, "docker-archive:"+archive)
	cmd.Env = append(os.Environ(), "AIRLOCK_DATA="+data, "AIRLOCK_CONFIG=none")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	if err := cmd.Start(); err != nil {
		return 0, 0, err
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	memory := 0.0 // what the kernel reports at its end has ours in it, of which it was forked
	for {
		select {
		case err := <-ended:
			if err != nil {
				err = fmt.Errorf("images add: %w\n%s", err, &said)
			}
			return time.Since(began), memory, err
		case <-time.After(10 * time.Millisecond):
			memory = max(memory, lab.Status(cmd.Process.Pid, "status", "VmHWM")*1024/lab.Megabyte)
		}
	}
}

// writeImage writes an archive as docker save does, of a system and as much noise beside it.
func writeImage(archive, system string, noise int64) error {
	layer := archive + ".layer"
	defer os.Remove(layer)
	file, err := os.Create(layer)
	if err != nil {
		return err
	}
	w := tar.NewWriter(file)
	err = w.WriteHeader(&tar.Header{Name: "opt/noise", Mode: 0o644, Size: noise, Typeflag: tar.TypeReg})
	random, also := os.Open("/dev/urandom")
	if err = errors.Join(err, also); err != nil {
		return err
	}
	defer random.Close()
	_, err = io.CopyN(w, random, noise)
	if err = errors.Join(err, addTree(w, system), w.Close(), file.Close()); err != nil {
		return err
	}
	content, err := tarball.LayerFromFile(layer)
	if err != nil {
		return err
	}
	image, err := mutate.AppendLayers(empty.Image, content)
	if err != nil {
		return err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return err
	}
	changed := *config
	changed.OS, changed.Architecture, changed.Config.Env = "linux", "amd64", []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	if image, err = mutate.ConfigFile(image, &changed); err != nil {
		return err
	}
	tag, err := name.NewTag("bench/image:1")
	if err != nil {
		return err
	}
	return tarball.WriteToFile(archive, tag, image)
}

// addTree adds the files of a folder to an archive.
func addTree(w *tar.Writer, root string) error {
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == root {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link, _ := os.Readlink(path) // of others it is nothing
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		if header.Name, err = filepath.Rel(root, path); err != nil {
			return err
		}
		if err := w.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(w, file)
		return err
	})
}
