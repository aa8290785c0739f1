package e2e

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// toolRound is an answer about a program that calls tools.
type toolRound struct {
	Status string `json:"status"`
	Token  string `json:"continuation_token"`
	Calls  []struct {
		ID    string         `json:"id"`
		Name  string         `json:"name"`
		Input map[string]any `json:"input"`
	} `json:"tool_calls"`
	Partial string `json:"partial_stdout"`
	Stdout  string `json:"stdout"`
	Stderr  string `json:"stderr"`
	Error   string `json:"error"`
	Files   []struct {
		Name string `json:"name"`
	} `json:"files"`
}

const toolList = `[
	{"name":"add-one","description":"Adds.","parameters":{"type":"object","properties":{"note":{"type":"string"},"x":{"type":"integer"}},"required":["x"]}},
	{"name":"fail"},
	{"name":"class","parameters":{"properties":{"user-id":{}}}}]`

// program runs one that calls tools to its end, and returns how many calls each
// round had. The tool add-one adds one; fail fails; class gives its input back.
func (s *service) program(lang, code string) (rounds []int, last toolRound) {
	s.t.Helper()
	request := map[string]any{"code": code, "lang": lang, "tools": json.RawMessage(toolList), "timeout": 30000}
	for {
		body, err := json.Marshal(request)
		if err != nil {
			s.t.Fatal(err)
		}
		last = toolRound{}
		s.do("POST", "/librechat/exec/programmatic", string(body)).decode(s.t, &last)
		if last.Status != "tool_call_required" {
			return rounds, last
		}
		rounds = append(rounds, len(last.Calls))
		var results []map[string]any
		for _, c := range last.Calls {
			r := map[string]any{"call_id": c.ID, "is_error": false}
			switch c.Name {
			case "add-one":
				r["result"] = c.Input["x"].(float64) + 1
			case "class":
				r["result"] = c.Input
			default:
				r["is_error"], r["error_message"] = true, "no luck"
			}
			results = append(results, r)
		}
		request = map[string]any{"continuation_token": last.Token, "tool_results": results}
	}
}

func TestLibreChatTools(t *testing.T) {
	t.Parallel()
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	s := serve(t, who, dataWithPackages(t, who))
	for _, test := range []struct {
		name, lang, code string
		rounds           []int
		stdout, stderr   string
		failed           bool
	}{
		{name: "one after the other", lang: "py", code: "a = await add_one(1)\nb = await add_one(x=a, note='n')\nprint(a, b)",
			rounds: []int{1, 1}, stdout: "2 3\n"},
		{name: "together", lang: "python",
			code: "print(await asyncio.gather(*[add_one(i) for i in range(30)]) == list(range(1, 31)))", rounds: []int{30},
			stdout: "True\n"},
		{name: "tasks", lang: "py", code: "async def two(x):\n    return await add_one(await add_one(x))\n" +
			"ts = [asyncio.create_task(two(i)) for i in range(3)]\nprint([await t for t in ts])", rounds: []int{3, 3},
			stdout: "[2, 3, 4]\n"},
		{name: "beside a clock", lang: "py",
			code: "a, b = await asyncio.gather(asyncio.sleep(0.05, 'slept'), add_one(1))\nprint(a, b)", rounds: []int{1},
			stdout: "slept 2\n"},
		{name: "a loop of its own", lang: "py",
			code: "import asyncio\nasync def main():\n    print(await asyncio.gather(add_one(1), add_one(2)))\n" +
				"asyncio.run(main())", rounds: []int{2}, stdout: "[2, 3]\n"},
		{name: "texts over lines", lang: "py", code: "s = '''a\n    b\n\tc\n'''\nprint(repr(s), await add_one(0))",
			rounds: []int{1}, stdout: "'a\\n    b\\n\\tc\\n' 1\n"},
		{name: "return", lang: "py", code: "if await add_one(1) == 2:\n    print('so')\n    return\nprint('never')",
			rounds: []int{1}, stdout: "so\n"},
		{name: "a failing tool", lang: "py",
			code: "try:\n    await fail()\nexcept ToolExecutionError as e:\n    print('caught', e)", rounds: []int{1},
			stdout: "caught no luck\n"},
		{name: "a failing tool, not caught", lang: "py", code: "x = 1\nasync def f():\n    await fail()\nawait f()",
			rounds: []int{1}, failed: true,
			stderr: "Traceback (most recent call last):\n  File \"/mnt/data/main.py\", line 4, in <module>\n    await f()\n" +
				"  File \"/mnt/data/main.py\", line 3, in f\n    await fail()\nToolExecutionError: no luck\n"},
		{name: "lines keep their numbers", lang: "py", code: "\n\n\n1/0", failed: true,
			stderr: "Traceback (most recent call last):\n  File \"/mnt/data/main.py\", line 4, in <module>\n    1/0\n    ~^~\n" +
				"ZeroDivisionError: division by zero\n"},
		{name: "a syntax error", lang: "py", code: "x = 1\ny = = 2", failed: true,
			stderr: "  File \"/mnt/data/main.py\", line 2\n    y = = 2\n        ^\nSyntaxError: invalid syntax\n"},
		{name: "names", lang: "py", code: "print(await class_tool(user_id=5), add_one.__doc__, __name__)", rounds: []int{1},
			stdout: "{'user-id': 5} Adds. __main__\n"},
		{name: "None is not sent", lang: "py", code: "print(await class_tool(user_id=None))", rounds: []int{1},
			stdout: "{}\n"},
		{name: "a missing argument", lang: "py", code: "try:\n    await add_one()\nexcept TypeError as e:\n    print(e)",
			stdout: "add_one() missing a required argument: 'x'\n"},
		{name: "no tool is called", lang: "py", code: "import sys\nprint(repr(sys.stdin.read()), sys.argv)",
			stdout: "'\\n' ['/mnt/data/main.py']\n"},
		{name: "another encoding", lang: "py",
			code: "# -*- coding: latin-1 -*-\nprint('ü€', await add_one(1))\nraise ValueError('é')", rounds: []int{1},
			stdout: "ü€ 2\n", failed: true,
			stderr: "Traceback (most recent call last):\n  File \"/mnt/data/main.py\", line 3, in <module>\n" +
				"    raise ValueError('é')\nValueError: é\n"},
		{name: "usual names", lang: "py", code: "print(np.add(1, 2))", stdout: "3\n"},
		{name: "exit", lang: "py", code: "await add_one(1)\nraise SystemExit(3)", rounds: []int{1}, failed: true},

		{name: "bash, one after the other", lang: "bash",
			code: "x=$(add_one '{\"x\": 1}')\nadd_one \"{\\\"x\\\": $x}\" | jq -c '[.]'", rounds: []int{1, 1}, stdout: "[3]\n"},
		{name: "bash, together", lang: "bash",
			code: "for i in 1 2 3 4 5 6 7 8; do add_one \"{\\\"x\\\": $i}\" > $i.out & done\nwait\n" +
				"cat *.out | tr '\\n' ' '; rm *.out", rounds: []int{8}, stdout: "2 3 4 5 6 7 8 9 "},
		{name: "bash, a pipe of calls", lang: "bash",
			code: "f() { sleep 0.02; add_one \"$1\" | jq .; }\nf '{\"x\":1}' & f '{\"x\":2}' & wait; echo done", rounds: nil,
			stdout: ""},
		{name: "bash, a failing tool", lang: "bash", code: "echo begun\nfail '{}'\necho on", rounds: []int{1},
			stdout: "begun\n", stderr: "no luck\n", failed: true},
		{name: "bash, a failing tool in a substitution", lang: "bash", code: "x=$(fail '{}')\necho \"on: $x\"",
			rounds: []int{1}, stderr: "no luck\n", failed: true},
		{name: "bash, a failing tool in a pipe", lang: "bash",
			code: "for x in $(fail '{}' | jq .); do echo $x; done\necho on", rounds: []int{1}, stderr: "no luck\n",
			failed: true},
		{name: "bash, a failing tool beside others", lang: "bash",
			code:   "trap 'echo end' EXIT\nadd_one '{\"x\": 1}' >/dev/null & fail '{}' || echo no & wait\necho on",
			rounds: []int{2}, stderr: "no luck\n", failed: true},
		{name: "bash, no object", lang: "bash", code: "add_one nonsense\necho on",
			stderr: "add_one: takes one JSON object, as in: add_one '{\"key\": \"value\"}'\n", failed: true},
		{name: "bash, strict", lang: "bash", code: "set -euo pipefail\nadd_one '{\"x\": 1}'\nfail '{}'\necho never",
			rounds: []int{1, 1}, stdout: "2\n", stderr: "no luck\n", failed: true},
		{name: "bash, lines", lang: "bash", code: "echo $LINENO\nclass '{\"ü\":\"ä\"}'\nexit 0", rounds: []int{1},
			stdout: "1\n{\"ü\":\"ä\"}\n"},
	} {
		t.Run(test.name, func(t *testing.T) {
			if strings.Contains(test.code, "np.") {
				needPackages(t)
			}
			rounds, last := s.program(test.lang, test.code)
			if strings.Contains(test.name, "a pipe of calls") { // how they come depends on the clock
				if last.Status != "completed" || !strings.HasSuffix(last.Stdout, "done\n") || len(last.Stdout) != 9 {
					t.Errorf("%v %+v", rounds, last)
				}
				return
			}
			if strings.HasPrefix(test.name, "bash") && len(test.rounds) == 1 && test.rounds[0] > 1 {
				// How many of a shell's processes call at once depends on the clock, too.
				calls := 0
				for _, n := range rounds {
					calls += n
				}
				if calls > test.rounds[0] || calls < test.rounds[0] && !test.failed {
					t.Errorf("rounds: %v", rounds)
				}
			} else if diff := cmp.Diff(test.rounds, rounds); diff != "" {
				t.Errorf("rounds: %s", diff)
			}
			if last.Stdout != test.stdout || last.Stderr != test.stderr || (last.Status == "error") != test.failed ||
				len(last.Files) > 0 {
				t.Errorf("%+v", last)
			}
		})
	}
}
