package e2b

import (
	"net/http"

	"github.com/airlock-run/airlock/internal/engine"
)

// The id of a volume is its name. Its content is read and written in sandboxes alone.

type volumeBody struct {
	ID    string `json:"volumeID"`
	Name  string `json:"name"`
	Token string `json:"token"` // for the API of the content; SDKs demand one
}

func volumeOf(v engine.Volume) volumeBody { return volumeBody{v.Name, v.Name, v.ID.String()} }

// volumeMount is a volume that a client asks for in a sandbox.
type volumeMount struct {
	Name string `json:"name"`
	Path string `json:"path"`
}

func mountsOf(asked []volumeMount) (volumes []engine.VolumeMount) {
	for _, v := range asked {
		volumes = append(volumes, engine.VolumeMount{Name: v.Name, Path: v.Path})
	}
	return volumes
}

func (h *Handler) addVolume(w http.ResponseWriter, r *http.Request) error {
	var body struct{ Name string }
	if err := readBody(w, r, &body); err != nil {
		return err
	}
	made, err := h.Engine.CreateVolume(r.Context(), h.Caller(r), body.Name)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, volumeOf(made))
	return nil
}

func (h *Handler) listVolumes(w http.ResponseWriter, r *http.Request) error {
	all, err := h.Engine.ListVolumes(r.Context(), h.Caller(r))
	if err != nil {
		return err
	}
	bodies := make([]volumeBody, 0, len(all))
	for _, v := range all {
		bodies = append(bodies, volumeOf(v))
	}
	writeJSON(w, http.StatusOK, bodies)
	return nil
}

func (h *Handler) getVolume(w http.ResponseWriter, r *http.Request) error {
	found, err := h.Engine.GetVolume(r.Context(), h.Caller(r), r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, volumeOf(found))
	return nil
}

func (h *Handler) deleteVolume(w http.ResponseWriter, r *http.Request) error {
	if err := h.Engine.DeleteVolume(r.Context(), h.Caller(r), r.PathValue("id")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
