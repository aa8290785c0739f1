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
	"strings"

	"github.com/dustin/go-humanize/english"

	"github.com/airlock-run/airlock/provider"
)

// requestFiles is the tool by which a model asks for further files of the
// project. It chooses nothing: it names, and a person answers.
const requestFiles = "request_files"

// mostRequested bounds what one call may ask for.
const mostRequested = 20

// browsing is the tool, where there is a folder to ask about, the user to
// answer, and a provider that can call.
func (t *turn) browsing() (provider.Function, bool) {
	s := t.chat.record.Settings
	if t.prompt.Browse == "" || t.person == nil || s.Tool == provider.ToolNone ||
		!t.chat.backend.Provider.Caps().Functions {
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

// requested carries a call out. What is wrong with it is told to the model.
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
	var said []string
	var files []File
	for _, name := range asked.Paths {
		f, err := projectFile(t.prompt.Browse, name)
		if err != nil {
			said = append(said, fmt.Sprintf("%s: %v", name, err))
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
		said = append(said, fmt.Sprintf("%s: it could not be sent: %v", r.Source.Path, r.Err))
		t.emit(Notice{Text: fmt.Sprintf("%s was not sent: %v", r.Source.Path, r.Err), Hint: provider.HintOf(r.Err)})
	}
	for _, f := range files {
		sent := false
		for _, a := range agreed {
			sent = sent || a.Path == f.Path
		}
		if !sent {
			said = append(said, f.Path+": the user did not agree")
		}
	}
	if len(attachments) > 0 {
		said = append([]string{fmt.Sprintf("The user agreed to %s.", english.Plural(len(attachments), "file", ""))}, said...)
	}
	t.attachments = append(t.attachments, attachments...)
	return provider.FunctionReply{Text: strings.Join(said, "\n"), Files: attachments}, nil
}

// errOutside is what a model is told of a path that leads out.
var errOutside = errors.New("it is no path of a file in the project")

// projectFile opens a file of a folder by a path that a model gave. It follows
// no links: they may lead anywhere.
func projectFile(root, name string) (File, error) {
	name = strings.TrimPrefix(name, "./")
	if !fs.ValidPath(name) || name == "." || strings.Contains(name, "\\") {
		return File{}, errOutside
	}
	for part := range strings.SplitSeq(name, "/") {
		if strings.EqualFold(part, ".git") {
			return File{}, errOutside
		}
	}
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
		f, err := folder.Open(name)
		if err != nil {
			return nil, err
		}
		// A name on the way may have become a link since.
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

// plainFile looks at a file and at all that stands on the way to it.
func plainFile(folder *os.Root, name string) (fs.FileInfo, error) {
	parts := strings.Split(name, "/")
	for i := range parts {
		info, err := folder.Lstat(path.Join(parts[:i+1]...))
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil, errors.New("there is no such file")
		case err != nil:
			return nil, errors.New("it cannot be read")
		case info.Mode()&fs.ModeSymlink != 0:
			return nil, errOutside
		case i == len(parts)-1 && !info.Mode().IsRegular():
			return nil, ErrNotFile
		case i == len(parts)-1:
			return info, nil
		}
	}
	return nil, errOutside
}
