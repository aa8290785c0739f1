package live

import (
	"context"
	"errors"
	"io"

	"github.com/airlock-run/airlock/internal/engine"
)

// keepWhole has a cell's output kept whole in its workspace where its log leaves out the middle. A file
// of a cell may take a quarter of the workspace.
func (at *session) keepWhole(c *cell) {
	most := at.wholeLimit()
	for i := range c.log.streams {
		stored := wholePrefix + engine.NewID().String()
		c.log.wholes[i] = stored
		c.log.streams[i].KeepWhole(most, func(r io.Reader) error {
			_, err := at.files().Write(context.Background(), stored, r)
			return err
		})
	}
}

// wholeLimit is the size of the largest such file.
func (at *session) wholeLimit() int64 {
	defaults, _ := at.service.engine.Limits()
	limits := at.settings.Limits.Or(defaults)
	return min(limits.Files.Bytes, limits.Files.Total, limits.Workspace/4)
}

func (at *session) files() engine.Files { return at.service.engine.Inside().Files(at.record.ID) }

// wholePrefix begins the names of files that have no name of their own yet.
const wholePrefix = ".airlock-output-"

// nameWholes gives names to the files of a cell's output, before they are stored with its others.
func (at *session) nameWholes(c *cell) (made bool) {
	ctx, cancel := context.WithTimeout(context.Background(), endTime)
	defer cancel()
	c.log.mu.Lock()
	defer c.log.mu.Unlock()
	for i, stream := range []engine.Stream{engine.Stdout, engine.Stderr} {
		capture := c.log.streams[i]
		cut, err := capture.EndWhole()
		if !cut {
			continue
		}
		var name string
		if err == nil {
			name, err = at.nameFile(ctx, stream, c.log.wholes[i])
		}
		if err == nil {
			capture.NameWhole(name)
			made = true
			continue
		}
		if unkeptReason(err) == engine.DropUnstored && !errors.Is(err, engine.ErrNotFound) { // its workspace is gone
			at.service.log.Error("the output of a cell could not be kept whole", "session", at.record.ID, "error", err)
		}
		c.log.unkept = append(c.log.unkept, engine.DroppedFile{Path: string(stream) + ".txt", Reason: unkeptReason(err)})
	}
	return made
}

// nameFile names a file like a stream, unless a file has the name.
func (at *session) nameFile(ctx context.Context, stream engine.Stream, stored string) (name string, err error) {
	name = engine.WholeName(stream, func(name string) bool {
		_, err = at.files().Move(ctx, stored, name, false)
		return errors.Is(err, engine.ErrConflict)
	})
	if name == "" || err != nil {
		return "", errors.Join(err, at.files().Remove(ctx, stored, false))
	}
	return name, nil
}

func unkeptReason(err error) string {
	switch {
	case errors.Is(err, engine.ErrTooLarge), errors.Is(err, engine.ErrFull):
		return engine.DropWorkspace
	case errors.Is(err, engine.ErrConflict):
		return engine.DropTooMany
	}
	return engine.DropUnstored
}
