package main

import (
	"archive/tar"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/tarball"
)

// Images is what programs in an image cost, beside the machine's own environment.
type Images struct {
	Add    Added   `json:"add"`   // an archive of addedSize
	First  Summary `json:"first"` // print(1) in an image that was added just before
	Print  Beside  `json:"print"` // print(1) in the machine's own environment (Native), and in an image
	Plots  Plots   `json:"plots"`
	Python string  `json:"python"` // of the image
}

// Added is one `airlock images add`.
type Added struct {
	Seconds float64 `json:"seconds"`
	Memory  float64 `json:"memory_mb"` // at most
	Size    float64 `json:"size_mb"`   // of the archive
}

// Plots is the plain plot, saturated, a second.
type Plots struct {
	Machine float64 `json:"machine"`
	Image   float64 `json:"image"`
}

// addedSize is the size of an archive like that of an image with packages.
const addedSize = 680 * megabyte // compressed with the system 500

// measureImages makes images of the CPython of Debian 13, adds them, and runs programs there.
func (b *bench) measureImages(ctx context.Context) error {
	from := filepath.Join(b.options.pythons, "trixie")
	if _, err := os.Stat(from + "/usr/bin/python3"); err != nil {
		b.results.Missing["images"] = "make pythons fetches the CPython of Debian 13"
		return nil
	}
	data, err := b.imageData()
	if err != nil {
		return err
	}
	r := &Images{}
	b.results.Images = r
	large := filepath.Join(b.scratch, "large.tar")
	if r.Add.Size, err = writeImage(large, from, filler{addedSize}); err != nil {
		return err
	}
	if r.Add.Seconds, r.Add.Memory, err = b.addImage(ctx, data, "large", large); err != nil {
		return err
	}
	fmt.Fprintf(b.progress, "   an archive of %.0f MB is added in %.1f s, with %.0f MB of memory\n", r.Add.Size,
		r.Add.Seconds,
		r.Add.Memory)
	service, err := b.serve(data, nil)
	if service, err = service.warmed(ctx, err); err != nil {
		return err
	}
	defer service.stop()
	if err := b.imageLatency(ctx, service, data, from); err != nil {
		return err
	}
	return b.imagePlots(ctx, service, data, from)
}

// imageData makes a data directory with runtimes of its own, in which images are added.
func (b *bench) imageData() (string, error) {
	data, err := os.MkdirTemp(b.scratch, "data-")
	if err != nil {
		return "", err
	}
	if err := os.Mkdir(filepath.Join(data, "runtimes"), 0o755); err != nil {
		return "", err
	}
	entries, err := os.ReadDir(b.options.runtimes)
	for _, entry := range entries {
		if entry.Name() != "images" {
			err = errors.Join(err, os.Symlink(filepath.Join(b.options.runtimes, entry.Name()),
				filepath.Join(data, "runtimes", entry.Name())))
		}
	}
	return data, errors.Join(err, giveToService(data))
}

// addImage returns how long the command took, and how much memory.
func (b *bench) addImage(ctx context.Context, data, image, archive string) (seconds, memory float64, err error) {
	cmd := exec.CommandContext(ctx, b.options.airlock, "images", "add", image, "docker-archive:"+archive)
	cmd.Env = append(os.Environ(), "AIRLOCK_DATA="+data, "AIRLOCK_CONFIG=none")
	began := time.Now()
	if out, err := cmd.CombinedOutput(); err != nil {
		return 0, 0, fmt.Errorf("images add: %w\n%s", err, out)
	}
	seconds = time.Since(began).Seconds()
	if usage, ok := cmd.ProcessState.SysUsage().(*syscall.Rusage); ok {
		memory = float64(usage.Maxrss) * 1024 / megabyte
	}
	return seconds, memory, nil
}

// imageLatency adds images one after the other, and uses each at once; then it compares the
// last with the machine's own environment.
func (b *bench) imageLatency(ctx context.Context, service *server, data, from string) error {
	r, other := b.results.Images, *b
	other.warm = service
	var first sample
	last := ""
	for i := range b.plan.starts + 2 {
		last = fmt.Sprintf("slim%d", i)
		archive := filepath.Join(b.scratch, last+".tar")
		if _, err := writeImage(archive, from, filler{int64(i + 1)}); err != nil { // each is another image
			return err
		}
		if _, _, err := b.addImage(ctx, data, last, archive); err != nil {
			return err
		}
		pause(ctx, time.Second)
		took, answer, err := other.request(ctx, runsPath, imageBody(last, "import sys; print(1, sys.version.split()[0])"), `1 3.`)
		if err != nil {
			return err
		}
		var run struct{ Stdout string }
		if err := json.Unmarshal(answer, &run); err != nil {
			return err
		}
		_, _ = fmt.Sscanf(run.Stdout, "1 %s", &r.Python)
		first = append(first, took)
	}
	r.First = first.summary()
	var err error
	r.Print, err = b.inTurn(ctx, func() (time.Duration, error) {
		took, _, err := other.request(ctx, runsPath, imageBody("", "print(1)"), `1\n`)
		return took, err
	}, func() (time.Duration, error) {
		took, _, err := other.request(ctx, runsPath, imageBody(last, "print(1)"), `1\n`)
		return took, err
	})
	fmt.Fprintf(b.progress,
		"   print(1) in an image: first %.0f ms, then %.2f ms, in the machine's own environment %.2f ms\n",
		r.First.P50, r.Print.Theirs.P50, r.Print.Native.P50)
	return err
}

func imageBody(image, code string) string {
	body := map[string]string{"language": "python", "code": code}
	if image != "" {
		body["image"] = image
	}
	text, _ := json.Marshal(body) // strings
	return string(text)
}

// imagePlots saturates the plain plot with CPython 3.13 in an image, and with the machine's.
func (b *bench) imagePlots(ctx context.Context, service *server, data, from string) error {
	packages := filepath.Join(b.scratch, "packages")
	cmd := exec.CommandContext(ctx, b.options.python, "-m", "pip", "install", "-q", "--disable-pip-version-check",
		"--python-version", "3.13", "--implementation", "cp", "--only-binary", ":all:", "--target", packages,
		"numpy==2.4.6", "pandas==3.1.1", "matplotlib==3.11.2")
	if out, err := cmd.CombinedOutput(); err != nil {
		b.results.Missing["plots in an image"] = fmt.Sprintf("pip: %v %.200s", err, out)
		return nil
	}
	archive := filepath.Join(b.scratch, "plots.tar")
	if _, err := writeImage(archive, from, tree{packages, "usr/local/lib/python3.13/dist-packages"}); err != nil {
		return err
	}
	if _, _, err := b.addImage(ctx, data, "plots", archive); err != nil {
		return err
	}
	inImage := b.plain
	inImage.name, inImage.image = "plain in an image", "plots"
	ours := airlock(nameWarm, service)
	for _, w := range []*workload{&b.plain, &inImage} { // warm
		if _, err := takeTurns(ctx, w, 5, []contestant{ours}); err != nil {
			return err
		}
	}
	spans := map[*workload]*span{&b.plain: {}, &inImage: {}}
	for range b.plan.segments + 1 {
		for _, w := range []*workload{&b.plain, &inImage} {
			pause(ctx, 10*rest)
			if err := spans[w].add(ctx, ours, w, 4, b.plan.plotLoad); err != nil {
				return err
			}
		}
	}
	rate := func(w *workload) float64 { return float64(len(spans[w].times)) / spans[w].length.Seconds() }
	plots := Plots{Machine: rate(&b.plain), Image: rate(&inImage)}
	b.results.Images.Plots = plots
	fmt.Fprintf(b.progress, "   plain plots a second: %.1f, in an image with CPython %s %.1f\n", plots.Machine,
		b.results.Images.Python, plots.Image)
	return nil
}

// content is written into an image beside the files of a system.
type content interface{ write(to *tar.Writer) error }

// filler is as many bytes as an archive should have at least, of which two thirds are noise.
type filler struct{ size int64 }

func (f filler) write(to *tar.Writer) error {
	const each = 4 * megabyte
	block := append(noise(2*each/3), make([]byte, each-2*each/3)...)
	for i := int64(0); i < f.size; i += each {
		part := block[:min(each, f.size-i)]
		header := &tar.Header{Name: fmt.Sprintf("opt/data/%d", i), Mode: 0o644, Size: int64(len(part)), Typeflag: tar.TypeReg}
		if err := to.WriteHeader(header); err != nil {
			return err
		}
		if _, err := to.Write(part); err != nil {
			return err
		}
	}
	return nil
}

// tree is a folder under another name.
type tree struct{ from, at string }

func (f tree) write(to *tar.Writer) error {
	return filepath.WalkDir(f.from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		link := ""
		if info.Mode()&fs.ModeSymlink != 0 {
			if link, err = os.Readlink(path); err != nil {
				return err
			}
		}
		header, err := tar.FileInfoHeader(info, link)
		if err != nil {
			return err
		}
		inside, err := filepath.Rel(f.from, path)
		if err != nil {
			return err
		}
		header.Name = filepath.Join(f.at, inside)
		if err := to.WriteHeader(header); err != nil || !info.Mode().IsRegular() {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		_, err = io.Copy(to, file)
		return err
	})
}

// writeImage writes an archive as docker save does, of a system and what is beside it, and
// returns its size in MB.
func writeImage(archive, system string, beside content) (float64, error) {
	var layers []v1.Layer
	for i, c := range []content{tree{system, "."}, beside} {
		path := fmt.Sprintf("%s.layer%d", archive, i)
		defer os.Remove(path)
		file, err := os.Create(path)
		if err != nil {
			return 0, err
		}
		w := tar.NewWriter(file)
		if err := errors.Join(c.write(w), w.Close(), file.Close()); err != nil {
			return 0, err
		}
		layer, err := tarball.LayerFromFile(path)
		if err != nil {
			return 0, err
		}
		layers = append(layers, layer)
	}
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		return 0, err
	}
	config, err := image.ConfigFile()
	if err != nil {
		return 0, err
	}
	changed := *config
	changed.OS, changed.Architecture, changed.Config.Env = "linux", "amd64", []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	if image, err = mutate.ConfigFile(image, &changed); err != nil {
		return 0, err
	}
	tag, err := name.NewTag("bench/" + filepath.Base(archive[:len(archive)-len(".tar")]) + ":1")
	if err != nil {
		return 0, err
	}
	if err := tarball.WriteToFile(archive, tag, image); err != nil {
		return 0, err
	}
	info, err := os.Stat(archive)
	if err != nil {
		return 0, err
	}
	return float64(info.Size()) / megabyte, nil
}

// goals are what was promised of images.
func (i *Images) goals() []Goal {
	value := func(of func() float64) *float64 {
		if i == nil {
			return nil
		}
		return new(of())
	}
	return []Goal{
		{Name: "images: warm print(1) in one against the machine's own environment", Unit: "x", Must: 1.15, Aim: 1,
			Measured: value(func() float64 { return i.Print.Theirs.P50 / i.Print.Native.P50 })},
		{Name: "images: first print(1) after `airlock images add`", Unit: "s", Must: 2, Aim: 1,
			Measured: value(func() float64 { return i.First.P50 / 1000 })},
		{Name: "images: an archive of 500 MB added", Unit: "s", Must: 20, Aim: 10,
			Measured: value(func() float64 { return i.Add.Seconds })},
		{Name: "images: and the memory for it", Unit: "MB", Must: 250, Aim: 100,
			Measured: value(func() float64 { return i.Add.Memory })},
	}
}

// imagesText says what has no goal.
func (r *Results) imagesText() string {
	if r.Images == nil {
		return "Not measured in this run.\n"
	}
	i := r.Images
	text := fmt.Sprintf("In an image with CPython %s: print(1) %.2f ms, in the machine's own environment "+
		"%.2f ms; first use %.0f "+
		"ms. An archive of %.0f MB was added in %.1f s, with at most %.0f MB of memory.\n", i.Python, i.Print.Theirs.P50,
		i.Print.Native.P50, i.First.P50, i.Add.Size, i.Add.Seconds, i.Add.Memory)
	if i.Plots.Image > 0 {
		text += fmt.Sprintf("Plain plots a second, saturated: %.1f with %s of the machine, "+
			"%.1f with CPython %s in an image.\n",
			i.Plots.Machine, r.Machine.Python, i.Plots.Image, i.Python)
	}
	return text
}
