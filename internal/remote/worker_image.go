package remote

import (
	"context"
	"io"

	"github.com/airlock-run/airlock/internal/engine"
)

// useImage keeps the files of a program's image until release is called. It fetches them if this
// worker does not have them, which takes none of the program's time.
func (x *exchange) useImage(ctx context.Context, image *engine.Image, seat *seat) (release func(), err error) {
	images := x.worker.config.Images
	if image == nil || images == nil {
		return func() {}, nil
	}
	fetched := false
	release, err = images.Use(ctx, image.ID, func(ctx context.Context) (*engine.Image, io.ReadCloser, error) {
		if !fetched {
			seat.rest(0) // fetching needs the network, not the processor
			fetched = true
		}
		return x.openImage(ctx)
	})
	if fetched {
		seat.wake()
	}
	return release, err
}

// openImage opens the archive of the program's image.
func (x *exchange) openImage(ctx context.Context) (*engine.Image, io.ReadCloser, error) {
	if err := x.frames.sendJSON(kindImage, nil); err != nil {
		return nil, nil, err
	}
	var a imageAddress
	if err := x.answer(ctx, kindArchive, &a); err != nil {
		return nil, nil, err
	}
	if a.Error != nil {
		return nil, nil, a.Error.err()
	}
	archive, err := x.worker.get(ctx, blobAddress{URL: a.URL})
	return &a.Image, archive, err
}
