package e2e

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/e2e/indextest"
)

// netLog is what `airlock net log` says of a service.
func (s *service) netLog() (list []contact) {
	s.t.Helper()
	got := s.who.run(s.t, nil, "net", "log", "--data", s.data, "--json")
	var log struct{ Contacts []contact }
	if err := json.Unmarshal([]byte(got.stdout), &log); err != nil || got.code != 0 {
		s.t.Fatalf("%v: %+v", err, got)
	}
	return log.Contacts
}

type contact struct {
	Run, Owner, Host, Address, Verdict, Reason string
	Port                                       int
	Sent, Received                             int64
}

// count returns how many lines have a verdict and a host.
func count(list []contact, verdict, host string) (n int) {
	for _, c := range list {
		if c.Verdict == verdict && c.Host == host {
			n++
		}
	}
	return n
}

const pipInstall = `import subprocess, sys
print(subprocess.run([sys.executable, "-m", "pip", "install", "-q", "greeting"], stderr=subprocess.STDOUT,
    capture_output=False, stdout=subprocess.PIPE, text=True).stdout)
import importlib; importlib.invalidate_caches()
open("made.txt", "w").write("made")
import greeting; print(greeting.greet())
`

const npmInstall = `[ -v https_proxy ] || export npm_config_fetch_retries=0
npm install --silent --no-audit --no-fund greeting 2>&1
echo made >made.txt
node -e 'console.log(require("greeting").greet())'`

// A program installs a package from an index that it was allowed, and not without: neither
// the grant of another host nor none will do. The log has both.
func TestNetworkInstall(t *testing.T) {
	x := indextest.New(t, skip)
	x.AddUV(t)
	uv := `pip install -q uv && export PATH=$PWD/.packages/bin:$PATH && uv venv -q .venv && uv pip install -q greeting &&
		.venv/bin/python -c "import greeting; print(greeting.greet(), greeting.__file__)"`
	forEachPerson(t, func(t *testing.T, who person) {
		s := serveWith(t, who, dataFolder(t, who), x.Env(), "--network-allow", "packages", "--network-private", x.Subnet)
		run := func(grant, language, code string) (string, []file) {
			t.Helper()
			args := []string{"run", "--data", s.data, "-l", language, "-c", code, "--json", "--timeout", "120"}
			if grant != "" {
				args = append(args, "--allow-net", grant)
			}
			got := who.run(t, nil, args...)
			var r run
			if err := json.Unmarshal([]byte(got.stdout), &r); err != nil {
				t.Fatalf("%v: %+v", err, got)
			}
			return r.Stdout + r.Stderr, r.Files
		}
		for _, c := range []struct{ language, code, want string }{
			{"python", pipInstall, "hello from a package\n"},
			{"bash", npmInstall, "hello from a module\n"},
			{"bash", uv, "hello from a package /workspace/.venv/"},
		} {
			if text, _ := run("", c.language, c.code); strings.Contains(text, "hello") {
				t.Errorf("without a grant: %s", text)
			}
			text, files := run("packages", c.language, c.code)
			if !strings.Contains(text, c.want) {
				t.Errorf("%s: %s", c.language, text)
			}
			for _, f := range files {
				if f.Path != "made.txt" && !strings.HasPrefix(f.Path, "package") { // what npm writes beside its folder
					t.Errorf("what was installed is output: %+v", f)
				}
			}
		}
		if text, _ := run("nowhere.example", "python",
			fmt.Sprintf("import os; os.environ['PIP_INDEX_URL'] = '%s/simple/'\n"+
				"os.environ['PIP_TRUSTED_HOST'] = %q\n", x.URL, x.Address)+pipInstall); strings.Contains(text, "hello") {
			t.Errorf("with the grant of another host: %s", text)
		}
		list := s.netLog()
		if count(list, "allowed", x.Address) < 3 || count(list, "refused", x.Address) == 0 {
			t.Errorf("the log: %+v", list)
		}
		for _, c := range list {
			if c.Verdict == "allowed" && (c.Address != x.Address || c.Received == 0 || c.Run == "" || c.Owner == "") {
				t.Errorf("%+v", c)
			}
		}
		// Over HTTP there is no more than what the operator allowed, for anybody.
		got := s.do("POST", "/api/v1/runs", `{"language":"python","code":"1","network":{"allow":["*"]}}`)
		if got.status != http.StatusForbidden || !strings.Contains(string(got.body), "network_denied") {
			t.Errorf("%d %s", got.status, got.body)
		}
	})
}

// What one cell installs the next one imports, in every process of the session.
func TestNetworkLive(t *testing.T) {
	x := indextest.New(t, skip)
	forEachPerson(t, func(t *testing.T, who person) {
		s := serveWith(t, who, dataFolder(t, who), x.Env(), "--network-allow", "packages", "--network-private", x.Subnet)
		l := s.live(`{"kind":"live","network":{"allow":["packages"]}}`)
		made := l.cell("import subprocess, sys\n" +
			`subprocess.run([sys.executable, "-m", "pip", "install", "-q", "greeting"], check=True)` + "\nopen('a.txt', 'w').write('a')")
		if made.Status != "ok" || len(made.Files) != 1 {
			t.Errorf("%+v", made)
		}
		l.expect("import greeting\ngreeting.greet()", "'hello from a package'\n")
		l.expect(`subprocess.run([sys.executable, "-c", "import greeting; print(greeting.greet())"])`+";",
			"hello from a package\n")
		other := s.live(`{"kind":"live","network":{"allow":["packages"]}}`)
		if c := other.cell("import greeting"); c.Status == "ok" {
			t.Errorf("another session has it: %+v", c)
		}
	})
}

// TestNetworkPackages installs packages for a session that has no network and gets none, but for the installer; then
// its network is changed.
func TestNetworkPackages(t *testing.T) {
	x := indextest.New(t, skip)
	who := root(t)
	s := serveWith(t, who, dataFolder(t, who), x.Env(), "--network-allow", "packages", "--network-private", x.Subnet)
	l := s.live(`{"kind":"live"}`)
	l.expect("x = 41\ntry:\n    import greeting\nexcept ImportError: print('not yet')", "not yet\n")
	for body, status := range map[string]int{`{"names":["greeting"]}`: 200, `{"names":["--pre"]}`: 400,
		`{"names":["http://` + x.Address + `/x.whl"]}`: 400, `{"names":["a' 'b"]}`: 400, `{"names":[]}`: 400} {
		if got := l.ask("POST", "/packages", body); got.status != status ||
			status == 200 && !strings.Contains(string(got.body), `"files":[]`) {
			t.Errorf("%s: %d %s", body, got.status, got.body)
		}
	}
	l.expect("import greeting\ngreeting.greet(), x", "('hello from a package', 41)\n")
	reach := "import urllib.request\ntry:\n    print(urllib.request.urlopen('" + x.URL +
		"/simple/greeting/', timeout=5).status)\nexcept OSError: print('no network')"
	l.expect(reach, "no network\n")
	if made := l.cell("open('a.txt', 'w').write('a');"); len(made.Files) != 1 { // packages are no files of the session
		t.Errorf("%+v", made.Files)
	}

	network := func(method, body string, status int, want string) {
		t.Helper()
		if got := l.ask(method, "/network", body); got.status != status || !strings.Contains(string(got.body), want) {
			t.Errorf("%s %s: %d %s, want %d %s", method, body, got.status, got.body, status, want)
		}
	}
	network("GET", "", 200, `{"allow":[],"deny":[],"may":["packages"],"may_by":"service"}`)
	network("PUT", `{"allow":["elsewhere.example"]}`, 403, "network_denied")
	l.expect("x", "41\n") // nothing has ended
	network("PUT", `{"allow":["packages"]}`, 200, `"allow":["packages"],"deny":[],"by":"session"`)
	if c := l.cell("x"); c.Status == "ok" || !strings.Contains(c.Message, "What its programs may contact was changed.") {
		t.Errorf("%+v", c)
	}
	l.expect("from pathlib import Path; Path('a.txt').read_text()", "'a'\n")
	l.expect(reach, "200\n")
	network("PUT", `{"allow":[]}`, 200, `{"allow":[],"deny":[]`)
	l.expect(reach, "no network\n")
	if list := s.netLog(); count(list, "allowed", x.Address) == 0 {
		t.Errorf("the log: %+v", list)
	}

	node := s.live(`{"kind":"live","language":"javascript"}`)
	if got := node.ask("POST", "/packages", `{"names":["greeting"]}`); got.status != 200 ||
		!strings.Contains(string(got.body), `"status":"ok"`) || strings.Contains(string(got.body), ".packages") {
		t.Errorf("%d %s", got.status, got.body)
	}
	node.expect("require('greeting').greet()", "'hello from a module'\n")
	none := serveWith(t, who, dataFolder(t, who), x.Env())
	if got := none.live(`{"kind":"live"}`).ask("POST", "/packages", `{"names":["greeting"]}`); got.status != 403 ||
		!strings.Contains(string(got.body), "network_allow") {
		t.Errorf("without permission: %d %s", got.status, got.body)
	}
}

// poison changes all that a program can reach of what is installed, and every place where a
// cache is or could be.
const poison = `import glob, os, pathlib, subprocess, sys
pip = [sys.executable, "-m", "pip", "install", "-q", "greeting"]
subprocess.run(pip, check=True)
for name in ("greeting", "sitecustomize", "usercustomize", "requests"):
    pathlib.Path(".packages", name + ".py").write_text('def greet(): return "poisoned"')
import zipfile, urllib.request
tried = 0
for root in (os.path.expanduser("~"), "/tmp", "/var/tmp", "/dev/shm", "/root", "/opt", "/usr/local", *sys.path,
             os.environ["PIP_TARGET"],
             *(os.environ.get(n, "") for n in ("PIP_CACHE_DIR", "UV_CACHE_DIR", "npm_config_cache", "XDG_CACHE_HOME"))):
    for place in (root, root + "/.cache/pip", root + "/.cache/uv", root + "/.npm/_cacache",
                  root + "/.local/lib/python3.11/site-packages"):
        for name in ("greeting.py", "greeting-1.0-py3-none-any.whl", "sitecustomize.py"):
            try:
                os.makedirs(place, exist_ok=True)
                pathlib.Path(place, name).write_text('def greet(): return "poisoned"')
                tried += 1
            except OSError: pass
print("poisoned" if tried > 3 else "nothing was written")
`

// A tenant that changes what is installed, and all that could be a cache, changes nothing of another's:
// packages come from the index each time, and there is nothing that two share.
func TestNetworkPoison(t *testing.T) {
	x := indextest.New(t, skip)
	const file = "/files/greeting-1.0-py3-none-any.whl"
	eachPerson(t, func(t *testing.T, who person) {
		data := dataFolder(t, who)
		key := map[string]string{}
		for _, owner := range []string{"mallory", "alice"} {
			made := who.run(t, nil, "keys", "create", "--data", data, "--owner", owner)
			if made.code != 0 {
				t.Fatalf("keys create: %+v", made)
			}
			key[owner] = strings.TrimSpace(made.stdout)
		}
		s := serveWith(t, who, data, x.Env(), "--network-allow", "packages", "--network-private", x.Subnet)
		live := func(owner string) *liveOf {
			return s.live(`{"kind":"live","network":{"allow":["packages"]}}`, "Authorization", "Bearer "+key[owner])
		}
		mallory := live("mallory")
		mallory.expect(poison, "poisoned\n")
		// Where it is not another session it works: this is what the others are spared.
		mallory.expect(`subprocess.run([sys.executable, "-c", "import greeting; print(greeting.greet())"]);`, "poisoned\n")
		for _, owner := range []string{"alice", "mallory"} {
			before := x.Times(file)
			l := live(owner)
			l.expect("import importlib.util; print([importlib.util.find_spec(n) for n in ('greeting', 'usercustomize')])",
				"[None, None]\n")
			l.cell("import subprocess, sys\n" +
				`subprocess.run([sys.executable, "-m", "pip", "install", "-q", "greeting"], check=True)`)
			l.expect("import greeting\ngreeting.greet()", "'hello from a package'\n")
			if x.Times(file) != before+1 {
				t.Errorf("%s's package did not come from the index", owner)
			}
		}
	})
}
