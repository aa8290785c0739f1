package client

import (
	"context"
	"time"
)

// Volume is a named folder that outlives sessions.
type Volume struct {
	ID        string       `json:"id"`
	Name      string       `json:"name"`
	Bytes     int64        `json:"bytes"` // on the disk, when it was last measured
	Files     int          `json:"files"` // files and folders, when it was last measured
	CreatedAt time.Time    `json:"created_at"`
	Users     []VolumeUser `json:"users"` // programs that have it now
}

// VolumeUser is a program that has a volume.
type VolumeUser struct {
	Run      string `json:"run"`
	Session  string `json:"session"`
	ReadOnly bool   `json:"read_only"`
}

// VolumeMount asks for a volume in a run or a session. One session at a time may write to a volume, or several may
// read it.
type VolumeMount struct {
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"` // /volumes/NAME or /mnt/NAME; empty: /volumes and its own name
	ReadOnly bool   `json:"read_only,omitempty"`
}

// CreateVolume makes an empty volume. A name has letters, digits, _ and -.
func (c *Client) CreateVolume(ctx context.Context, name string) (*Volume, error) {
	return fetch[Volume](ctx, c, post("/volumes", map[string]string{"name": name}))
}

// GetVolume returns a volume by its name.
func (c *Client) GetVolume(ctx context.Context, name string) (*Volume, error) {
	return fetch[Volume](ctx, c, get("/volumes/"+segment(name), nil))
}

// ListVolumes returns all volumes, by name.
func (c *Client) ListVolumes(ctx context.Context) ([]Volume, error) {
	volumes, _, err := list[Volume](ctx, c, "/volumes", "volumes", nil)
	return volumes, err
}

// DeleteVolume deletes a volume with all that is in it, unless a program has it.
func (c *Client) DeleteVolume(ctx context.Context, name string) error {
	return c.call(ctx, del("/volumes/"+segment(name)), nil)
}
