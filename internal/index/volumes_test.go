package index

import "github.com/airlock-run/airlock/internal/engine"

var volumeTests = map[string]func(bench){
	"a volume counts as one file, with its bytes": func(b bench) {
		one := engine.Volume{ID: engine.NewID(), Owner: "ada", Name: "one", CreatedAt: b.clock.Now()}
		b.want(b.AddVolume(b.Context(), one), "")
		again := one
		again.ID = engine.NewID()
		b.want(b.AddVolume(b.Context(), again), engine.ErrConflict)
		again.Owner = "bob"
		b.want(b.AddVolume(b.Context(), again), "")
		b.want(b.SetVolume(b.Context(), one.ID, 700, 7, true), "")
		one.Bytes, one.Files = 700, 7
		got, err := b.Volume(b.Context(), "ada", "one")
		b.want(err, "")
		b.same("volume", got, one)
		written, err := b.WrittenVolumes(b.Context())
		b.want(err, "")
		b.same("written", written, []engine.Volume{one})
		u, err := b.Usage(b.Context(), "ada")
		b.want(err, "")
		b.same("usage", u, engine.Usage{Files: 1, Bytes: 700})
		b.want(b.SetVolume(b.Context(), one.ID, 300, 3, false), "")
		u, err = b.Usage(b.Context(), "ada")
		b.want(err, "")
		b.same("usage", u, engine.Usage{Files: 1, Bytes: 300})
		b.want(b.DeleteVolume(b.Context(), one.ID), "")
		b.want(b.DeleteVolume(b.Context(), one.ID), engine.ErrNotFound)
		b.want(b.SetVolume(b.Context(), one.ID, 1, 1, false), engine.ErrNotFound)
		list, err := b.Volumes(b.Context(), "ada")
		b.want(err, "")
		b.same("left", len(list), 0)
		u, err = b.Usage(b.Context(), "ada")
		b.want(err, "")
		b.same("usage", u, engine.Usage{})
	},
}
