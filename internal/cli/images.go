package cli

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/dustin/go-humanize"
	"github.com/spf13/cobra"

	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/disk"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/sandbox/image/oci"
	"github.com/airlock-run/airlock/internal/setup"
)

func (a *app) imagesCommand() *cobra.Command {
	return command.GroupOf("images", "Adds, lists and removes images, whose files programs have in place of the machine's",
		`Adds, lists and removes images of the OCI, as docker build and podman build make
them, whose files programs can have in place of this machine's own:

  airlock images add py313 python:3.13-slim
  airlock run --image py313 -c 'import sys; print(sys.version)'

They are in the data directory, and belong to whoever sets it up. A running
service sees at once what was added or removed. With a bucket they are in the
bucket, for all nodes of the cluster, which see it within five seconds.`,
		a.imagesAdd(), a.imagesList(), a.imagesShow(), a.imagesUpdate(), a.imagesRemove())
}

func (a *app) imagesAdd() *cobra.Command {
	preload, maxSize := "", ""
	cmd := &cobra.Command{
		Use:   "add NAME SOURCE",
		Short: "Fetches an image and gives it a name",
		Long: `Fetches an image and gives it a name. SOURCE is one of

  python:3.13-slim, registry.example.com/team/image:1.0   in a registry
  docker-archive:FILE[:TAG]                                as docker save writes it
  oci-archive:FILE[:TAG], oci:FOLDER[:TAG]                 in the layout of the OCI
  docker-daemon:NAME                                       of this machine's Docker

Credentials are those of docker login. The image is the one for this machine's
architecture, and stays as it is until ` + "`airlock images update`" + `, whatever its tag
means by then. Its languages are found by running them in the sandbox; nothing
of it runs outside. An interrupted command may be run again: it goes on after
the last whole layer.`,
		Args: cobra.ExactArgs(2),
		RunE: func(cmd *cobra.Command, args []string) error {
			var modules []string
			if cmd.Flags().Changed("preload") {
				modules = append([]string{}, strings.Fields(preload)...)
			}
			return a.withImages(maxSize, func(s *oci.Store) error {
				result, err := a.addImage(cmd.Context(), s, args[0], args[1], modules)
				if err != nil {
					return err
				}
				a.installLive(cmd.Context(), &result)
				return a.Print(imageReport{imageOf(result.Image), result.Changed, result.InUse, result.Warnings, "there already"})
			})
		},
	}
	cmd.Flags().StringVar(&preload, "preload", "", "`MODULES` of Python that its waiting interpreters have imported, as "+
		"\"numpy pandas\" (default: its label run.airlock.preload)")
	addMaxSize(cmd, &maxSize)
	return a.WithFlags(cmd)
}

// installLive installs what live interpreters of an image need, unless the machine has it for that
// version of Python already. Without it the image's programs run all the same.
func (a *app) installLive(ctx context.Context, result *oci.Result) {
	python, ok := result.Image.Language("python")
	_, minor, _ := strings.Cut(python.Version, ".")
	number, err := strconv.Atoi(strings.SplitN(minor, ".", 2)[0])
	if !ok || err != nil {
		return
	}
	progress := setup.Progress(quietly{})
	if !a.JSON {
		progress = setup.NewProgress(a.Streams.Err, a.PageOn(a.Streams.Err).Colour)
	}
	err = setup.Live(ctx, filepath.Dir(a.Config.Runtimes()), number, progress)
	switch {
	case errors.Is(err, setup.ErrNoLive):
		result.Warnings = append(result.Warnings,
			"there are no live sessions in it, which need CPython 3.11 to 3.14: it has "+python.Version)
	case err != nil:
		result.Warnings = append(result.Warnings, "there are no live sessions in it, until `airlock images update "+
			result.Image.Name+"` can install their packages: "+command.Explain(err).Message)
	}
}

// quietly is a Progress that shows nothing.
type quietly struct{}

func (quietly) Step(string)             {}
func (quietly) Update(int, int, string) {}
func (quietly) Done(string)             {}
func (quietly) Warn(string)             {}

func addMaxSize(cmd *cobra.Command, size *string) {
	cmd.Flags().StringVar(size, "max-size", "", "`SIZE` that its files may have together (default "+
		strings.ReplaceAll(humanize.IBytes(uint64(oci.DefaultLimits.Bytes)), " ", "")+")")
}

func (a *app) imagesList() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "list",
		Short: "Lists the images, with the languages that they have",
		Args:  cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			list, err := a.images().List()
			if err != nil {
				return a.imagesError(err)
			}
			images, rows := []shownImage{}, [][]string{{"NAME", "LANGUAGES", "SIZE", "DIGEST", "ADDED", "REFERENCE"}}
			for i := range list {
				images = append(images, imageOf(list[i]))
				rows = append(rows, []string{list[i].Name, languagesText(&list[i]), command.SizeText(list[i].Size),
					shortDigest(list[i].ID), list[i].AddedAt.Local().Format(time.DateOnly), command.Printable(list[i].Reference)})
			}
			return a.PrintTable(map[string]any{"images": images},
				"There are no images. `airlock images add NAME SOURCE` adds one.", rows)
		},
	})
}

func (a *app) imagesShow() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "show NAME",
		Short: "Shows what is known of an image",
		Args:  cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			found, ok, err := a.images().Find(args[0])
			if err != nil {
				return a.imagesError(err)
			}
			if !ok {
				return command.Fail(command.ExitFailed, "`airlock images list` lists them", "there is no image %.100q", args[0])
			}
			return a.Print(shownImage{found})
		},
	})
}

func (a *app) imagesUpdate() *cobra.Command {
	maxSize := ""
	cmd := &cobra.Command{
		Use:   "update [NAME...]",
		Short: "Fetches images again whose sources have others by now; all of them without a name",
		RunE: func(cmd *cobra.Command, names []string) error {
			return a.withImages(maxSize, func(s *oci.Store) error { return a.updateImages(cmd.Context(), s, names) })
		},
	}
	addMaxSize(cmd, &maxSize)
	return a.WithFlags(cmd)
}

// updateImages updates images one after the other, also after one has failed.
func (a *app) updateImages(ctx context.Context, s *oci.Store, names []string) error {
	if len(names) == 0 {
		all, err := a.images().List()
		if err != nil {
			return err
		}
		for i := range all {
			names = append(names, all[i].Name)
		}
	}
	report, failed := imageReports{Images: []imageReport{}}, error(nil)
	for _, name := range names {
		result, err := a.updateImage(ctx, s, name)
		if err == nil {
			a.installLive(ctx, &result)
			report.Images = append(report.Images,
				imageReport{imageOf(result.Image), result.Changed, result.InUse, result.Warnings, "unchanged"})
			continue
		}
		if failed = err; len(names) == 1 || ctx.Err() != nil {
			break
		}
		if !a.JSON {
			a.Out.Fail(a.imagesError(err))
		}
	}
	if failed != nil && len(names) > 1 && ctx.Err() == nil && !a.JSON {
		a.Out.Result(report)
		return command.Exit(command.Explain(a.imagesError(failed)).Exit)
	}
	return a.Finish(&report, failed)
}

func (a *app) imagesRemove() *cobra.Command {
	return a.WithFlags(&cobra.Command{
		Use:   "remove NAME...",
		Short: "Removes images; programs that run in one keep its files until they end",
		Args:  cobra.MinimumNArgs(1),
		RunE:  func(cmd *cobra.Command, names []string) error { return a.removeImages(cmd.Context(), names) },
	})
}

// imagesFolder is in the data directory, which outlives a container.
func (a *app) imagesFolder() string { return filepath.Join(a.Config.Data, "images") }

// withImages calls do with the images, to be changed.
func (a *app) withImages(maxSize string, do func(*oci.Store) error) error {
	limits := oci.Limits{}
	if maxSize != "" {
		bytes, err := humanize.ParseBytes(maxSize)
		if err != nil || bytes == 0 || bytes > 1<<50 {
			return command.Fail(command.ExitUsage, "give a size such as 12GiB", "%q is not a size of an image", maxSize)
		}
		limits.Bytes = int64(bytes)
	}
	if err := a.mayChangeImages(); err != nil {
		return err
	}
	room, _ := disk.Look(a.imagesFolder(), a.Config.MinFree) // writing tells of a disk that cannot be looked at
	prober := &imageProber{app: a}
	defer prober.Release()
	shown := a.Transfers(nil)
	defer shown.ClearBar()
	s := oci.New(oci.Config{Dir: a.imagesFolder(), Limits: limits, MinFree: room.Floor, Prober: prober,
		Progress: shown.Show})
	if _, err := s.Sweep(); err != nil { // what an interrupted command left
		return a.imagesError(err)
	}
	err := do(s)
	shown.ClearBar()
	return a.imagesError(err)
}

// sweepImages removes what interrupted commands and removed images have left.
func (a *app) sweepImages(context.Context) {
	_, err := oci.New(oci.Config{Dir: a.imagesFolder()}).Sweep()
	if err != nil && !errors.Is(err, fs.ErrPermission) { // another user's, who sweeps with the next command
		a.Log.Warn("what removed images have left cannot be removed", "error", err)
	}
}

// mayChangeImages refuses a user who cannot write where the images are, before anything is fetched.
func (a *app) mayChangeImages() error {
	dir := a.imagesFolder()
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	if err := syscall.Access(dir, 2); err != nil { // W_OK
		return a.imagesError(&fs.PathError{Op: "write", Path: dir, Err: err})
	}
	return nil
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// imagesError gives an error of the images an exit code and a hint.
func (a *app) imagesError(err error) error {
	_, told := errors.AsType[*engine.Error](err)
	failed, is := errors.AsType[*fs.PathError](err)
	if told || !is || !errors.Is(err, fs.ErrPermission) {
		return err
	}
	hint := "run this command as its owner, or choose another directory with --data"
	dir := failed.Path
	for !exists(dir) && dir != "/" {
		dir = filepath.Dir(dir)
	}
	if info, err := os.Stat(dir); err == nil {
		if stat, ok := info.Sys().(*syscall.Stat_t); ok {
			owner, err := user.LookupId(strconv.FormatUint(uint64(stat.Uid), 10))
			if err == nil && owner.Uid == "0" {
				hint = "run this command with sudo, or choose another directory with --data"
			}
		}
	}
	return &command.Failure{Code: command.ExitUnavailable, Word: "data_not_writable", Hint: hint,
		Err: fmt.Errorf("no permission to change the images in %s", a.imagesFolder())}
}

// shownImage is an image as reports have it.
type shownImage struct{ engine.Image }

// imageOf returns an image for a list, without the names of its modules.
func imageOf(i engine.Image) shownImage {
	i.Modules, i.Env = nil, nil
	return shownImage{i}
}

func shortDigest(id string) string {
	digest := strings.TrimPrefix(id, "sha256-")
	return digest[:min(len(digest), 12)]
}

// languagesText returns the languages of an image: "python 3.13.1, bash (sh)".
func languagesText(i *engine.Image) string {
	var list []string
	for _, l := range i.Languages {
		switch {
		case l.Version != "":
			list = append(list, l.Name+" "+l.Version)
		case filepath.Base(l.Path) != l.Name:
			list = append(list, l.Name+" ("+filepath.Base(l.Path)+")")
		default:
			list = append(list, l.Name)
		}
	}
	return command.Printable(strings.Join(list, ", "))
}

func (s shownImage) WriteText(p *command.Page) {
	const width = 10
	row := func(name, text string) {
		if text == "" {
			return
		}
		lines := command.Wrap(command.Printable(text), command.PageWidth-width)
		p.Line("%s%s", command.Pad(name, width), lines[0])
		for _, line := range lines[1:] {
			p.Line("%s%s", strings.Repeat(" ", width), line)
		}
	}
	row("name", s.Name)
	row("reference", s.Reference)
	p.Line("%s%s", command.Pad("digest", width), "sha256:"+strings.TrimPrefix(s.ID, "sha256-"))
	row("added", s.AddedAt.Local().Format(time.DateTime))
	row("size", fmt.Sprintf("%s in %s files", command.SizeText(s.Size), humanize.Comma(int64(s.Files))))
	for i, l := range s.Languages {
		row([]string{"languages", ""}[min(i, 1)], strings.Join(strings.Fields(l.Name+" "+l.Version+" "+l.Path), " "))
	}
	row("preload", strings.Join(s.Preload, " "))
	row("modules", strings.Join(s.Modules, " "))
	row("env", strings.Join(s.Env, " "))
}

// imageReport is the result of adding or updating an image.
type imageReport struct {
	Image    shownImage `json:"image"`
	Changed  bool       `json:"changed"`
	InUse    bool       `json:"in_use"` // the files of the image that had the name before
	Warnings []string   `json:"warnings,omitempty"`

	same string // what it is called if nothing changed
}

func (r imageReport) WriteText(p *command.Page) {
	for _, warning := range r.Warnings {
		p.Line("%s %s", p.Paint(command.Yellow, "warning:"), command.Printable(warning))
	}
	i := &r.Image
	what := fmt.Sprintf("%s in %s files", command.SizeText(i.Size), humanize.Comma(int64(i.Files)))
	if !r.Changed {
		what = r.same
	}
	p.Line("%s: %s, digest %s, %s", i.Name, command.Printable(i.Reference), shortDigest(i.ID), what)
	p.Line("  %s", languagesText(&i.Image))
	if len(i.Preload) > 0 {
		p.Line("  preloads %s", strings.Join(i.Preload, ", "))
	}
	if r.InUse {
		p.Line("  Programs still use the files that it had before. They go at the next command after these have ended.")
	}
}

// imageReports are the results of updating images.
type imageReports struct {
	Images []imageReport `json:"images"`
	command.Ended
}

func (r imageReports) WriteText(p *command.Page) {
	if len(r.Images) == 0 && r.Error == nil {
		p.Line("There are no images.")
	}
	for _, one := range r.Images {
		one.WriteText(p)
	}
}

type removedReport struct {
	Removed []removedImage `json:"removed"`
	command.Ended
}

type removedImage struct {
	Name  string `json:"name"`
	InUse bool   `json:"in_use"` // its files go when programs have ended
}

func (r removedReport) WriteText(p *command.Page) {
	for _, i := range r.Removed {
		if i.InUse {
			p.Line("Removed %s. Programs still use its files, which go at the next command after these have ended.", i.Name)
			continue
		}
		p.Line("Removed %s.", i.Name)
	}
}
