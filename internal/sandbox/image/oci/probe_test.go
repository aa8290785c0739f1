package oci

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/airlock-run/airlock/internal/engine"
)

// answers is a Prober that answers by the path of the command.
type answers map[string]Output

func (answers) Release() {}

func (a answers) Run(_ context.Context, _ *engine.Image, argv []string) (Output, error) {
	out, ok := a[argv[0]]
	if !ok {
		return Output{}, fmt.Errorf("%q was run", argv)
	}
	return out, nil
}

// The languages of an image are those whose commands run in it.
func TestLanguages(t *testing.T) {
	python := func(version string) Output { return Output{Stdout: `{"version": [` + version + `], "modules": []}`} }
	path := func(v string) func(*v1.ConfigFile) {
		return func(c *v1.ConfigFile) { c.Config.Env = []string{"PATH=" + v} }
	}
	for _, tt := range []struct {
		name     string
		layer    []entry
		config   func(*v1.ConfigFile)
		prober   Prober
		want     []string // name, version and path
		warnings []string
		refused  string
	}{
		{"along the path", []entry{program("opt/venv/bin/python", "#"), program("usr/bin/python3", "#")},
			path("/none:/opt/venv/bin:relative"), answers{"/opt/venv/bin/python": python("3, 8, 0")},
			[]string{"python 3.8.0 /opt/venv/bin/python"}, nil, ""},
		{"through links", []entry{symlink("bin", "usr/bin"), program("opt/node/bin/node", "#"),
			symlink("usr/bin/node", "../../etc/alternatives/node"), symlink("etc/alternatives/node", "/opt/node/bin/node")},
			path("/bin"), answers{"/bin/node": {Stdout: "v22.3.1\n"}},
			[]string{"js 22.3.1 /bin/node", "ts 22.3.1 /bin/node"}, nil, ""},
		{"link out", []entry{symlink("bin/bash", "/../../../../../../usr/bin/bash"), program("bin/sh", "#")},
			path("/bin"), answers{"/bin/sh": {Stdout: "0.0\n"}}, []string{"bash  /bin/sh"}, nil, ""},
		{"broken python", []entry{program("usr/bin/python3", "#"), program("bin/sh", "#")}, path("/usr/bin:/bin"),
			answers{"/usr/bin/python3": {Code: 127, Stderr: "x\nlibz.so.1: cannot open\n"}, "/bin/sh": {Stdout: "0.0\n"}},
			[]string{"bash  /bin/sh"}, []string{"python3 is there but does not run: libz.so.1: cannot open"}, ""},
		{"another python", []entry{program("bin/python3", "#"), program("bin/python", "#")}, path("/bin"),
			answers{"/bin/python3": {Failure: "it is slow"}, "/bin/python": python("3, 12, 1")},
			[]string{"python 3.12.1 /bin/python"}, nil, ""},
		{"old python", []entry{program("bin/python3", "#"), program("bin/sh", "#")}, path("/bin"),
			answers{"/bin/python3": python("3, 7, 9"), "/bin/sh": {}}, nil, nil, "python3 is Python 3.7.9, and programs need"},
		{"python that says something else", []entry{program("bin/python3", "#")}, path("/bin"),
			answers{"/bin/python3": {Stdout: "hello"}}, nil, nil, "does not say its version"},
		{"java without its compiler", []entry{program("bin/java", "#")}, path("/bin"), answers{}, nil, nil, "no shell"},
		{"java", []entry{program("opt/jdk/bin/java", "#"), program("opt/jdk/bin/javac", "#")}, path("/opt/jdk/bin"),
			answers{"/opt/jdk/bin/java": {Stderr: `openjdk version "21.0.4" 2024-07-16`}},
			[]string{"java 21.0.4 /opt/jdk/bin/java"}, nil, ""},
		{"others", []entry{program("bin/Rscript", "#"), program("bin/go", "#"), program("bin/gcc", "#")}, path("/bin"),
			answers{"/bin/Rscript": {Stderr: "Rscript (R) version 4.5.0 (2025-04-11)"},
				"/bin/go": {Stdout: "go version go1.24.1 linux/amd64"}, "/bin/gcc": {Stdout: "gcc (Debian 12.2.0-14) 12.2.0"}},
			[]string{"c 12.2.0 /bin/gcc", "go 1.24.1 /bin/go", "r 4.5.0 /bin/Rscript"}, nil, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			s := newStore(t, func(c *Config) { c.Prober = tt.prober })
			image := configured(t, []v1.Layer{layerOf(t, tarOf(t, tt.layer...))}, tt.config)
			r, err := s.Add(t.Context(), "it", "oci:"+writeLayout(t, image, "it"), nil)
			if tt.refused != "" {
				checkError(t, err, engine.ErrForbidden, tt.refused)
				checkEmpty(t, s)
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			var got []string
			for _, l := range r.Image.Languages {
				got = append(got, l.Name+" "+l.Version+" "+l.Path)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("languages: -want +got\n%s", diff)
			}
			if diff := cmp.Diff(tt.warnings, r.Warnings); diff != "" {
				t.Errorf("warnings: -want +got\n%s", diff)
			}
		})
	}
}

// keepEnvironment is a Prober that keeps the environment of the image.
type keepEnvironment struct {
	fakeProber
	env *[]string
}

func (k keepEnvironment) Run(ctx context.Context, image *engine.Image, argv []string) (Output, error) {
	*k.env = image.Env
	return k.fakeProber.Run(ctx, image, argv)
}

// Programs are tried in the environment of their image, without which some do not start.
func TestProbesHaveEnvironment(t *testing.T) {
	var got []string
	s := newStore(t, func(c *Config) { c.Prober = keepEnvironment{env: &got} })
	image := configured(t, []v1.Layer{layerOf(t, tarOf(t, simple("x")...))}, func(c *v1.ConfigFile) {
		c.Config.Env = []string{"LD_LIBRARY_PATH=/usr/local/lib"}
	})
	add(t, s, "it", "oci:"+writeLayout(t, image, "it"))
	if diff := cmp.Diff([]string{"LD_LIBRARY_PATH=/usr/local/lib"}, got); diff != "" {
		t.Errorf("-want +got\n%s", diff)
	}
}

// A machine that cannot run programs adds no image.
func TestNoSandbox(t *testing.T) {
	s := newStore(t, func(c *Config) { c.Prober = answers{} })
	_, err := s.Add(t.Context(), "it", "oci:"+writeLayout(t, imageOf(t, simple("x")), "it"), nil)
	if err == nil || !strings.Contains(err.Error(), "was run") {
		t.Errorf("error is %v, want the prober's", err)
	}
	checkEmpty(t, s)
}

// Modules to preload are asked for, or the label's, and those that cannot be imported are said.
func TestPreload(t *testing.T) {
	labelled := func(label string) string {
		layers := []v1.Layer{layerOf(t, tarOf(t, simple("x")...))}
		return "oci:" + writeLayout(t, configured(t, layers, func(c *v1.ConfigFile) {
			c.Config.Labels = map[string]string{labelPreload: label}
		}), "it")
	}
	for _, tt := range []struct {
		label    string
		asked    []string
		want     string
		warnings string
	}{
		{"numpy pandas.core", nil, "numpy pandas.core", ""},
		{"numpy", []string{"idna"}, "idna", ""},
		{"numpy", []string{}, "", ""},
		{"numpy missing", nil, "numpy", "missing is not preloaded: ModuleNotFoundError"},
		{"numpy; rm -rf /", nil, "", "nothing is preloaded"},
		{strings.Repeat("numpy ", maxPreload+1), nil, "", "nothing is preloaded"},
	} {
		s := newStore(t)
		r, err := s.Add(t.Context(), "it", labelled(tt.label), tt.asked)
		if err != nil {
			t.Fatal(err)
		}
		got, said := strings.Join(r.Image.Preload, " "), strings.Join(r.Warnings, " ")
		if got != tt.want || !strings.HasPrefix(said, tt.warnings) || (tt.warnings == "") != (said == "") {
			t.Errorf("label %.30q, asked %q: preloads %q with %q, want %q with %q", tt.label, tt.asked, got, said, tt.want,
				tt.warnings)
		}
	}
	_, err := newStore(t).Add(t.Context(), "it", labelled(""), []string{"a b"})
	checkError(t, err, engine.ErrInvalid, "no name of a Python module")
}

// An image's environment is bounded, and has no variables that are Airlock's.
func TestEnvironment(t *testing.T) {
	many := make([]string, 0, 300)
	for i := range 300 {
		many = append(many, fmt.Sprintf("V%d=x", i))
	}
	for _, tt := range []struct{ all, want []string }{
		{[]string{"PATH=/bin", "HOME=/root", "USER=x", "EMPTY=", "none", "=x", "Z=a\x00b", "A=b=c"},
			[]string{"PATH=/bin", "EMPTY=", "A=b=c"}},
		{[]string{"A=" + strings.Repeat("x", 70_000), "B=c"}, nil},
		{many, many[:maxVariables]},
	} {
		if diff := cmp.Diff(tt.want, environment(tt.all)); diff != "" {
			t.Errorf("-want +got\n%s", diff)
		}
	}
}

// Images come from a Docker daemon, and from archives that were compressed as a whole.
func TestOtherSources(t *testing.T) {
	temp := t.TempDir()
	tag, err := name.NewTag("team/image:1")
	if err != nil {
		t.Fatal(err)
	}
	var archive bytes.Buffer
	if err := tarball.Write(tag, imageOf(t, simple("one")), &archive); err != nil {
		t.Fatal(err)
	}
	packed := filepath.Join(temp, "packed.tar.gz")
	if err := os.WriteFile(packed, gzipped(t, archive.Bytes()), 0o600); err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(temp, "docker.sock")
	listener, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/images/get" || r.URL.Query().Get("names") != "team/image:1" {
			http.NotFound(w, r)
			return
		}
		_, _ = io.Copy(w, bytes.NewReader(archive.Bytes()))
	})}
	served := make(chan error)
	go func() { served <- server.Serve(listener) }()
	t.Cleanup(func() { server.Close(); <-served })
	var ids []string
	for _, reference := range []string{"docker-daemon:team/image:1", "docker-archive:" + packed} {
		s := newStore(t, func(c *Config) { c.Docker = socket })
		i := add(t, s, "it", reference)
		if got, _ := os.ReadFile(s.path(i.ID, rootName, "etc/content")); string(got) != "one" || i.Reference != reference {
			t.Errorf("%s: content %q of %s, want one", reference, got, i.Reference)
		}
		if got := contents(t, s); len(got) != 2 {
			t.Errorf("%s: the store has %q", reference, got)
		}
		ids = append(ids, i.ID)
	}
	if ids[0] != ids[1] {
		t.Errorf("ids are %q, want one", ids)
	}
	s := newStore(t, func(c *Config) { c.Docker = socket })
	_, err = s.Add(t.Context(), "it", "docker-daemon:none", nil)
	checkError(t, err, engine.ErrNotFound, "does not give")
	if err := os.WriteFile(packed, gzipped(t, archive.Bytes())[:archive.Len()/10], 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = s.Add(t.Context(), "it", "docker-archive:"+packed, nil)
	if err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("an archive that was cut off: %v", err)
	}
	checkEmpty(t, s)
}
