package engine

import (
	"context"
	"errors"
	"fmt"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"
	"time"
)

// Volume is a named folder of an owner that outlives sessions.
type Volume struct {
	ID        ID
	Owner     Owner
	Name      string
	Bytes     int64 // on the disk, when it was last measured
	Files     int   // files and folders, when it was last measured
	CreatedAt time.Time
	Users     []VolumeUser // programs of this node that have it; not recorded
}

// VolumeUser is a program that has a volume.
type VolumeUser struct {
	Run      ID
	Session  ID
	ReadOnly bool
}

// VolumeMount asks for a volume in a program.
type VolumeMount struct { // live sessions store it with these tags
	Name     string `json:"name"`
	Path     string `json:"path,omitempty"` // empty: /volumes/NAME
	ReadOnly bool   `json:"read_only,omitempty"`
}

// VolumePlace is a volume in a sandbox.
type VolumePlace struct {
	ID       ID
	Path     string
	ReadOnly bool `json:",omitempty"`
	Again    bool `json:",omitempty"` // another program of its session has it too
}

// Bounds of volumes.
const (
	MaxVolumes      = 8 // of one program
	MaxOwnerVolumes = 100
	MaxVolumeFiles  = 500_000 // files and folders of one: it is measured while a program writes
)

// Volumes keeps the folders of volumes. Programs may change what is in them during each call.
type Volumes interface {
	Create(id ID) error
	// Measure returns the size on the disk and the number of files and folders. It returns
	// ErrTooLarge if it cannot tell, because folders are nested too deeply.
	Measure(ctx context.Context, id ID) (bytes int64, files int, err error)
	// Remove removes a volume, or the rest of it. It returns ErrConflict, and removes nothing, if a
	// program has it on any machine. A missing volume is no error.
	Remove(ctx context.Context, id ID) error
	// Free returns the free space of the file system, in bytes. It is cheap.
	Free() (int64, error)
}

// VolumeIndex records volumes.
type VolumeIndex interface {
	// AddVolume records a volume. It returns ErrConflict if its owner has one of that name.
	AddVolume(ctx context.Context, volume Volume) error
	Volume(ctx context.Context, owner Owner, name string) (Volume, error)
	// Volumes returns the volumes of an owner, by name.
	Volumes(ctx context.Context, owner Owner) ([]Volume, error)
	// SetVolume records the size of a volume, whatever the quota is, and whether a program changes it.
	SetVolume(ctx context.Context, id ID, bytes int64, files int, written bool) error
	DeleteVolume(ctx context.Context, id ID) error
	// WrittenVolumes returns the volumes of all owners that a program changed when they were last measured.
	WrittenVolumes(ctx context.Context) ([]Volume, error)
}

// volumeUses are the volumes in use by programs of this node.
type volumeUses struct {
	mu       sync.Mutex
	users    map[ID][]VolumeUser
	removing map[ID]bool
}

var volumeName = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^[A-Za-z0-9_][A-Za-z0-9_-]{0,62}$`)
})

// VolumeHint is the remedy if a volume is in use.
const VolumeHint = "One session at a time may write to a volume, or several may read it: ask for it with " +
	"read_only, or wait until the other program or session has ended."

var errNoVolumes = &Error{Op: "volumes", Kind: ErrUnavailable, Err: errors.New("there are no volumes"),
	Hint: "This service has no volumes: where other machines run the programs, they need a folder that all of them " +
		"share. Whoever runs the service names it in the setting volumes_dir, on the apis and the workers."}

// CheckVolumeName returns an error if a volume may not have that name.
func CheckVolumeName(field, name string) error {
	if !volumeName().MatchString(name) {
		return Invalid(field, "%.70q is no name of a volume: it has 1 to 63 letters, digits, _ and -, and is no path",
			name)
	}
	return nil
}

// CreateVolume makes an empty volume.
func (s *Service) CreateVolume(ctx context.Context, caller Caller, name string) (Volume, error) {
	const op = "create volume"
	if s.cfg.Volumes == nil {
		return Volume{}, errNoVolumes
	}
	if err := CheckVolumeName("name", name); err != nil {
		return Volume{}, err
	}
	if err := s.accepting(op); err != nil {
		return Volume{}, err
	}
	if err := s.RoomFor(op); err != nil {
		return Volume{}, err
	}
	all, err := s.index.Volumes(ctx, caller.Owner)
	if err != nil {
		return Volume{}, failure(op, name, err)
	}
	if len(all) >= MaxOwnerVolumes {
		return Volume{}, &Error{Op: op, Kind: ErrFull, Err: ErrQuota,
			Hint: fmt.Sprintf("You have %d volumes, as many as one owner may have: delete some.", len(all))}
	}
	v := Volume{ID: NewID(), Owner: caller.Owner, Name: name, CreatedAt: s.now()}
	if err := s.cfg.Volumes.Create(v.ID); err != nil {
		return Volume{}, failure(op, name, err)
	}
	err = s.index.AddVolume(ctx, v)
	if err == nil {
		return v, nil
	}
	if removed := s.cfg.Volumes.Remove(context.WithoutCancel(ctx), v.ID); removed != nil {
		s.logFailure(ctx, "remove a volume that was not recorded", removed)
	}
	if errors.Is(err, ErrConflict) {
		return Volume{}, &Error{Op: op, Kind: ErrConflict, ID: name, Err: errors.New("there is one of that name"),
			Hint: "There is a volume " + name + " already: use it, or choose another name."}
	}
	return Volume{}, failure(op, name, err)
}

// GetVolume returns a volume of the caller.
func (s *Service) GetVolume(ctx context.Context, caller Caller, name string) (Volume, error) {
	const op = "get volume"
	if s.cfg.Volumes == nil {
		return Volume{}, errNoVolumes
	}
	v, err := s.index.Volume(ctx, caller.Owner, name)
	if err != nil {
		return Volume{}, missing(op, name, err)
	}
	v.Users = s.volumes.of(v.ID)
	return v, nil
}

// ListVolumes returns the caller's volumes, by name.
func (s *Service) ListVolumes(ctx context.Context, caller Caller) ([]Volume, error) {
	if s.cfg.Volumes == nil {
		return nil, errNoVolumes
	}
	list, err := s.index.Volumes(ctx, caller.Owner)
	for i := range list {
		list[i].Users = s.volumes.of(list[i].ID)
	}
	return list, failure("list volumes", "", err)
}

// DeleteVolume deletes a volume with all that is in it, unless a program has it.
func (s *Service) DeleteVolume(ctx context.Context, caller Caller, name string) error {
	const op = "delete volume"
	v, err := s.GetVolume(ctx, caller, name)
	if err != nil {
		return err
	}
	if err := s.volumes.beginRemoval(op, &v); err != nil {
		return err
	}
	defer s.volumes.endRemoval(v.ID)
	ctx = context.WithoutCancel(ctx) // half of a volume is none
	if err := s.cfg.Volumes.Remove(ctx, v.ID); err != nil {
		if errors.Is(err, ErrConflict) {
			return volumeInUse(op, &v, "a program on another machine has it")
		}
		return failure(op, name, err)
	}
	return missing(op, name, s.index.DeleteVolume(ctx, v.ID))
}

func volumeInUse(op string, v *Volume, how string) error {
	return &Error{Op: op, Kind: ErrConflict, ID: v.Name, Err: fmt.Errorf("it is in use: %s", how),
		Hint: fmt.Sprintf("The volume %s is in use: %s. %s", v.Name, how, VolumeHint)}
}

// String says in words what has a volume.
func (u VolumeUser) String() string {
	does := "writes to it"
	if u.ReadOnly {
		does = "reads it"
	}
	return fmt.Sprintf("a program of session %s %s (run %s)", u.Session, does, u.Run)
}

func (u *volumeUses) of(id ID) []VolumeUser {
	u.mu.Lock()
	defer u.mu.Unlock()
	return slices.Clone(u.users[id])
}

func (u *volumeUses) beginRemoval(op string, v *Volume) error {
	u.mu.Lock()
	defer u.mu.Unlock()
	if users := u.users[v.ID]; len(users) > 0 {
		return volumeInUse(op, v, users[0].String())
	}
	if u.removing[v.ID] {
		return volumeInUse(op, v, "it is being deleted")
	}
	u.removing[v.ID] = true
	return nil
}

func (u *volumeUses) endRemoval(id ID) {
	u.mu.Lock()
	defer u.mu.Unlock()
	delete(u.removing, id)
}

// refuse returns an error if user may not have a volume now. The caller holds mu.
func (u *volumeUses) refuse(op string, v *Volume, user VolumeUser) error {
	if u.removing[v.ID] {
		return volumeInUse(op, v, "it is being deleted")
	}
	for _, other := range u.users[v.ID] {
		if other.Session != user.Session && (!other.ReadOnly || !user.ReadOnly) {
			return volumeInUse(op, v, other.String())
		}
	}
	return nil
}

// CheckVolumes returns an error if a program of the caller may not have these volumes. It fills in
// the paths that are left out.
func (s *Service) CheckVolumes(ctx context.Context, caller Caller, asked []VolumeMount, mounts []string) error {
	_, err := s.findVolumes(ctx, caller, asked, mounts)
	return err
}

func (s *Service) findVolumes(
	ctx context.Context, caller Caller, asked []VolumeMount, mounts []string,
) (found []Volume, err error) {
	switch {
	case len(asked) == 0:
		return nil, nil
	case s.cfg.Volumes == nil:
		return nil, errNoVolumes
	case len(asked) > MaxVolumes:
		return nil, Invalid("volumes", "must be at most %d", MaxVolumes)
	}
	for i := range asked {
		field := fmt.Sprintf("volumes[%d]", i)
		if err := CheckVolumeName(field+".name", asked[i].Name); err != nil {
			return nil, err
		}
		if asked[i].Path == "" {
			asked[i].Path = "/volumes/" + asked[i].Name
		}
		at := asked[i].Path
		folder, name := path.Split(at)
		switch {
		case folder != "/volumes/" && folder != "/mnt/" || !volumeName().MatchString(name) || at == "/mnt/data":
			return nil, Invalid(field+".path", "%.80q must be /volumes/NAME or /mnt/NAME, and not /mnt/data", at)
		case slices.ContainsFunc(asked[:i],
			func(o VolumeMount) bool { return o.Path == at || o.Name == asked[i].Name }):
			return nil, Invalid(field, "is there twice")
		case folder == "/mnt/" && (slices.Contains(mounts, name) || slices.Contains(mounts, name+":ro")):
			return nil, Invalid(field+".path", "%s is that of a mount", at)
		}
		v, err := s.index.Volume(ctx, caller.Owner, asked[i].Name)
		if errors.Is(err, ErrNotFound) {
			return nil, &Error{Op: "check", Kind: ErrInvalid, ID: field,
				Err:  fmt.Errorf("there is no volume %s", asked[i].Name),
				Hint: "Create it first: `airlock volumes create " + asked[i].Name + "`, or POST /api/v1/volumes."}
		}
		if err != nil {
			return nil, failure("check", field, err)
		}
		found = append(found, v)
	}
	return found, nil
}

// takeVolumes gives a job its volumes, until releaseVolumes.
func (s *Service) takeVolumes(ctx context.Context, j *job) error {
	asked := slices.Clone(j.request.Volumes)
	found, err := s.findVolumes(ctx, j.caller, asked, j.request.Mounts)
	if err != nil {
		return err
	}
	u := &s.volumes
	u.mu.Lock()
	defer u.mu.Unlock()
	var places []VolumePlace
	for i := range found {
		user := VolumeUser{Run: j.id, Session: j.within, ReadOnly: asked[i].ReadOnly}
		if err := u.refuse(opRun, &found[i], user); err != nil {
			return err
		}
		places = append(places, VolumePlace{ID: found[i].ID, Path: asked[i].Path, ReadOnly: asked[i].ReadOnly,
			Again: slices.ContainsFunc(u.users[found[i].ID], func(o VolumeUser) bool { return o.Session == j.within })})
	}
	for i := range found {
		u.users[found[i].ID] = append(u.users[found[i].ID],
			VolumeUser{Run: j.id, Session: j.within, ReadOnly: asked[i].ReadOnly})
	}
	j.volumes, j.places = found, places
	return nil
}

// releaseVolumes ends a job's use of its volumes. It may be called again.
func (s *Service) releaseVolumes(j *job) {
	u := &s.volumes
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, v := range j.volumes {
		left := slices.DeleteFunc(u.users[v.ID], func(o VolumeUser) bool { return o.Run == j.id })
		if u.users[v.ID] = left; len(left) == 0 {
			delete(u.users, v.ID)
		}
	}
	j.volumes, j.places = nil, nil
}

// measureVolumes measures the volumes that were written to when an earlier process ended.
func (s *Service) measureVolumes(ctx context.Context) error {
	if s.cfg.Volumes == nil {
		return nil
	}
	written, err := s.index.WrittenVolumes(ctx)
	for _, v := range written {
		bytes, files, measured := s.cfg.Volumes.Measure(ctx, v.ID)
		if measured != nil {
			s.log.WarnContext(ctx, "a volume cannot be measured", "volume", v.ID, "error", measured)
			continue
		}
		err = errors.Join(err, s.index.SetVolume(ctx, v.ID, bytes, files, false))
	}
	return err
}

// volumeNames returns the names of volumes, for a sentence.
func volumeNames(list []watchedVolume) string {
	var names []string
	for _, v := range list {
		names = append(names, v.Name)
	}
	return strings.Join(names, ", ")
}
