package engine_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// A request's own image precedes its key's, which precedes the settings'. A set of packages
// of the request or of the key means no image.
func TestChooseImage(t *testing.T) {
	rules := engine.ImageRules{
		Store:   enginetest.SomeImages(),
		Keys:    map[string]string{"k1": "ir", "k2": "host"},
		Origins: map[engine.Origin]string{engine.OriginOnyx: "py313", engine.OriginMCP: "gone", engine.OriginDify: "host"},
		Default: "old",
	}
	for _, test := range []struct {
		name, asked, packages string
		caller                engine.Caller
		origin                engine.Origin
		none                  bool // there are no images and no rules
		want                  string
		kind                  engine.Kind
		fault                 string
	}{
		{name: "no images", none: true},
		{name: "default", want: "old"},
		{name: "protocol", origin: engine.OriginOnyx, want: "py313"},
		{name: "protocol without", origin: engine.OriginDify},
		{name: "setting of the key", origin: engine.OriginOnyx, caller: engine.Caller{Key: "k1"}, want: "ir"},
		{name: "setting of the key, none", origin: engine.OriginOnyx, caller: engine.Caller{Key: "k2"}},
		{name: "key", caller: engine.Caller{Key: "k1", Images: "py313,host"}, want: "py313"},
		{name: "key, none", caller: engine.Caller{Key: "k1", Images: "host,py313"}},
		{name: "packages of the key", caller: engine.Caller{Key: "k3", Packages: "onyx"}, origin: engine.OriginOnyx},
		{name: "packages and images of the key", caller: engine.Caller{Packages: "onyx", Images: "ir,host"}, want: "ir"},
		{name: "request", asked: "py313", caller: engine.Caller{Key: "k1"}, want: "py313"},
		{name: "request of the key", asked: "ir", caller: engine.Caller{Images: "py313,ir"}, want: "ir"},
		{name: "host", asked: "host"},
		{name: "packages", packages: "onyx"},
		{name: "host and packages", asked: "host", packages: "onyx"},
		{name: "preview of a file", origin: engine.OriginPreview, caller: engine.Caller{Images: "py313"}},
		{name: "image and packages", asked: "py313", packages: "onyx", kind: engine.ErrInvalid,
			fault: `image: "py313" has packages of its own: it cannot be combined with python_packages`},
		{name: "unknown", asked: "nosuch", kind: engine.ErrInvalid, fault: `"nosuch" is not known; there are host, ` +
			"ir (Bash 5.2 and R 4.4.1), old (Python 3.9.2), py313 (Python 3.13.1 and Bash 5.2)"},
		{name: "unknown, no images", asked: "nosuch", none: true, kind: engine.ErrInvalid,
			fault: `"nosuch" is not known; there are no images, only host`},
		{name: "another key's", asked: "old", caller: engine.Caller{Images: "py313"}, kind: engine.ErrInvalid,
			fault: `"old" is not known; there are py313 (Python 3.13.1 and Bash 5.2)`},
		{name: "host is not the key's", asked: "host", caller: engine.Caller{Images: "py313"}, kind: engine.ErrInvalid,
			fault: `"host" is not known; there are py313`},
		{name: "packages are not the key's", packages: "onyx", caller: engine.Caller{Images: "py313"},
			kind: engine.ErrInvalid, fault: "python_packages: cannot be chosen: programs of this key run in images"},
		{name: "the key's is gone", caller: engine.Caller{Images: "gone"}, kind: engine.ErrUnavailable,
			fault: `The settings or the key give this program the image "gone", which is not here; there is none of this key's. ` +
				"Name another image, or have an operator add it with `airlock images add gone REFERENCE`."},
		{name: "the protocol's is gone", origin: engine.OriginMCP, kind: engine.ErrUnavailable,
			fault: `the image "gone", which is not here; there are host, ir`},
	} {
		t.Run(test.name, func(t *testing.T) {
			cfg := engine.Config{Images: rules}
			if test.none {
				cfg = engine.Config{}
			}
			s := enginetest.Start(t, cfg, sandboxtest.NewFake(nil))
			image, err := s.ChooseImage(test.caller, test.origin, test.asked, test.packages)
			switch {
			case test.fault != "":
				e, ok := errors.AsType[*engine.Error](err)
				if !ok || e.Kind != test.kind || !strings.Contains(e.Error()+". "+e.Hint, test.fault) {
					t.Errorf("got %v\nwant %s: %s", err, test.kind, test.fault)
				}
			case err != nil, image == nil && test.want != "", image != nil && image.Name != test.want:
				t.Errorf("got %v, %v, want %q", image, err, test.want)
			}
		})
	}
}

// An error lists twenty images at most.
func TestManyImages(t *testing.T) {
	var many enginetest.Images
	for i := range 30 {
		many = append(many, enginetest.NewImage(fmt.Sprintf("i%02d", i)))
	}
	s := enginetest.Start(t, engine.Config{Images: engine.ImageRules{Store: many}}, sandboxtest.NewFake(nil))
	_, err := s.ChooseImage(engine.Caller{}, engine.OriginNative, "x", "")
	if got := err.Error(); !strings.Contains(got, "i18 (no language), and 11 more") || strings.Contains(got, "i19") {
		t.Error(got)
	}
}

// The sandbox gets the image and its commands. The run, its source and a repeat have its name.
func TestRunInImage(t *testing.T) {
	var got *engine.Spec
	r := newRig(t, engine.Config{
		Images:   engine.ImageRules{Store: enginetest.SomeImages()},
		Packages: engine.PackageSets{Installed: []string{"current", "onyx"}, Keys: map[string]string{"k": "onyx"}},
	}, func(_ context.Context, spec *engine.Spec, _ engine.Host) (*engine.Outcome, error) {
		got = spec
		return sandboxtest.Exit(0), nil
	})
	req := python("1")
	req.Image, req.IdempotencyKey = "py313", "once"
	caller := engine.Caller{Owner: "alice", Key: "k"}
	run, err := r.Run(t.Context(), caller, req)
	if err != nil {
		t.Fatal(err)
	}
	if got.Image == nil || got.Image.ID != "sha256-py313" || got.Packages != "" ||
		got.Language.Run[0] != "/usr/local/bin/python3" {
		t.Errorf("image %v, packages %q, command %q", got.Image, got.Packages, got.Language.Run)
	}
	if run.Image != "py313" || run.Source.Image != "py313" || run.Source.Request(caller).Image != "py313" {
		t.Errorf("image %q, of the source %q", run.Image, run.Source.Image)
	}
	if again, err := r.Run(t.Context(), caller, req); err != nil || again.ID != run.ID || again.Image != "py313" {
		t.Errorf("a repeat is %+v, %v", again, err)
	}
	req.Image = "old"
	_, err = r.Run(t.Context(), caller, req)
	wantKind(t, err, engine.ErrConflict, "idempotency key")

	req = python("1")
	if run, err = r.Run(t.Context(), caller, req); err != nil || got.Image != nil || got.Packages != "onyx" ||
		got.Language.Run[0] != "/usr/bin/python3" || run.Image != "" || run.Source.Image != "" {
		t.Errorf("without an image: %v, %q, %q, %v", got.Image, got.Packages, got.Language.Run, err)
	}
	req.Image = "host"
	if run, err = r.Run(t.Context(), caller, req); err != nil || run.Image != "" || run.Source.Image != "host" {
		t.Errorf("host: %+v, %v", run, err)
	}
	req.Image = "ir"
	_, err = r.Run(t.Context(), caller, req)
	want := "The image ir has Bash 5.2 and R 4.4.1: name one of these languages, or another image."
	if e := wantKind(t, err, engine.ErrNoLanguage, ""); e.Err.Error() != "the image ir has no Python" || e.Hint != want {
		t.Errorf("got %q, %q, want %q", e.Err, e.Hint, want)
	}
}

// A live session is not continued in another image of the same name.
func TestImageOfSessionChanged(t *testing.T) {
	store := enginetest.SomeImages()
	r := newRig(t, engine.Config{Images: engine.ImageRules{Store: store}}, nil)
	session, err := r.CreateSession(t.Context(), alice, engine.SessionRequest{Kind: engine.SessionLive, Live: "{}"})
	if err != nil {
		t.Fatal(err)
	}
	req := python("")
	req.Session, req.Image = session.ID, "py313"
	req.Profile.Live = &engine.Interpreter{Fresh: true, Image: "sha256-py313"}
	if _, err := r.Run(t.Context(), alice, req); err != nil {
		t.Error(err)
	}
	store[0].ID = "sha256-newer"
	_, err = r.Run(t.Context(), alice, req)
	if e := wantKind(t, err, engine.ErrConflict, "image"); !strings.Contains(e.Hint, "Begin a new session") {
		t.Errorf("got %q", e.Hint)
	}
	store[0].Name = "renamed"
	_, err = r.Run(t.Context(), alice, req)
	wantKind(t, err, engine.ErrInvalid, "image")
}

// A key has images that are there. The first is its programs' default.
func TestKeyImages(t *testing.T) {
	r := newRig(t, engine.Config{Images: engine.ImageRules{Store: enginetest.SomeImages()}}, nil)
	for _, bad := range [][]string{{"nosuch"}, {"py313", "py313"}, {""}, {"py313,ir"}} {
		_, _, err := r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "a", Images: bad})
		wantKind(t, err, engine.ErrInvalid, "images")
	}
	_, _, err := r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "a", Images: []string{"ir"}, Packages: "onyx"})
	wantKind(t, err, engine.ErrInvalid, "python_packages")
	key, token, err := r.CreateKey(t.Context(), admin, engine.NewKey{Owner: "a", Images: []string{"py313", "ir", "host"},
		Packages: "onyx"})
	if err != nil {
		t.Fatal(err)
	}
	caller, err := r.Authenticate(t.Context(), token)
	if err != nil || caller.Images != "py313,ir,host" || len(key.ImageNames()) != 3 {
		t.Errorf("%+v, %+v, %v", caller, key, err)
	}
	images, err := r.ImagesOf(caller)
	if err != nil || len(images) != 2 || images[0].Name != "ir" || images[1].Name != "py313" || !caller.MayHaveHost() ||
		r.DefaultImage(caller, engine.OriginNative) != "py313" {
		t.Errorf("%+v, %v", images, err)
	}
}
