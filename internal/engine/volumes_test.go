package engine_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// volumeRig is a rig with a volume "data" of alice, in which program runs.
func volumeRig(
	t *testing.T, program func(ctx context.Context, id engine.ID, folders *enginetest.Folders) *engine.Outcome,
) (*rig, *enginetest.Folders, engine.Volume) {
	t.Helper()
	folders := enginetest.NewFolders()
	r := newRig(t, engine.Config{Volumes: folders, Quota: engine.Quota{Bytes: 1000}},
		func(ctx context.Context, spec *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
			if len(spec.Volumes) == 0 {
				return sandboxtest.Exit(0), nil
			}
			return program(ctx, spec.Volumes[0].ID, folders), nil
		})
	r.index.Quota.Bytes = 1000
	v, err := r.CreateVolume(t.Context(), alice, "data")
	if err != nil {
		t.Fatal(err)
	}
	return r, folders, v
}

func withVolume(m ...engine.VolumeMount) engine.RunRequest {
	req := python("1")
	req.Volumes = m
	return req
}

func TestVolumesRefused(t *testing.T) {
	r, _, _ := volumeRig(t, func(context.Context, engine.ID, *enginetest.Folders) *engine.Outcome {
		return sandboxtest.Exit(0)
	})
	for _, name := range []string{"", "..", "a/b", "/etc", "-a", "a.b", "ä", strings.Repeat("a", 64)} {
		if _, err := r.CreateVolume(t.Context(), alice, name); !errors.Is(err, engine.ErrInvalid) {
			t.Errorf("create %q: %v", name, err)
		}
	}
	if _, err := r.CreateVolume(t.Context(), alice, "data"); !errors.Is(err, engine.ErrConflict) {
		t.Errorf("a second one of a name: %v", err)
	}
	if _, err := r.GetVolume(t.Context(), bob, "data"); !errors.Is(err, engine.ErrNotFound) {
		t.Errorf("another's: %v", err)
	}
	for _, test := range []struct {
		mounts []engine.VolumeMount
		fault  string
	}{
		{[]engine.VolumeMount{{Name: "data"}}, ""},
		{[]engine.VolumeMount{{Name: "data", Path: "/mnt/x"}}, ""},
		{[]engine.VolumeMount{{Name: "other"}}, "there is no volume other"},
		{[]engine.VolumeMount{{Name: "../data"}}, "is no name of a volume"},
		{[]engine.VolumeMount{{Name: "data"}, {Name: "data", Path: "/mnt/x"}}, "is there twice"},
		{[]engine.VolumeMount{{Name: "data", Path: "/etc"}}, "must be /volumes/NAME or /mnt/NAME"},
		{[]engine.VolumeMount{{Name: "data", Path: "/mnt/data"}}, "must be"},
		{[]engine.VolumeMount{{Name: "data", Path: "/volumes/../x"}}, "must be"},
		{[]engine.VolumeMount{{Name: "data", Path: "/volumes/a/b"}}, "must be"},
		{make([]engine.VolumeMount, 9), "must be at most 8"},
	} {
		_, err := r.Run(t.Context(), alice, withVolume(test.mounts...))
		if test.fault == "" && err != nil || test.fault != "" &&
			(!errors.Is(err, engine.ErrInvalid) || !strings.Contains(err.Error(), test.fault)) {
			t.Errorf("%v: %v, want %s", test.mounts, err, test.fault)
		}
	}
	without := newRig(t, engine.Config{}, nil)
	if _, err := without.CreateVolume(t.Context(), alice, "x"); !errors.Is(err, engine.ErrUnavailable) {
		t.Errorf("a service without volumes: %v", err)
	}
}

// A volume has one writer or several readers, and none while it is deleted.
func TestVolumeInUse(t *testing.T) {
	begun := make(chan engine.ID)
	r, folders, v := volumeRig(t, func(ctx context.Context, id engine.ID, _ *enginetest.Folders) *engine.Outcome {
		begun <- id
		return sandboxtest.UntilKilled(ctx)
	})
	write, read := engine.VolumeMount{Name: "data"}, engine.VolumeMount{Name: "data", ReadOnly: true}
	begin := func(m engine.VolumeMount) *engine.Run {
		t.Helper()
		run, err := r.Start(t.Context(), alice, withVolume(m))
		if err != nil {
			t.Fatal(err)
		}
		<-begun
		return run
	}
	end := func(run *engine.Run) {
		t.Helper()
		if err := r.CancelRun(t.Context(), alice, run.ID); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(err error, what string) {
		t.Helper()
		e, ok := errors.AsType[*engine.Error](err)
		if !ok || e.Kind != engine.ErrConflict || !strings.Contains(e.Hint, "The volume data is in use") {
			t.Errorf("%s: %v", what, err)
		}
	}
	writer := begin(write)
	_, err := r.Start(t.Context(), alice, withVolume(write))
	refused(err, "a second writer")
	_, err = r.Start(t.Context(), alice, withVolume(read))
	refused(err, "a reader beside a writer")
	refused(r.DeleteVolume(t.Context(), alice, "data"), "delete")
	if now, err := r.GetVolume(t.Context(), alice, "data"); err != nil || len(now.Users) != 1 ||
		now.Users[0].Run != writer.ID {
		t.Errorf("who has it: %v, %v", now.Users, err)
	}
	end(writer)
	first, second := begin(read), begin(read)
	_, err = r.Start(t.Context(), alice, withVolume(write))
	refused(err, "a writer beside readers")
	end(first)
	refused(r.DeleteVolume(t.Context(), alice, "data"), "delete what is read")
	end(second)
	if err := r.DeleteVolume(t.Context(), alice, "data"); err != nil || folders.Has(v.ID) {
		t.Errorf("delete: %v", err)
	}
	if all, err := r.ListVolumes(t.Context(), alice); err != nil || len(all) != 0 {
		t.Errorf("after it was deleted: %v, %v", all, err)
	}
}

// A program that writes more than its owner may keep is ended, in words; what it wrote counts, and a program may then
// make it less but not more.
func TestVolumeQuota(t *testing.T) {
	r, _, v := volumeRig(t, func(ctx context.Context, id engine.ID, folders *enginetest.Folders) *engine.Outcome {
		folders.Write(id, 600)
		folders.Write(id, 1200)
		return sandboxtest.UntilKilled(ctx)
	})
	run, err := r.Run(t.Context(), alice, withVolume(engine.VolumeMount{Name: "data"}))
	if err != nil || run.Status != engine.StatusKilled ||
		!strings.Contains(run.Message, "wrote to the volume data. You have 1000 bytes of files") {
		t.Errorf("%v, %s %s", err, run.Status, run.Message)
	}
	if now, err := r.GetVolume(t.Context(), alice, v.Name); err != nil || now.Bytes != 1200 {
		t.Errorf("%d bytes, %v", now.Bytes, err)
	}
	_, err = r.PutFile(t.Context(), alice, engine.Upload{Name: "a"}, strings.NewReader("a"))
	if !errors.Is(err, engine.ErrFull) {
		t.Errorf("an upload beside a full volume: %v", err)
	}
}

// A program may make a volume less that is over the quota.
func TestVolumeOverQuota(t *testing.T) {
	r, folders, v := volumeRig(t, func(_ context.Context, id engine.ID, folders *enginetest.Folders) *engine.Outcome {
		folders.Write(id, 1500)
		return sandboxtest.Exit(0)
	})
	folders.Write(v.ID, 2000)
	run, err := r.Run(t.Context(), alice, withVolume(engine.VolumeMount{Name: "data"}))
	if err != nil || run.Status != engine.StatusOK {
		t.Errorf("%v, %s %s", err, run.Status, run.Message)
	}
}

// A service that is killed while a program writes measures the volume when it starts again.
func TestVolumeAfterKill(t *testing.T) {
	folders, index := enginetest.NewFolders(), enginetest.NewIndex()
	v := engine.Volume{ID: engine.NewID(), Owner: alice.Owner, Name: "data"}
	if err := errors.Join(index.AddVolume(t.Context(), v), index.SetVolume(t.Context(), v.ID, 10, 1, true)); err != nil {
		t.Fatal(err)
	}
	folders.Write(v.ID, 700)
	s := enginetest.StartOn(t, engine.Config{Volumes: folders}, sandboxtest.NewFake(nil), enginetest.NewBlobs(), index)
	if now, err := s.GetVolume(t.Context(), alice, "data"); err != nil || now.Bytes != 700 {
		t.Errorf("%d bytes, %v", now.Bytes, err)
	}
	if left, err := index.WrittenVolumes(t.Context()); err != nil || len(left) > 0 {
		t.Errorf("%v, %v", left, err)
	}
}
