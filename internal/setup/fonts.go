package setup

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
)

// Script is a group of scripts that the fonts of a host draw, or do not.
type Script struct {
	Name string `json:"name"` // "Chinese, Japanese, Korean"
	OK   bool   `json:"ok"`

	file string // the font's, or the beginning of its name
}

// fontsFolder is where programs in a sandbox find the host's fonts.
const fontsFolder = "/usr/share/fonts"

// Debian's packages of fonts and locales are for comfort: programs run without them.
// Symbola draws emoji where a library draws outlines only, as matplotlib does: the
// colour font has pictures.
var (
	fontPackages = []string{"fonts-dejavu", "fonts-noto-cjk", "fonts-noto-color-emoji", "fonts-noto-core",
		"fonts-symbola"}
	localePackage = "locales"
)

// FontsCure installs fonts for Scripts.
const FontsCure = "run `airlock setup` as root; beyond Debian, install the fonts Noto (with CJK), DejaVu and Symbola, " +
	"then run `airlock setup`"

// Scripts lists the scripts that people read, and whether this host has fonts for them.
func Scripts() []Script {
	scripts := []Script{
		{Name: "Latin, Greek, Cyrillic, Arabic, Hebrew", file: "DejaVuSans."},
		{Name: "Chinese, Japanese, Korean", file: "NotoSansCJK"},
		{Name: "Devanagari and others of India", file: "NotoSansDevanagari"},
		{Name: "Thai", file: "NotoSansThai"},
		{Name: "emoji", file: "Symbola"},
		{Name: "emoji in colour", file: "NotoColorEmoji"},
	}
	filepath.WalkDir(fontsFolder, func(path string, _ fs.DirEntry, _ error) error { //nolint:errcheck // it returns none
		for i := range scripts {
			scripts[i].OK = scripts[i].OK || strings.HasPrefix(filepath.Base(path), scripts[i].file)
		}
		return nil
	})
	return scripts
}

//go:embed scripts.py
var addScripts []byte

// scriptsMark is the first line of scripts.py.
var scriptsMark, _, _ = bytes.Cut(addScripts, []byte("\n"))

// fonts makes the plots of a set draw the scripts that the host has fonts for.
func (in *installer) fonts(ctx context.Context, set, work string) error {
	if _, err := os.Stat(in.drawsText(set)); err != nil {
		return nil //nolint:nilerr // there is no matplotlib
	}
	began := time.Now()
	if err := in.drawScripts(ctx, set); err != nil {
		return err
	}
	if err := in.cacheFonts(ctx, set, work); err != nil {
		return err
	}
	if err := replaceFile(in.fontsMark(), []byte(set+"\n")); err != nil {
		return err
	}
	return os.Chtimes(in.fontsMark(), began, began)
}

// fontsMark is the path of a file whose time is that of the set's list of fonts.
func (in *installer) fontsMark() string { return in.path("matplotlib", in.kind.suffixed("listed", "")) }

// fontsFit reports whether fonts would change nothing.
func (in *installer) fontsFit(set string) bool {
	source, err := os.ReadFile(in.drawsText(set))
	if err != nil {
		return true // there is no matplotlib
	}
	listed, err := os.Stat(in.fontsMark())
	if err != nil || !bytes.HasSuffix(source, addScripts) {
		return false
	}
	// A font that comes or goes changes its folder.
	fit := true
	filepath.WalkDir(fontsFolder, func(_ string, d fs.DirEntry, err error) error { //nolint:errcheck // it returns none
		if err == nil && d.IsDir() {
			info, err := d.Info()
			fit = fit && err == nil && info.ModTime().Before(listed.ModTime())
		}
		return nil
	})
	return fit
}

func (in *installer) drawsText(set string) string {
	return in.path("sets", set, "matplotlib", "text.py")
}

// drawScripts adds scripts.py to a set's matplotlib; see decision 0167. Whatever Python
// runs a program, and whatever style it sets, finds it there.
func (in *installer) drawScripts(ctx context.Context, set string) error {
	file := in.drawsText(set)
	source, err := os.ReadFile(file)
	if err != nil || bytes.HasSuffix(source, addScripts) {
		return err
	}
	source, _, _ = bytes.Cut(source, append([]byte("\n\n\n"), scriptsMark...)) // an older one
	source = append(bytes.TrimRight(source, "\n"), "\n\n\n"...)
	if err := replaceFile(file, append(source, addScripts...)); err != nil {
		return err
	}
	if out, err := pythonCommand(ctx, nil, in.python, "-m", "compileall", "-q", file).CombinedOutput(); err != nil {
		return fmt.Errorf("compiling %s: %w: %s", file, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// cacheFonts makes matplotlib's list of system fonts, which takes longer than a short
// program.
func (in *installer) cacheFonts(ctx context.Context, set, work string) error {
	fresh, place := filepath.Join(work, "fonts"), in.path("matplotlib")
	if err := makeDirectories(fresh, place); err != nil {
		return err
	}
	err := pythonCommand(ctx, []string{"MPLCONFIGDIR=" + fresh}, in.python, "-I", "-c", importScript,
		in.path("sets", set), "matplotlib.font_manager").Run()
	if _, failed := errors.AsType[*exec.ExitError](err); err != nil && !failed {
		return fmt.Errorf("making matplotlib's font cache: %w", err)
	}
	caches, err := filepath.Glob(filepath.Join(fresh, "*.json"))
	if err != nil {
		return err
	}
	if len(caches) == 0 {
		in.progress.Warn("matplotlib made no font cache: first plots are slower")
	}
	for _, cache := range caches {
		if err := os.Rename(cache, filepath.Join(place, filepath.Base(cache))); err != nil {
			return err
		}
	}
	return nil
}
