package e2e

import (
	"encoding/json"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// codeReply is an answer of /exec.
type codeReply struct {
	Session string     `json:"session_id"`
	Runtime string     `json:"runtime_session_id"`
	Status  string     `json:"runtime_status"`
	Stdout  string     `json:"stdout"`
	Stderr  string     `json:"stderr"`
	Files   []codeFile `json:"files"`
}

type codeFile struct {
	ID        string `json:"id"`
	Session   string `json:"storage_session_id"`
	Name      string `json:"name"`
	Inherited bool   `json:"inherited"`
}

func (r *codeReply) names() (names []string) {
	for _, f := range r.Files {
		names = append(names, f.Name)
	}
	return names
}

// exec runs a program with more fields of the request, "name", "value", ...
func (s *service) exec(lang, code string, more ...any) (r codeReply) {
	s.t.Helper()
	request := map[string]any{"lang": lang, "code": code}
	for i := 0; i+1 < len(more); i += 2 {
		request[more[i].(string)] = more[i+1]
	}
	body, err := json.Marshal(request)
	if err != nil {
		s.t.Fatal(err)
	}
	s.do("POST", "/librechat/exec", string(body)).decode(s.t, &r)
	return r
}

func libreChatService(t *testing.T, env ...string) *service {
	t.Helper()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	return serveWith(t, who, dataWithPackages(t, who), env)
}

// Variables last for those who ask for it, and where it is switched on.
func TestLibreChatState(t *testing.T) {
	t.Parallel()
	needPackages(t) // without them functions are not kept
	s := libreChatService(t, "AIRLOCK_LIBRECHAT_PYTHON_STATE=on")
	const hint = "v2:conversation:0123456789abcdef0123456789abcdef"
	first := s.exec("py", "import math as m\nx = 41\nxs = [x]\ndef f(): return x + 1\nclass C:\n    y = 3\nc = C()\n"+
		"open('a.txt', 'w').write('a')\nprint(m.pi > 3)", "runtime_session_hint", hint)
	if first.Status != "new" || first.Runtime != first.Session || first.Stdout != "True\n" || first.Stderr != "" ||
		!slices.Equal(first.names(), []string{"a.txt"}) {
		t.Errorf("%+v", first)
	}
	second := s.exec("py", "xs.append(f())\nprint(x, xs, f(), c.y, type(c) is C, m.floor(2.5), open('a.txt').read())\n1/0",
		"runtime_session_hint", hint)
	if second.Status != "reused" || second.Session != first.Session || second.Stdout != "41 [41, 42] 42 3 True 2 a\n" ||
		!slices.Equal(second.names(), []string{"a.txt"}) || !second.Files[0].Inherited ||
		!strings.HasSuffix(second.Stderr, "line 3, in <module>\n    1/0\n    ~^~\nZeroDivisionError: division by zero\n") {
		t.Errorf("%+v", second)
	}
	if r := s.exec("py", "print(xs)\nexit(3)", "runtime_session_hint", hint); r.Stdout != "[41, 42]\n" {
		t.Errorf("after an error: %+v", r)
	}
	if r := s.exec("bash", "cat a.txt; ls -A", "runtime_session_hint", hint); r.Session != first.Session ||
		!strings.HasPrefix(r.Stdout, "a") {
		t.Errorf("in another language: %+v", r)
	}
	if r := s.exec("py", "import threading\nlock = threading.Lock()\nz = 1", "runtime_session_hint",
		hint); r.Stderr != "" {
		t.Errorf("what cannot be kept: %+v", r)
	}
	if r := s.exec("py", "print(z, 'lock' in globals(), x)", "runtime_session_hint", hint); r.Stdout != "1 False 41\n" {
		t.Errorf("%+v", r)
	}
	packages := "import json, email.mime.text, xml.etree.ElementTree\nimport concurrent.futures as cf, pandas as pd\n" +
		"import matplotlib.pyplot\nfrom os import path\n" +
		"with open('fh.txt', 'w') as fh: fh.write('x')\ngen = (i for i in [])\nlist(gen)\nimport threading\n" +
		"t = threading.Thread(target=print)\nt.start()\nt.join()"
	if r := s.exec("py", packages, "runtime_session_hint", hint); r.Stderr != "" {
		t.Errorf("what nobody misses: %+v", r)
	}
	for range 2 { // the second finds what the first found
		code := "print(json.dumps(1), email.mime.text.MIMEText('a')['MIME-Version'], " +
			"xml.etree.ElementTree.fromstring('<a/>').tag, cf.Future().done(), pd.DataFrame({'a': [1]}).a.sum(), " +
			"matplotlib.pyplot.get_fignums(), path.basename('a/b'), 'fh' in globals())"
		if r := s.exec("py", code, "runtime_session_hint", hint); r.Stdout != "1 1.0 a False 1 [] b False\n" ||
			r.Stderr != "" {
			t.Errorf("packages: %+v", r)
		}
	}
	for lang, code := range map[string]string{"py": "import os\nprint(sorted(os.listdir()))", "bash": "ls -A"} {
		if r := s.exec(lang, code, "runtime_session_hint", hint); strings.Contains(r.Stdout, "airlock") ||
			!strings.Contains(r.Stdout, "fh.txt") {
			t.Errorf("what %s sees: %+v", lang, r)
		}
	}
	if r := s.exec("py", "import os\nz = 2\nos.kill(os.getpid(), 9)", "runtime_session_hint", hint); r.Stdout != "" {
		t.Errorf("%+v", r)
	}
	if r := s.exec("py", "print(z, x)", "runtime_session_hint", hint); r.Stdout != "1 41\n" {
		t.Errorf("after a program that was killed: %+v", r)
	}
	for what, more := range map[string][]any{
		"another hint": {"runtime_session_hint", hint[:len(hint)-1] + "e"},
		"another user": {"runtime_session_hint", hint, "user_id", "u2"}, "no name": {},
	} {
		if r := s.exec("py", "print('x' in globals())", more...); r.Stdout != "False\n" || r.Session == first.Session ||
			r.Status != "new" {
			t.Errorf("%s: %+v", what, r)
		}
	}

	one := s.exec("py", "n = 1\nopen('n.txt', 'w').write('n')", "entity_id", "asst_1", "user_id", "u")
	two := s.exec("py", "print(n)", "entity_id", "asst_1", "user_id", "u")
	if two.Stdout != "1\n" || two.Session != one.Session {
		t.Errorf("an entity: %+v", two)
	}
	alone := s.exec("py", "k = 5\nopen('k.txt', 'w').write('k')", "user_id", "u")
	again := s.exec("py", "print(k, open('k.txt').read())", "user_id", "u", "files",
		[]map[string]string{{"id": alone.Files[0].ID, "session_id": alone.Session, "name": "k.txt"}})
	if again.Stdout != "5 k\n" || again.Session != alone.Session {
		t.Errorf("the session of a file: %+v", again)
	}
	if got := s.do("GET", "/librechat/files/"+alone.Session+"?detail=full", ""); strings.Contains(
		string(got.body), "python.state") {
		t.Errorf("the list shows the variables: %s", got.body)
	}
}

func TestLibreChatWithoutState(t *testing.T) {
	t.Parallel()
	s := libreChatService(t)
	a := s.exec("py", "x = 1", "runtime_session_hint", "h", "entity_id", "e")
	if b := s.exec("py", "print('x' in globals())", "runtime_session_hint", "h", "entity_id",
		"e"); b.Stdout != "False\n" || b.Session == a.Session || b.Status+a.Status != "" {
		t.Errorf("%+v", b)
	}
}

// An empty folder is there in the next turn, and what was in a folder of old.
func TestLibreChatFolders(t *testing.T) {
	t.Parallel()
	s := libreChatService(t)
	r := s.exec("bash", "mkdir -p out/empty .cache/x; touch out/a")
	if !slices.Equal(r.names(), []string{"out/a", "out/empty/.dirkeep"}) {
		t.Fatalf("%+v", r)
	}
	refs := []map[string]string{}
	for _, f := range r.Files {
		refs = append(refs, map[string]string{"id": f.ID, "storage_session_id": f.Session, "name": f.Name, "kind": "user"})
	}
	if r := s.exec("bash", "ls -d out/*/", "files", refs); r.Stdout != "out/empty/\n" || len(r.Files) != 2 ||
		!r.Files[0].Inherited || !r.Files[1].Inherited {
		t.Errorf("%+v", r)
	}
}

// A file whose bytes are lost or damaged is 404, so that the client uploads it
// again; the others of its session stay, and the upload mends it.
func TestLibreChatLostFile(t *testing.T) {
	t.Parallel()
	for what, damage := range map[string]func(name string) error{
		"lost":    os.Remove,
		"damaged": func(name string) error { return os.WriteFile(name, []byte("xnce upon a time"), 0o600) },
		"emptied": func(name string) error { return os.Truncate(name, 0) },
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := libreChatService(t)
			r := s.exec("bash", "printf 'once upon a time' > a; printf b > b")
			damaged := 0
			_ = filepath.WalkDir(s.data, func(name string, d os.DirEntry, _ error) error {
				if text, err := os.ReadFile(name); err == nil && string(text) == "once upon a time" && !d.IsDir() {
					damaged++
					if err := damage(name); err != nil {
						t.Error(err)
					}
				}
				return nil
			})
			if damaged != 1 || len(r.Files) != 2 {
				t.Fatalf("%d files were found, of %+v", damaged, r)
			}
			sid := r.Session
			check := func(method, path string, want int) {
				t.Helper()
				if got := s.do(method, "/librechat"+path, ""); got.status != want {
					t.Errorf("%s %s: %d %s", method, path, got.status, got.body)
				}
			}
			check("GET", "/sessions/"+sid+"/objects/"+r.Files[0].ID, http.StatusNotFound)
			check("GET", "/download/"+sid+"/"+r.Files[0].ID, http.StatusNotFound)
			check("GET", "/sessions/"+sid+"/objects/"+r.Files[1].ID, http.StatusOK)
			check("GET", "/download/"+sid+"/"+r.Files[1].ID, http.StatusOK)
			if got := s.do("GET", "/librechat/files/"+sid+"?detail=summary", ""); strings.Contains(
				string(got.body), r.Files[0].ID) || !strings.Contains(string(got.body), r.Files[1].ID) {
				t.Errorf("the list: %s", got.body)
			}
			up := s.post("/librechat/upload", "a", strings.NewReader("once upon a time"))
			var stored struct {
				Session string `json:"storage_session_id"`
				Files   []struct {
					ID string `json:"fileId"`
				} `json:"files"`
			}
			if err := json.Unmarshal(up.body, &stored); err != nil || len(stored.Files) != 1 {
				t.Fatalf("%d %s", up.status, up.body)
			}
			if got := s.do("GET", "/librechat/download/"+stored.Session+"/"+stored.Files[0].ID, ""); string(
				got.body) != "once upon a time" {
				t.Errorf("uploaded again: %d %s", got.status, got.body)
			}
		})
	}
}
