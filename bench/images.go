package main

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/airlock-run/airlock/bench/lab"
)

// measureImages makes images of the CPython of Debian 13, adds them, and runs programs there.
func (b *bench) measureImages(ctx context.Context) {
	system := filepath.Join(b.pythons, "trixie")
	if _, err := os.Stat(system + "/usr/bin/python3"); err != nil {
		b.Missing("images", errors.New("make pythons fetches the CPython of Debian 13"))
		return
	}
	runtimes := filepath.Join(b.scratch, "runtimes") // images are added there
	lab.Check(os.Mkdir(runtimes, 0o755))
	for _, entry := range lab.Must(os.ReadDir(b.runtimes)) {
		if entry.Name() != "images" {
			lab.Check(os.Symlink(filepath.Join(b.runtimes, entry.Name()), filepath.Join(runtimes, entry.Name())))
		}
	}
	data := lab.Must(lab.NewData(b.scratch, runtimes))
	took, memory := b.addImage(ctx, data, system, "large", 680*lab.Megabyte)
	b.Row("an image of 500 MB, compressed, is added", "airlock images add", lab.Sample{took})
	b.Goal("images: an archive of 500 MB added", "s", 20, 10, took.Seconds())
	b.Goal("images: the memory for it", "MB", 250, 100, memory)
	s := warmed(ctx, b.serve(ctx, data, nil))
	inside := printing
	var first lab.Sample
	c := b.caller(s)
	for i := range b.full(5, 2) {
		inside.image = fmt.Sprint("slim", i)
		b.addImage(ctx, data, system, inside.image, int64(i+1)) // each is another image
		lab.Pause(ctx, time.Second)
		first = append(first, lab.Must(c.do(ctx, "POST", runsPath,
			map[string]string{"language": "python", "code": "print(1)", "image": inside.image}, `"stdout":"1\n"`)))
	}
	b.Row("first print(1) after an image was added", "airlock", first)
	b.Goal("images: first print(1) after airlock images add", "s", 2, 1, first.P50()/1000)
	medians := b.compare(ctx, "print(1)", b.full(150, 60), airlock("in the machine's own environment", s, &printing),
		airlock("in an image", s, &inside))
	b.Goal("images: print(1) in one against the machine's own environment", "x", 1.15, 1, medians[1]/medians[0])
}

// addImage makes an image of a system and some noise, and returns how long its addition took, and how much memory.
func (b *bench) addImage(ctx context.Context, data, system, image string, noise int64) (time.Duration, float64) {
	archive := filepath.Join(b.scratch, image+".tar")
	defer os.Remove(archive)
	b.writeImage(ctx, archive, system, noise)
	cmd := exec.CommandContext(ctx, b.airlock, "images", "add", image, "docker-archive:"+archive)
	cmd.Env = append(os.Environ(), "AIRLOCK_DATA="+data, "AIRLOCK_CONFIG=none")
	var said bytes.Buffer
	cmd.Stdout, cmd.Stderr = &said, &said
	began := time.Now()
	lab.Check(cmd.Start())
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	memory := 0.0 // what the kernel reports at its end has ours in it, of which it was forked
	for {
		select {
		case err := <-ended:
			if err != nil {
				lab.Fail("images add: %w\n%s", err, &said)
			}
			return time.Since(began), memory
		case <-time.After(10 * time.Millisecond):
			memory = max(memory, lab.Status(cmd.Process.Pid, "status", "VmHWM")*1024/lab.Megabyte)
		}
	}
}

// writeImage writes an archive as docker save does, of a system and as much noise beside it.
func (b *bench) writeImage(ctx context.Context, archive, system string, noise int64) {
	dir := lab.Must(os.MkdirTemp(b.scratch, "image-"))
	defer os.RemoveAll(dir)
	random := lab.Must(os.Open("/dev/urandom"))
	defer random.Close()
	file := lab.Must(os.Create(filepath.Join(dir, "noise")))
	lab.Must(io.CopyN(file, random, noise))
	lab.Check(file.Close())
	do := func(name string, args ...string) {
		if out, err := exec.CommandContext(ctx, name, args...).CombinedOutput(); err != nil {
			lab.Fail("%s: %w: %s", name, err, out)
		}
	}
	layer := filepath.Join(dir, "layer.tar")
	do("tar", "-cf", layer, "-C", system, ".", "-C", dir, "noise")
	packed, digest := lab.Must(os.Open(layer)), sha256.New()
	defer packed.Close()
	lab.Must(io.Copy(digest, packed))
	do("gzip", "-1", layer)
	for name, content := range map[string]any{
		"config.json": map[string]any{"os": "linux", "architecture": "amd64",
			"config": map[string]any{"Env": []string{"PATH=/usr/local/bin:/usr/bin:/bin"}},
			"rootfs": map[string]any{"type": "layers", "diff_ids": []string{fmt.Sprintf("sha256:%x", digest.Sum(nil))}}},
		"manifest.json": []any{map[string]any{"Config": "config.json", "RepoTags": []string{"bench/image:1"},
			"Layers": []string{"layer.tar.gz"}}},
	} {
		lab.Check(os.WriteFile(filepath.Join(dir, name), lab.Must(json.Marshal(content)), 0o644))
	}
	do("tar", "-cf", archive, "-C", dir, "manifest.json", "config.json", "layer.tar.gz")
}
