package engine_test

import (
	"context"
	"io"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/engine"
	"github.com/airlock-run/airlock/internal/engine/enginetest"
	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// carrier is an Egress that carries nothing.
type carrier struct{}

func (carrier) Open(context.Context, engine.Grant, *os.File, func([]engine.Contact)) (io.Closer, error) {
	return io.NopCloser(nil), nil
}
func (carrier) Authority() (certificate, key []byte, err error) { return nil, nil, nil }

const header = "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 1, in <module>\n"

// ends returns a program that writes to stderr and exits.
func ends(code int, stderr ...string) sandboxtest.Program {
	return func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
		for _, text := range stderr {
			host.Output(engine.Stderr, []byte(text))
		}
		return sandboxtest.Exit(code), nil
	}
}

// sets are installed sets: current has numpy, onyx sklearn and cv2, too.
func sets(names ...string) engine.PackageSets {
	modules := map[string][]string{"current": {"numpy", "PIL"}, "onyx": {"numpy", "sklearn", "cv2"}, "own": {"cv2"}}
	return engine.PackageSets{Installed: names,
		Has: func(set, module string) bool { return slices.Contains(modules[set], module) },
		With: func(distribution string) []string {
			return map[string][]string{"numpy": {"current", "onyx"}, "Pillow": {"current"}, "geopandas": {"librechat"},
				"plotly": {"current"}}[distribution]
		}}
}

func missing(module string) string {
	return header + "ModuleNotFoundError: No module named '" + module + "'\n"
}

func noPip(name string) string {
	return "pip: " + name + " cannot be installed here: there is no network to the package registries.\n"
}

// TestHint has the one line for each way to fail, and the ways that have none.
func TestHint(t *testing.T) {
	operator := engine.Caller{Owner: engine.Local, Admin: true}
	keyed := engine.Caller{Owner: "ann", Key: "k", Network: "api.example.com"}
	withNetwork := func(allow ...string) engine.NetworkConfig {
		return engine.NetworkConfig{Allow: allow, Egress: carrier{},
			Registries: func(context.Context) (engine.Registries, error) {
				return engine.Registries{Allow: []string{"pypi.org:443"}}, nil
			}}
	}
	images := enginetest.SomeImages()
	images[0].Modules = []string{"plotly", "sklearn"}
	images[2].Modules = []string{"plotly"}
	const (
		ifItExists = "If a package of that name exists, "
		can        = " operator can install it with `airlock setup --python-requirements FILE`"
		byOperator = "The" + can
		unreached  = header + "socket.gaierror: [Errno -3] Temporary failure in name resolution\n"
		noNetwork  = "programs have no network here. The operator can allow hosts with network_allow, or for one key with " +
			"`airlock keys create --network`."
	)
	for name, test := range map[string]struct {
		stderr   string
		config   engine.Config
		caller   engine.Caller // zero: alice
		packages string
		image    string
		network  []string
		files    []string
		want     string // without its prefix; empty: no line
	}{
		"nowhere": {stderr: missing("plotly"), config: engine.Config{Packages: sets("current")},
			want: "plotly is not in this environment. " + byOperator + "."},
		"in a wheel": {stderr: missing("sklearn"), config: engine.Config{Packages: sets("current")},
			files: []string{"in/scikit_learn-1.9-cp311-manylinux_x86_64.whl", "other-1.0-py3-none-any.whl"},
			want: "in/scikit_learn-1.9-cp311-manylinux_x86_64.whl is among the program's files, and was not unpacked. " +
				"Before the import: `import shutil, sys; shutil.unpack_archive(\"in/scikit_learn-1.9-cp311-manylinux_x86_64.whl\", " +
				"\"/tmp/sklearn\", \"zip\"); sys.path.insert(0, \"/tmp/sklearn\")`."},
		"in no wheel": {stderr: missing("plotly"), config: engine.Config{Packages: sets("current")},
			files: []string{"plot-1.0-py3-none-any.whl"}, want: "plotly is not in this environment. " + byOperator + "."},
		"before setup": {stderr: missing("numpy"), config: engine.Config{Packages: sets(), Network: withNetwork()},
			want: "numpy is not in this environment. The operator can install it with `airlock setup` and start the service " +
				"again."},
		"before setup, and packages may be asked for": {stderr: missing("PIL"),
			config: engine.Config{Packages: sets(), Network: withNetwork("packages")},
			want: "PIL (package Pillow) is not in this environment. The operator can install it with `airlock setup` and start " +
				"the service again. `pip install Pillow` gets it with network access to packages (`--allow-net packages`, " +
				"field network)."},
		"before setup, at a terminal": {stderr: missing("numpy"), caller: operator,
			config: engine.Config{Packages: sets(), Network: withNetwork()},
			want: "numpy is not in this environment. `airlock setup` installs it; a running service has it once it is started " +
				"again. `pip install numpy` gets it with network access to packages (`--allow-net packages`, field network)."},
		"before setup, of no set": {stderr: missing("bokeh"), config: engine.Config{Packages: sets()},
			want: "bokeh is not in this environment. " + ifItExists + "the" + can + "."},
		"in a set that is not installed": {stderr: missing("geopandas"), config: engine.Config{Packages: sets("current")},
			caller: operator, want: "geopandas is not in this environment. `airlock setup --packages librechat` installs it; a " +
				"running service has it once it is started again."},
		"another name": {stderr: missing("yaml"), config: engine.Config{Packages: sets("current")},
			want: "yaml (package PyYAML) is not in this environment. " + byOperator + "."},
		"below a namespace": {stderr: missing("google.cloud.bigquery"), config: engine.Config{Packages: sets("current")},
			want: "google.cloud.bigquery (package google-cloud-bigquery) is not in this environment. " +
				ifItExists + "the" + can + "."},
		"in a set": {stderr: missing("sklearn"), config: engine.Config{Packages: sets("current", "onyx")},
			want: "sklearn (package scikit-learn) is not in this environment. It is in the package set onyx (`--packages onyx`, " +
				"field python_packages)."},
		"in two sets": {stderr: missing("cv2"), config: engine.Config{Packages: sets("current", "onyx", "own")},
			want: "cv2 (package opencv-python-headless) is not in this environment. It is in the package set onyx " +
				"(`--packages onyx`, field python_packages), and in the package set own (`--packages own`, field python_packages)."},
		"in the default set": {stderr: missing("PIL"), packages: "onyx", config: engine.Config{Packages: sets("current",
			"onyx")},
			want: "PIL (package Pillow) is not in this environment. It is in the package set current (`--packages current`, " +
				"field python_packages)."},
		"in an image": {stderr: missing("plotly"), config: engine.Config{Packages: sets("current"),
			Images: engine.ImageRules{Store: images}},
			want: "plotly is not in this environment. It is in the image old (`--image old`, field image), and in the image " +
				"py313 (`--image py313`, field image)."},
		"in an image of others": {stderr: missing("sklearn"), config: engine.Config{Packages: sets("current"),
			Images: engine.ImageRules{Store: images}}, caller: engine.Caller{Owner: "ann", Images: "host,old"},
			want: "sklearn (package scikit-learn) is not in this environment. " + byOperator + "."},
		"from an image to a set": {stderr: missing("numpy"), image: "py313", config: engine.Config{Packages: sets("current"),
			Images: engine.ImageRules{Store: images}},
			want: "numpy is not in this environment. It is in the package set current (`--packages current`, field " +
				"python_packages)."},
		"not in an image": {stderr: missing("bokeh"), image: "py313", config: engine.Config{Packages: sets("current"),
			Images: engine.ImageRules{Store: images}},
			want: "bokeh is not in this environment. " + ifItExists + "the operator can add it to the image py313."},
		"a package's own name": {stderr: missing("Pillow"), config: engine.Config{Packages: sets("current")},
			want: "the package Pillow is here, and its module is called PIL."},
		"there":              {stderr: missing("numpy"), config: engine.Config{Packages: sets("current")}},
		"a part of a module": {stderr: missing("numpy.nothing"), config: engine.Config{Packages: sets("current")}},
		"removed of Python":  {stderr: missing("telnetlib"), config: engine.Config{Packages: sets("current")}},
		"its own":            {stderr: missing("helper"), config: engine.Config{Packages: sets("current")}},
		"its own, misspelt":  {stderr: missing("pricng"), files: []string{"pricing.py"}},
		"its own package":    {stderr: missing("shapes"), files: []string{"shape/area.py"}},
		"its own, by part":   {stderr: missing("pricing.tax"), files: []string{"pricing/__init__.py"}},
		"may be asked for": {stderr: missing("plotly"), config: engine.Config{Packages: sets("current"),
			Network: withNetwork("packages")}, want: "plotly is not in this environment. `pip install plotly` gets it with network " +
			"access to packages (`--allow-net packages`, field network)."},
		"asked for": {stderr: missing("yaml"), config: engine.Config{Packages: sets("current"),
			Network: withNetwork("packages")},
			network: []string{"packages"}, want: "yaml (package PyYAML) is not in this environment. `pip install PyYAML` gets it: " +
				"this program may contact the package registries."},
		"may be asked for, and may not exist": {stderr: missing("nonexistent_foo"), caller: operator,
			config: engine.Config{Packages: sets("current"), Network: withNetwork()},
			want: "nonexistent_foo is not in this environment. " + ifItExists + "`pip install nonexistent_foo` gets it with " +
				"network access to packages (`--allow-net packages`, field network)."},
		"of Node": {stderr: "Error: Cannot find module 'nonexistent-foo'\n", caller: operator,
			config: engine.Config{Network: withNetwork()},
			want: "the Node package nonexistent-foo is not in this environment. " + ifItExists + "`npm install nonexistent-foo` " +
				"gets it with network access to packages (`--allow-net packages`, field network)."},
		"of R": {stderr: "Error in library(foo) : there is no package called ‘foo’\n",
			want: "the R package foo is not in this environment. " + ifItExists + "the operator can install it."},
		"not to be asked for": {stderr: missing("plotly"), config: engine.Config{Packages: sets("current"),
			Network: withNetwork("api.example.com")}, want: "plotly is not in this environment. " + byOperator +
			", or allow `pip install plotly` (network_allow: packages)."},
		"pip": {stderr: "pip: packages cannot be installed here: there is no network.\nWhat `pip list` names is there.\n",
			config: engine.Config{Network: withNetwork("packages")},
			want:   "`pip install` works with network access to packages (`--allow-net packages`, field network)."},
		"pip without permission": {stderr: "pip: packages cannot be installed here: there is no network.\n"},
		"pip, of a name": {stderr: noPip("plotly"), config: engine.Config{Packages: sets("current")},
			want: "plotly is not in this environment. " + byOperator + "."},
		"pip, of a name that may not exist": {stderr: noPip("bokeh"), config: engine.Config{Packages: sets("current")},
			want: "bokeh is not in this environment. " + ifItExists + "the" + can + "."},
		"pip, of a set": {stderr: noPip("scikit-learn"), config: engine.Config{Packages: sets("current", "onyx")},
			want: "scikit-learn is not in this environment. It is in the package set onyx (`--packages onyx`, field " +
				"python_packages)."},
		"pip, of what may be asked for": {stderr: noPip("plotly"), config: engine.Config{Packages: sets("current"),
			Network: withNetwork("packages")}, want: "plotly is not in this environment. `pip install plotly` gets it with " +
			"network access to packages (`--allow-net packages`, field network)."},
		"pip, of another version": {stderr: noPip("Pillow"), config: engine.Config{Packages: sets("current")},
			want: "the package Pillow is here already, and its module is called PIL."},

		"no network": {stderr: unreached, want: "programs have no network here."},
		"no host is allowed": {stderr: unreached, config: engine.Config{Network: withNetwork()},
			want: noNetwork},
		"hosts are allowed": {stderr: unreached, config: engine.Config{Network: withNetwork("api.example.com", "packages")},
			want: "this program has no network. `--allow-net HOST` (field network) lets it contact a host; allowed are " +
				"api.example.com:80, api.example.com:443, packages."},
		"the operator": {stderr: unreached, config: engine.Config{Network: withNetwork()}, caller: operator,
			want: "this program has no network. `--allow-net HOST` (field network) lets it contact a host."},
		"another host than a key's": {stderr: unreached, config: engine.Config{Network: withNetwork()}, caller: keyed,
			want: "this program may contact api.example.com:80, api.example.com:443 only, through the proxy of HTTPS_PROXY."},

		"a file, and none": {stderr: header + "FileNotFoundError: [Errno 2] No such file or directory: 'sales.csv'\n",
			want: "sales.csv was not sent with the program, which has no files (`-f FILE`, field files)."},
		"a file, and others": {stderr: header +
			"FileNotFoundError: [Errno 2] No such file or directory: '/workspace/sales.csv'\n",
			files: []string{"a.csv", "b.csv"}, want: "sales.csv was not sent with the program. Its files are a.csv, b.csv."},
		"a file elsewhere": {stderr: header + "FileNotFoundError: [Errno 2] No such file or directory: 'data/Sales.csv'\n",
			files: []string{"sales.csv"}, want: "there is no data/Sales.csv, but there is sales.csv: open that."},
		"a folder to write to": {stderr: header + "FileNotFoundError: [Errno 2] No such file or directory: 'out/plot.png'\n"},
		"a file that was there": {stderr: header + "FileNotFoundError: [Errno 2] No such file or directory: 'a.csv'\n",
			files: []string{"a.csv"}},
		"memory": {stderr: header + "MemoryError\n",
			want: "the program and its files may use 1 GiB of memory. Load less at once."},
		"memory, of more": {stderr: header + "MemoryError\n", config: engine.Config{Maxima: engine.Limits{Memory: 2 << 30}},
			want: "the program and its files may use 1 GiB of memory. Load less at once, or ask for up to 2 GiB (`--memory`, " +
				"field limits.memory_bytes)."},
		"disk": {stderr: header + "OSError: [Errno 28] No space left on device\n",
			want: "the program's folder is full: it holds at most 512 MiB and " +
				"10000 files, and /tmp 64 MiB. Write less, or delete files."},
		"disk, and volumes": {stderr: header + "OSError: [Errno 28] No space left on device\n",
			config: engine.Config{Volumes: enginetest.NewFolders(), Maxima: engine.Limits{Workspace: 1 << 30}},
			want: "the program's folder is full: it holds at most 512 MiB and 10000 files, and /tmp 64 MiB. Write less, or " +
				"delete files, or ask for up to 1 GiB (field limits.workspace_bytes), or write to a volume of the service, " +
				"which holds more (`--volume NAME`, field volumes)."},
		"a large file": {stderr: header + "OSError: [Errno 27] File too large\n",
			config: engine.Config{Volumes: enginetest.NewFolders()},
			want: "no file may have more than 512 MiB. Write less, or several files, or write to a volume of the service, " +
				"which holds more (`--volume NAME`, field volumes)."},
		"threads": {stderr: header + "RuntimeError: can't start new thread\n",
			want: "the program wanted more than 128 processes " +
				"and threads, which is as many as it may have. Start fewer (n_jobs, max_workers), or have the operator raise " +
				"AIRLOCK_DEFAULT_PROCESSES."},
		"another error": {stderr: header + "KeyError: 'plotly'\n"},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, test.config, ends(1, test.stderr))
			req := python("")
			req.Packages, req.Image = test.packages, test.image
			caller := test.caller
			if caller.Owner == "" {
				caller = alice
			}
			if len(test.network) > 0 {
				req.Network = &engine.Network{Allow: test.network}
			}
			for _, file := range test.files {
				req.Files = append(req.Files, engine.FileRef{ID: r.put(t, caller, "f", "x").ID, Path: file})
			}
			run, err := r.Run(t.Context(), caller, req)
			if err != nil {
				t.Fatal(err)
			}
			want := test.stderr
			if test.want != "" {
				want += "airlock: " + test.want + "\n"
			}
			if run.Stderr != want {
				t.Errorf("stderr ends\n%s\nwant\n%s", run.Stderr[min(len(run.Stderr), len(test.stderr)):], test.want)
			}
			again, err := r.GetRun(t.Context(), caller, run.ID)
			if err != nil || run.Hint != test.want || again.Hint != test.want {
				t.Errorf("the field says %q, and read again %q (%v), want %q", run.Hint, again.Hint, err, test.want)
			}
		})
	}
}

// A program that was stopped at a limit is told how far the limit can be raised.
func TestHintAtLimit(t *testing.T) {
	for name, test := range map[string]struct {
		outcome engine.Outcome
		maxima  engine.Limits
		want    string
	}{
		"time": {engine.Outcome{TimedOut: true, Signal: "SIGKILL"}, engine.Limits{Timeout: 10 * time.Minute},
			"airlock: the program may take 1 min. Do less at once, or ask for up to 10 min (`--timeout`, field timeout_ms).\n"},
		"time, and no more": {engine.Outcome{TimedOut: true, Signal: "SIGKILL"}, engine.Limits{Timeout: time.Minute}, ""},
		"memory": {engine.Outcome{OOM: true, Signal: "SIGKILL"}, engine.Limits{Memory: 2 << 30},
			"airlock: the program and its files may use 1 GiB of memory. Load less at once, or ask for up to 2 GiB " +
				"(`--memory`, field limits.memory_bytes).\n"},
		"a large file": {engine.Outcome{Signal: "SIGXFSZ"}, engine.Limits{},
			"airlock: no file may have more than 512 MiB. Write less, or several files.\n"},
		"memory, and no more": {engine.Outcome{OOM: true, Signal: "SIGKILL"}, engine.Limits{}, ""},
		"cancelled":           {engine.Outcome{Cancelled: true, Signal: "SIGKILL"}, engine.Limits{Timeout: time.Hour}, ""},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, engine.Config{Defaults: engine.Limits{Timeout: time.Minute}, Maxima: test.maxima},
				func(context.Context, *engine.Spec, engine.Host) (*engine.Outcome, error) { return &test.outcome, nil })
			run, err := r.Run(t.Context(), alice, python(""))
			if err != nil || run.Stderr != test.want {
				t.Errorf("%q, %v; want %q", run.Stderr, err, test.want)
			}
		})
	}
}

// TestHintPlace has where the line stands in the output, and when there is none.
func TestHintPlace(t *testing.T) {
	failed := missing("plotly")
	const line = "airlock: plotly is not in this environment."
	long := strings.Repeat("0123456789\n", 1_000_000)
	for name, test := range map[string]struct {
		program sandboxtest.Program
		output  engine.OutputForm
		limit   engine.OutputLimit
		before  string // what ends where the line begins; empty: there is no line
		stdout  bool
	}{
		"failed":      {program: ends(1, failed), before: "'plotly'\n"},
		"in pieces":   {program: ends(1, failed[:90], failed[90:110], failed[110:]), before: "'plotly'\n"},
		"within line": {program: ends(1, strings.TrimSpace(failed)), before: "'plotly'\n"},
		"ended well":  {program: ends(0, failed)},
		"10 MB":       {program: ends(1, long, failed), before: "'plotly'\n"},
		"10 MB after": {program: ends(1, failed, long)},
		"only a head": {program: ends(1, long, failed), limit: engine.OutputLimit{Bytes: 1000, HeadOnly: true,
			Marker: "\n...[truncated]"}, before: "...[truncated]\n"},
		"merged": {program: func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			host.Output(engine.Stdout, []byte(failed))
			return sandboxtest.Exit(1), nil
		}, output: engine.OutputForm{Merge: true}, before: "'plotly'\n", stdout: true},
		"on stdout": {program: func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			host.Output(engine.Stdout, []byte(failed))
			return sandboxtest.Exit(1), nil
		}},
		"timed out": {program: func(_ context.Context, _ *engine.Spec, host engine.Host) (*engine.Outcome, error) {
			host.Output(engine.Stderr, []byte(failed))
			return &engine.Outcome{TimedOut: true, Signal: "SIGKILL"}, nil
		}},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, engine.Config{}, test.program)
			req := python("")
			req.Profile.Output, req.Profile.Limits.Output = test.output, test.limit
			run, err := r.Run(t.Context(), alice, req)
			if err != nil {
				t.Fatal(err)
			}
			text := run.Stderr
			if test.stdout {
				text = run.Stdout
			}
			before, rest, found := strings.Cut(text, line)
			if found != (test.before != "") || !strings.HasSuffix(before, test.before) ||
				found && strings.Index(rest, "\n") != len(rest)-1 {
				t.Errorf("the output ends %q", text[max(0, len(text)-400):])
			}
			events, err := r.Watch(t.Context(), alice, run.ID, 0)
			if err != nil {
				t.Fatal(err)
			}
			var streamed strings.Builder
			for e := range events {
				if e.Type == engine.EventOutput && (e.Stream == engine.Stdout) == test.stdout {
					streamed.WriteString(e.Data)
				}
			}
			if streamed.String() != text {
				t.Errorf("the events end %q", streamed.String()[max(0, streamed.Len()-400):])
			}
		})
	}
}
