package conversation

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/internal/regular"
)

// requestFiles is the tool with which a model requests further files of the project. The
// user decides about each.
const requestFiles = "request_files"

// mostRequested bounds the files of one call.
const mostRequested = 20

// browsing returns the tool, if there is a folder, a user to answer, and a provider with
// function calls.
func (t *turn) browsing() (provider.Function, bool) {
	s := t.chat.record.Settings
	if t.prompt.Browse == "" || t.prompter == nil || s.Tool == provider.ToolNone ||
		!t.chat.Provider.Caps().Functions {
		return provider.Function{}, false
	}
	return provider.Function{
		Name: requestFiles,
		Description: "Asks the user for further files of the project that you need. The user sees the paths and decides; " +
			"files that they agree to are put beside your code. " +
			"Name files by their paths in the project, with slashes.",
		Parameters: json.RawMessage(
			`{"type":"object","properties":{"paths":{"type":"array","items":{"type":"string"},"minItems":1,"maxItems":20},"reason":{"type":"string","description":"why you need them, in one sentence"}},"required":["paths","reason"],"additionalProperties":false}`),
		Call: t.requested,
	}, true
}

// requested carries out a call. The model gets a message about an invalid call.
func (t *turn) requested(ctx context.Context, arguments json.RawMessage) (provider.FunctionReply, error) {
	var asked struct {
		Paths  []string `json:"paths"`
		Reason string   `json:"reason"`
	}
	if json.Unmarshal(arguments, &asked) != nil || len(asked.Paths) == 0 {
		return provider.FunctionReply{Text: `The arguments must be {"paths": ["a/b.csv"], "reason": "..."}.`}, nil //nolint:nilerr // the model is told, and calls again
	}
	if len(asked.Paths) > mostRequested {
		return provider.FunctionReply{Text: fmt.Sprintf("At most %d files can be asked for at once.", mostRequested)}, nil
	}
	var report []string
	var files []File
	for _, name := range asked.Paths {
		f, err := projectFile(t.prompt.Browse, name)
		if err != nil {
			report = append(report, fmt.Sprintf("%s: %v", name, err))
			continue
		}
		f.asked = true
		files = append(files, f)
	}
	agreed, err := t.consent(ctx, AskMore, files, asked.Reason)
	switch {
	case errors.Is(err, ErrApproval):
		return provider.FunctionReply{Text: "There is nobody to ask: go on without these files."}, nil
	case err != nil:
		return provider.FunctionReply{}, err
	}
	attachments, refused, err := t.stage(ctx, agreed)
	if err != nil {
		return provider.FunctionReply{}, err
	}
	for _, r := range refused {
		report = append(report, fmt.Sprintf("%s: it could not be sent: %v", r.Source.Path, r.Err))
		t.emit(Notice{Text: fmt.Sprintf("%s was not sent: %v", r.Source.Path, r.Err), Hint: provider.HintOf(r.Err)})
	}
	for _, f := range files {
		sent := false
		for _, a := range agreed {
			sent = sent || a.Path == f.Path
		}
		if !sent {
			report = append(report, f.Path+": the user did not agree")
		}
	}
	if len(attachments) > 0 {
		agreed := fmt.Sprintf("The user agreed to %s.", english.Plural(len(attachments), "file", ""))
		report = append([]string{agreed}, report...)
	}
	t.attachments = append(t.attachments, attachments...)
	return provider.FunctionReply{Text: strings.Join(report, "\n"), Files: attachments}, nil
}

// errOutside tells a model that a path leads out of the project.
var errOutside = errors.New("it is no path of a file in the project")

// projectFile opens a file of a folder by a path from a model. It follows no links, which
// may lead outside.
func projectFile(root, name string) (File, error) {
	name = strings.TrimPrefix(name, "./")
	open := func() (io.ReadSeekCloser, error) {
		folder, err := os.OpenRoot(root)
		if err != nil {
			return nil, err
		}
		defer folder.Close()
		before, err := plainFile(folder, name)
		if err != nil {
			return nil, err
		}
		f, err := regular.OpenIn(folder, name)
		if err != nil {
			return nil, err
		}
		// A part of the path may have become a link since.
		if after, err := f.Stat(); err != nil || !os.SameFile(before, after) {
			f.Close()
			return nil, errOutside
		}
		return f, nil
	}
	folder, err := os.OpenRoot(root)
	if err != nil {
		return File{}, errors.New("the project's folder cannot be read")
	}
	defer folder.Close()
	info, err := plainFile(folder, name)
	if err != nil {
		return File{}, err
	}
	f, err := newFile(name, path.Base(name), info, open)
	f.Local = filepath.Join(root, filepath.FromSlash(name))
	return f, err
}

// plainFile returns the file at a path in a project. No link may lead to it.
func plainFile(folder *os.Root, name string) (fs.FileInfo, error) {
	info, err := plainEntry(folder, name)
	if err == nil && !info.Mode().IsRegular() {
		err = ErrNotFile
	}
	return info, err
}

// plainEntry returns the entry at a path in a project. No part of the path may be a link,
// or belong to Git.
func plainEntry(folder *os.Root, name string) (info fs.FileInfo, err error) {
	if !changes.ProjectPath(name) {
		return nil, errOutside
	}
	parts := strings.Split(name, "/")
	for i := range parts {
		info, err = folder.Lstat(path.Join(parts[:i+1]...))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, errors.New("there is no such file")
		case err != nil:
			return nil, errors.New("it cannot be read")
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, errOutside
		}
	}
	return info, nil
}

// A FolderEntry is a file or a folder in a project's folder.
type FolderEntry struct {
	Name   string
	Path   string // in the project, with slashes
	Folder bool
	Size   int64
}

// mostEntries bounds the listing of one folder.
const mostEntries = 1000

// ListFolder lists one folder of a project, folders first. It leaves out links and special
// files, since they cannot be inputs. more reports whether the folder has more entries
// than are listed.
func ListFolder(root, name string) (list []FolderEntry, more bool, err error) {
	folder, err := os.OpenRoot(root)
	if err != nil {
		return nil, false, errors.New("the project's folder cannot be read")
	}
	defer folder.Close()
	if name != "." {
		if info, err := plainEntry(folder, name); err != nil || !info.IsDir() {
			return nil, false, errOutside
		}
	}
	dir, err := folder.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0) // no pipe that has taken its name
	if err != nil {
		return nil, false, errOutside
	}
	defer dir.Close()
	entries, err := dir.ReadDir(mostEntries + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, false, errors.New("it cannot be read")
	}
	if more = len(entries) > mostEntries; more {
		entries = entries[:mostEntries]
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !info.IsDir() && !info.Mode().IsRegular() || strings.EqualFold(e.Name(), ".git") {
			continue
		}
		list = append(list, FolderEntry{Name: e.Name(), Path: path.Join(name, e.Name()), Folder: info.IsDir(),
			Size: info.Size()})
	}
	slices.SortFunc(list, func(a, b FolderEntry) int {
		if a.Folder == b.Folder {
			return strings.Compare(a.Name, b.Name)
		} else if a.Folder {
			return -1
		}
		return 1
	})
	return list, more, nil
}

// OpenProjectFile returns a file of a project's folder as an input, by its path there. It
// follows no links.
func OpenProjectFile(root, name string) (File, error) {
	f, err := projectFile(root, name)
	if err != nil {
		return File{}, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}
