package native

import (
	"github.com/airlock-run/airlock/client"
	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/rest"
)

// readVolumes reads the volumes that a program or a session asks for.
func readVolumes(o *rest.Object) (volumes []engine.VolumeMount) {
	for _, v := range o.Objects("volumes") {
		volumes = append(volumes, engine.VolumeMount{Name: v.NeedText("name"), Path: v.Text("path"),
			ReadOnly: v.Flag("read_only", false)})
	}
	return volumes
}

type volumeBody struct {
	client.Volume
	CreatedAt string `json:"created_at"`
}

func volumeOf(v engine.Volume) volumeBody {
	body := volumeBody{client.Volume{ID: v.ID.String(), Name: v.Name, Bytes: v.Bytes, Files: v.Files,
		Users: []client.VolumeUser{}}, rest.TimeOf(v.CreatedAt)}
	for _, u := range v.Users {
		body.Users = append(body.Users,
			client.VolumeUser{Run: u.Run.String(), Session: u.Session.String(), ReadOnly: u.ReadOnly})
	}
	return body
}

func (q *request) createVolume() (any, error) {
	body := q.Object()
	name := body.NeedText("name")
	if err := body.Done(); err != nil {
		return nil, err
	}
	made, err := q.api.engine.CreateVolume(q.Context(), q.Caller, name)
	if err != nil {
		return nil, err
	}
	return rest.Created("/volumes/"+made.Name, volumeOf(made)), nil
}

func (q *request) listVolumes() (any, error) {
	all, err := q.api.engine.ListVolumes(q.Context(), q.Caller)
	if err != nil {
		return nil, err
	}
	return list("volumes", volumeOf)(all), nil
}

func (q *request) getVolume() (any, error) {
	found, err := q.api.engine.GetVolume(q.Context(), q.Caller, q.PathValue("name"))
	if err != nil {
		return nil, err
	}
	return volumeOf(found), nil
}

func (q *request) deleteVolume() (any, error) {
	return nil, q.api.engine.DeleteVolume(q.Context(), q.Caller, q.PathValue("name"))
}
