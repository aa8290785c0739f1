package e2e

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"testing"
)

// difyClient asks as the CodeExecutor of Dify 1.x does, whose module is on no package
// index: the same address, header, body and reading of the answer.
type difyClient struct {
	*service
	key string
}

type difyAnswer struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
	Data    *struct {
		Stdout, Stderr, Error string
		ExitCode              int `json:"exit_code"`
	} `json:"data"`
}

func (d difyClient) execute(language, preload, code string) (string, error) {
	d.t.Helper()
	body, err := json.Marshal(map[string]any{"language": language, "code": code, "preload": preload,
		"enable_network": true})
	if err != nil {
		d.t.Fatal(err)
	}
	got := d.do("POST", "/dify/v1/sandbox/run", string(body), "X-Api-Key", d.key)
	switch got.status {
	case http.StatusOK:
	case http.StatusServiceUnavailable:
		return "", errors.New("Code execution service is unavailable")
	default:
		return "", fmt.Errorf("Failed to execute code, got status code %d, please check if the sandbox service is running",
			got.status)
	}
	var a difyAnswer
	got.decode(d.t, &a)
	if a.Code != 0 {
		return "", fmt.Errorf("Got error code: %d. Got error msg: %s", a.Code, a.Message)
	}
	if a.Data.Error != "" {
		return "", errors.New(a.Data.Error)
	}
	return a.Data.Stdout, nil
}

// What Dify puts around the code of a node, by language: python3_transformer.py,
// javascript_transformer.py and jinja2_transformer.py.
const (
	difyPython = `%s

import json
from base64 import b64decode

# decode and prepare input dict
inputs_obj = json.loads(b64decode('%s').decode('utf-8'))

# execute main function
output_obj = main(**inputs_obj)

# convert output to json and print
output_json = json.dumps(output_obj, indent=4)
result = f'''<<RESULT>>{output_json}<<RESULT>>'''
print(result)
`
	difyJavaScript = `%s

// decode and prepare input object
var inputs_obj = JSON.parse(Buffer.from('%s', 'base64').toString('utf-8'))

// execute main function
var output_obj = main(inputs_obj)

// convert output to json and print
var output_json = JSON.stringify(output_obj)
var result = ` + "`<<RESULT>>${output_json}<<RESULT>>`" + `
console.log(result)
`
	difyJinja = `
import jinja2, base64
def main(**inputs):
    template = jinja2.Template(base64.b64decode('%s').decode('utf-8'))
    return template.render(**inputs)

import json
from base64 import b64decode

# decode and prepare input dict
inputs_obj = json.loads(b64decode('%s').decode('utf-8'))

# execute main function
output = main(**inputs_obj)

# convert output and print
result = f'''<<RESULT>>{output}<<RESULT>>'''
print(result)
`
)

var difyResult = regexp.MustCompile(`(?s)<<RESULT>>(.*)<<RESULT>>`)

// node runs a Code node to its result.
func (d difyClient) node(language, code string, inputs map[string]any) (map[string]any, error) {
	d.t.Helper()
	text, err := json.Marshal(inputs)
	if err != nil {
		d.t.Fatal(err)
	}
	around := difyPython
	if language == "nodejs" {
		around = difyJavaScript
	}
	out, err := d.execute(language, "", fmt.Sprintf(around, code, base64.StdEncoding.EncodeToString(text)))
	if err != nil {
		return nil, err
	}
	found := difyResult.FindStringSubmatch(out)
	if found == nil {
		d.t.Fatalf("no result in %q", out)
	}
	var result map[string]any
	if err := json.Unmarshal([]byte(found[1]), &result); err != nil {
		d.t.Fatalf("%q: %v", found[1], err)
	}
	return result, nil
}

func TestDifyNodes(t *testing.T) {
	forEachPerson(t, func(t *testing.T, who person) {
		d := difyClient{serve(t, who, dataFolder(t, who)), "dify-sandbox"}
		expectNode := func(language, code, key string, want any) {
			t.Helper()
			got, err := d.node(language, code, map[string]any{"a": 20, "b": "ü日本"})
			if err != nil || fmt.Sprint(got[key]) != fmt.Sprint(want) {
				t.Errorf("%s %q: %v, %v", language, code, got, err)
			}
		}
		expectNode("python3", "def main(a: int, b: str) -> dict:\n    return {'sum': a + 22, 'b': b}", "sum", 42)
		expectNode("python3", "def main(a, b):\n    return {'b': b * 2}", "b", "ü日本ü日本")
		expectNode("python3", "from __future__ import annotations\ndef main(a: nowhere, b):\n    return {'n': __name__}", "n",
			"__main__")
		// The original leaves these in the globals, and programs rely on it.
		expectNode("python3", "def main(a, b):\n    return {'n': [m.__name__ for m in (sys, os, ctypes, traceback)]}", "n",
			"[sys os ctypes traceback]")
		expectNode("python3",
			"import sys\ndef main(a, b):\n    sys.stderr.write('a warning')\n    return {'n': sys.stdin.read()}", "n", "")
		expectNode("python3",
			"def main(a, b):\n    open('kept.txt', 'w').write(b)\n    return {'n': open('kept.txt').read()}", "n", "ü日本")
		expectNode("nodejs", "function main({a, b}) { return {sum: a + 22, b} }", "sum", 42)
		// A script, and a sloppy one.
		expectNode("nodejs", "undeclared = 010; function main() { return {n: require('path').basename('/x/y') + undeclared "+
			"+ (this === globalThis)} }", "n", "y8true")
		// 400,000 characters is as much as a node may give back.
		if got, err := d.node("python3", "def main(a, b):\n    return {'long': '日' * 400000}",
			map[string]any{"a": 1, "b": ""}); err != nil || got["long"] != strings.Repeat("日", 400000) {
			t.Errorf("long: %v", err)
		}
		// One call leaves nothing to the next.
		if _, err := d.node("python3", "def main():\n    return {'n': open('kept.txt').read()}",
			map[string]any{}); err == nil || !strings.Contains(err.Error(), "FileNotFoundError") {
			t.Errorf("another call's file: %v", err)
		}
	})
}

// The user reads the text of an error as it is: with the lines of the program, and
// none of ours.
func TestDifyErrors(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	d := difyClient{serveWith(t, who, dataWithoutPackages(t, who), []string{"SANDBOX_WORKER_TIMEOUT=2"}), ""}
	for code, want := range map[string]string{
		"x = 1\ndef f():\n    return [][x]\nf()": "process exited with code 1\nTraceback (most recent call last):\n" +
			"  File \"main.py\", line 4, in <module>\n    f()\n  File \"main.py\", line 3, in f\n    return [][x]\n" +
			"           ~~^^^\nIndexError: list index out of range\n",
		"x = 1\nif x\n    pass": "process exited with code 1\n  File \"main.py\", line 2\n    if x\n" +
			"        ^\nSyntaxError: expected ':'\n",
		"raise SystemExit(3)":                        "process exited with code 3\n",
		"import sys; sys.exit('bye')":                "process exited with code 1\nbye\n",
		"import os, signal; os.kill(os.getpid(), 9)": "process exited with code 137\n",
		"print('kept', flush=True)\nwhile True: pass": "process exited with code -1\nerror: timeout\n" +
			"The program ran longer than 2 s and was stopped. The operator of the sandbox sets the limit: " +
			"AIRLOCK_DIFY_TIMEOUT.\n",
		"print('x' * (17 << 20))": "output over 16777216 bytes",
		"import urllib.request; urllib.request.urlopen('http://example.com')": "Name or service not known",
	} {
		_, err := d.execute("python3", "raise SystemExit('preload is not run')", code)
		if err == nil || !strings.Contains(strings.ReplaceAll(err.Error(), "f()\n    ~^^\n", "f()\n"), want) {
			t.Errorf("%q: %v", code, err)
		}
	}
	if out, err := d.execute("python3", "", "print('fine')\nimport sys; print('warned', file=sys.stderr)"); err != nil ||
		out != "fine\n" {
		t.Errorf("%q %v", out, err)
	}
}

func TestDifyTemplates(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	d := difyClient{serve(t, who, dataWithPackages(t, who)), "dify-sandbox"}
	needPackages(t)
	if _, err := d.execute("python3", "", "import jinja2"); err != nil {
		skip(t, "the installed set is older than its lock, and has no jinja2: `make test-data` brings it")
	}
	encode := func(text string) string { return base64.StdEncoding.EncodeToString([]byte(text)) }
	out, err := d.execute("python3", "import jinja2\nfrom base64 import b64decode", // as Dify preloads it
		fmt.Sprintf(difyJinja, encode("{% for x in list %}<{{ x }}>\n{% endfor %}"), encode(`{"list":["ü",2]}`)))
	if found := difyResult.FindStringSubmatch(out); err != nil || found == nil || found[1] != "<ü>\n<2>\n" {
		t.Errorf("%q, %v", out, err)
	}
}

func TestDifyKeysAndPackages(t *testing.T) {
	t.Parallel()
	who := anyPerson(t)
	data := dataWithPackages(t, who)
	env := []string{"AIRLOCK_DATA=" + data}
	s := serve(t, who, data)
	if got := s.do("GET", "/dify/v1/sandbox/dependencies?language=python3", "", "X-Api-Key",
		"dify-sandbox"); got.status != 200 ||
		!strings.HasPrefix(string(got.body), `{"code":0,"message":"success","data":{"dependencies":[{"name":"`) {
		t.Errorf("%d %.200s", got.status, got.body)
	}
	key := newKey(t, who, env, "dify")
	if _, err := (difyClient{s, key}).execute("nodejs", "", "console.log(1)"); err != nil {
		t.Error(err)
	}
	for _, wrong := range []string{"", "dify-sandbox", key + "x"} { // the default counts only where no key is needed
		got := s.do("POST", "/dify/v1/sandbox/run", `{"language":"nodejs","code":"1"}`, "X-Api-Key", wrong)
		if got.status != http.StatusUnauthorized || len(got.body) > 0 {
			t.Errorf("%q: %d %s", wrong, got.status, got.body)
		}
	}
	if got := s.do("GET", "/dify/health", ""); string(got.body) != `"ok"` {
		t.Errorf("health: %d %s", got.status, got.body)
	}
}
