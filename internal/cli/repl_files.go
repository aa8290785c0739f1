package cli

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"image"
	_ "image/jpeg" // for their sizes
	_ "image/png"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/dustin/go-humanize"

	"github.com/airlock-run/airlock/client"
)

// replFiles saves what cells make: pictures under names that it gives, files under
// their own.
type replFiles struct {
	*liveSession
	folder string // empty: not known yet, or there is none
	asked  bool
	root   *os.Root
	saver  *saver

	count   int               // pictures so far
	shown   map[string]string // names of pictures that can be updated, by display id
	own     map[string]bool   // names that were saved here: what is newer takes their place
	content map[string][]byte // of pictures that are being saved, by the id that they have here
}

func newReplFiles(s *liveSession) *replFiles {
	return &replFiles{liveSession: s, folder: s.options.folder, shown: map[string]string{}, own: map[string]bool{}}
}

func (f *replFiles) close() {
	if f.root != nil {
		f.root.Close()
	}
}

// save puts the pictures and files of a cell into the folder, and says where.
func (f *replFiles) save(ctx context.Context, cell *client.Cell, pictures []picture) error {
	if len(pictures) == 0 && len(cell.Files) == 0 {
		return nil
	}
	outputs := f.name(pictures)
	outputs = append(outputs, outputsOf(cell.Files)...)
	if err := f.open(ctx, outputs); err != nil {
		return err
	}
	if f.saver == nil {
		for _, o := range outputs {
			f.say("not saved (-o DIR saves it): %s  %s%s", printableName(o.Path), humanize.IBytes(uint64(max(0, o.Size))),
				f.look(o))
		}
		return nil
	}
	f.saver.check(outputs)
	for _, o := range outputs {
		saved, err := f.saver.save(ctx, o)
		if err != nil {
			if ctx.Err() != nil {
				return interrupted(ctx, err)
			}
			f.out.fail(err)
			continue
		}
		switch saved.State {
		case saveDone:
			f.own[saved.As] = true
			f.say("saved %s%s", printableName(filepath.Join(f.folder, saved.As)), f.look(o))
		case saveHeld:
			f.say("not saved: %s: %s; --allow %s saves it", printableName(o.Path), printable(saved.Reason), quoted(o.Path))
		}
	}
	return nil
}

// name makes outputs of pictures. One that updates another has its name.
func (f *replFiles) name(pictures []picture) (outputs []output) {
	f.content = map[string][]byte{}
	for _, p := range pictures {
		var text string
		if json.Unmarshal(p.content, &text) != nil {
			continue
		}
		content := []byte(text)
		if p.mime != "image/svg+xml" {
			var err error
			if content, err = base64.StdEncoding.DecodeString(strings.Join(strings.Fields(text), "")); err != nil {
				continue
			}
		}
		name := f.shown[p.display]
		if name == "" || p.display == "" {
			f.count++
			name = fmt.Sprintf("figure-%d%s", f.count, map[string]string{
				"image/png": ".png", "image/jpeg": ".jpg", "image/svg+xml": ".svg"}[p.mime])
		}
		if p.display != "" {
			f.shown[p.display] = name
		}
		sum := sha256.Sum256(content)
		out := output{ID: "a picture: " + name, Path: name, Size: int64(len(content)), SHA256: hex.EncodeToString(sum[:])}
		if i := slices.IndexFunc(outputs, func(o output) bool { return o.Path == name }); i >= 0 {
			outputs[i] = out // the newest
		} else {
			outputs = append(outputs, out)
		}
		f.content[out.ID] = content
	}
	return outputs
}

// look says how large a picture is.
func (f *replFiles) look(o output) string {
	config, _, err := image.DecodeConfig(bytes.NewReader(f.content[o.ID]))
	if err != nil {
		return ""
	}
	return fmt.Sprintf(" (%dx%d)", config.Width, config.Height)
}

// open opens the folder, once it is known. A person is asked for it once.
func (f *replFiles) open(ctx context.Context, outputs []output) error {
	if f.folder == "" && !f.asked {
		f.asked = true
		first := client.Run{ID: f.id}
		for _, o := range outputs {
			first.Files = append(first.Files, client.File{Path: o.Path})
		}
		folder, err := f.offerFolder(ctx, &first, false)
		if err != nil {
			return err
		}
		f.folder = folder
	}
	if f.folder == "" || f.saver != nil {
		return nil
	}
	root, err := openFolder(f.folder)
	if err != nil {
		return err
	}
	f.root = root
	f.saver = &saver{
		root: root, allow: f.allower(ctx, f.folder, f.options.allow),
		fetch: func(ctx context.Context, id string, to io.Writer) error {
			content, ok := f.content[id]
			if !ok {
				return f.download(ctx, id, to)
			}
			_, err := to.Write(content)
			return err
		},
		choose: func(name string) (choice, error) {
			if f.own[name] {
				return chooseReplace, nil
			}
			return chooseRename, nil
		},
	}
	return nil
}
