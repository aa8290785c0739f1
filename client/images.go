package client

import "context"

// Image is an OCI image whose files programs can have in place of the machine's own.
type Image struct {
	Name      string          `json:"name"`      // for RunRequest.Image
	Reference string          `json:"reference"` // where it is from, as "python:3.13-slim"
	ID        string          `json:"id"`        // "sha256-" and the digest of its manifest
	SizeBytes int64           `json:"size_bytes"`
	Languages []ImageLanguage `json:"languages"`
}

// ImageLanguage is a language that an image has.
type ImageLanguage struct {
	Name    string `json:"name"`    // for RunRequest.Language
	Version string `json:"version"` // "3.13.1"
}

// ImageList are the images of a caller.
type ImageList struct {
	Images  []Image `json:"images"`  // sorted by name
	Default string  `json:"default"` // of programs whose request names none; "host": none
	Host    bool    `json:"host"`    // programs can also run without an image
}

// ListImages returns the images that programs of the caller can have.
func (c *Client) ListImages(ctx context.Context) (*ImageList, error) {
	return fetch[ImageList](ctx, c, get("/images", nil))
}
