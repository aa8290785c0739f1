package e2e

import (
	"bytes"
	"cmp"
	"context"
	"encoding/csv"
	"encoding/json"
	"flag"
	"fmt"
	"image/png"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

var updateFrameworks = flag.Bool("update-frameworks", false,
	"write the examples and their outputs into docs/frameworks.md")

const (
	mcpWay    = "MCP, `airlock mcp`"
	e2bWay    = "E2B"
	pythonWay = "client for Python"
)

// frameworks are those of docs/frameworks.md, each with an example.
var frameworks = []struct {
	name, title string
	example     string // in examples/frameworks
	environment string // of frameworks/install, if it is not the name
	packages    []string
	way         string
	// picture says that the model gets the picture of a tool's answer too.
	picture bool
	first   reply
	second  func(line string) string
}{
	{name: "pydantic-ai", title: "Pydantic AI", example: "use_pydantic_ai.py", packages: []string{"pydantic-ai-slim"},
		way: mcpWay, picture: true, first: runCodeCall},
	{name: "langgraph", title: "LangChain, LangGraph", example: "use_langgraph.py",
		packages: []string{"langchain", "langgraph"}, way: pythonWay, first: runPythonCall},
	{name: "deepagents", title: "LangChain's deep agents", example: "use_deepagents.py",
		packages: []string{"deepagents"}, way: e2bWay, first: reply{tool: "execute",
			arguments: map[string]any{"command": "cat > revenue.py <<'EOF'\n" + frameworkCode + "\nEOF\npython3 revenue.py"}}},
	{name: "llama-index", title: "LlamaIndex", example: "use_llama_index.py", packages: []string{"llama-index-core"},
		way: pythonWay, first: runPythonCall},
	{name: "openai-agents", title: "OpenAI's Agents SDK for Python", example: "use_openai_agents.py",
		packages: []string{"openai-agents"}, way: mcpWay, picture: true, first: runCodeCall},
	{name: "openai-agents-js", title: "OpenAI's Agents SDK for JavaScript", example: "use_openai_agents.mjs",
		environment: "javascript", packages: []string{"@openai/agents"}, way: mcpWay, first: runCodeCall},
	{name: "ai-sdk", title: "Vercel's AI SDK", example: "use_ai_sdk.mjs", environment: "javascript",
		packages: []string{"ai"}, way: mcpWay, picture: true, first: runCodeCall},
	{name: "smolagents", title: "smolagents", example: "use_smolagents.py", packages: []string{"smolagents"},
		way: e2bWay, first: reply{text: "Thought: pandas.\n<code>\n" + frameworkCode + "\n</code>"},
		second: func(line string) string {
			return "Thought: done.\n<code>\nfinal_answer(" + strconv.Quote(line+". The chart is in revenue.png.") + ")\n</code>"
		}},
	{name: "crewai", title: "CrewAI", example: "use_crewai.py", packages: []string{"crewai"}, way: mcpWay,
		first: runCodeCall},
	{name: "autogen", title: "AutoGen", example: "use_autogen.py", packages: []string{"autogen-agentchat"},
		way: mcpWay, first: runCodeCall},
	{name: "dspy", title: "DSPy", example: "use_dspy.py", packages: []string{"dspy"}, way: pythonWay,
		first: reply{text: dspyStep("I read the file.", frameworkCode)},
		second: func(line string) string {
			return dspyStep("I have seen it.", "SUBMIT(answer="+strconv.Quote(line+". The chart is in revenue.png.")+")")
		}},
	{name: "haystack", title: "Haystack", example: "use_haystack.py", packages: []string{"haystack-ai"}, way: mcpWay,
		first: runCodeCall},
}

var (
	runCodeCall = reply{tool: "run_code", arguments: map[string]any{"code": frameworkCode, "files": []string{"sales.csv"}}}

	runPythonCall = reply{tool: "run_python", arguments: map[string]any{"code": frameworkCode}}
)

func dspyStep(reasoning, code string) string {
	return "[[ ## reasoning ## ]]\n" + reasoning + "\n\n[[ ## code ## ]]\n```python\n" + code + "\n```\n\n[[ ## completed ## ]]"
}

// TestFrameworks has agents of frameworks run code on a file: each example of docs/frameworks.md, as it is there. The
// model is scripted, and all else is real.
func TestFrameworks(t *testing.T) {
	wanted := strings.FieldsFunc(os.Getenv("AIRLOCK_TEST_FRAMEWORKS"), func(r rune) bool { return r == ',' || r == ' ' })
	if len(wanted) == 0 {
		t.Skip("the frameworks take 2 GB: `make test-frameworks` installs and tests them, or AIRLOCK_TEST_FRAMEWORKS=dspy,crewai")
	}
	who := person{name: "user"}
	if os.Geteuid() == 0 {
		who = root(t)
	}
	data := dataWithPackages(t, who)
	made := who.run(t, nil, "keys", "create", "--data", data, "--owner", "ann")
	key := strings.TrimSpace(made.stdout)
	if made.code != 0 || key == "" {
		t.Fatalf("%+v", made)
	}
	e2b := e2bKey(t, who, data, "ann")
	s := serve(t, who, data)
	sales, err := os.ReadFile("../testdata/sales.csv")
	if err != nil {
		t.Fatal(err)
	}
	line := bestRegion(t, sales)
	known, outputs := []string{"all"}, map[string]string{}
	for _, f := range frameworks {
		known = append(known, f.name)
		if !slices.Contains(wanted, f.name) && !slices.Contains(wanted, "all") {
			continue
		}
		t.Run(f.name, func(t *testing.T) {
			model := newFrameworkModel(t, f.first, f.second)
			folder := t.TempDir()
			if err := os.WriteFile(filepath.Join(folder, "sales.csv"), sales, 0o600); err != nil {
				t.Fatal(err)
			}
			stdout := runFramework(t, folder, f.example, cmp.Or(f.environment, f.name), "OPENAI_BASE_URL="+model.url,
				"OPENAI_API_KEY=sk-scripted", "OPENAI_MODEL=gpt-5-mini", "AIRLOCK_SERVER="+s.url, "AIRLOCK_KEY="+key,
				"E2B_API_URL="+s.url+"/e2b", "E2B_SANDBOX_URL="+s.url+"/e2b", "E2B_API_KEY="+e2b)
			// CrewAI prints a log before.
			at := strings.LastIndex("\n"+stdout, "\n"+line)
			if at < 0 {
				t.Fatalf("%q does not have %q", stdout, line)
			}
			stdout = stdout[at:]
			made, err := os.ReadFile(filepath.Join(folder, "revenue.png"))
			if err != nil {
				t.Fatal(err)
			}
			picture, err := png.Decode(bytes.NewReader(made))
			if err != nil {
				t.Fatal(err)
			}
			if model.picture != f.picture {
				t.Errorf("the model got a picture: %t", model.picture)
			}
			size := picture.Bounds().Size()
			outputs[f.name] = fmt.Sprintf("%s\nrevenue.png: %d × %d pixels", strings.TrimSpace(stdout), size.X, size.Y)
			t.Logf("by %s, %d requests: %s", strings.Join(model.apis, " and "), model.asked, outputs[f.name])
		})
	}
	for _, name := range wanted {
		if !slices.Contains(known, name) {
			t.Errorf("AIRLOCK_TEST_FRAMEWORKS=%s is none of %q", name, known)
		}
	}
	if t.Failed() {
		return
	}
	frameworksPage(t, outputs)
}

// TestFrameworksPage compares the page with the examples.
func TestFrameworksPage(t *testing.T) {
	frameworksPage(t, nil)
}

// bestRegion returns what the model's code prints.
func bestRegion(t *testing.T, sales []byte) string {
	t.Helper()
	rows, err := csv.NewReader(bytes.NewReader(sales)).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	revenue := map[string]float64{}
	best := ""
	for _, row := range rows[1:] {
		units, _ := strconv.ParseFloat(row[3], 64)
		price, _ := strconv.ParseFloat(row[4], 64)
		revenue[row[1]] += units * price
	}
	for region, sum := range revenue {
		if best == "" || sum > revenue[best] {
			best = region
		}
	}
	return fmt.Sprintf("%s sells most: %.2f", best, revenue[best])
}

// runFramework runs an example in a folder, and returns what it has printed.
func runFramework(t *testing.T, folder, example, environment string, env ...string) string {
	t.Helper()
	installed, err := filepath.Abs("../.cache/frameworks")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), installTime)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "frameworks/install", installed, environment).CombinedOutput(); err != nil {
		skip(t, "%s cannot be installed: %v: %s", environment, err, out)
	}
	ctx, cancel = context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	code := filepath.Join("../examples/frameworks", example)
	program, client := filepath.Join(installed, environment, "node"), ""
	if filepath.Ext(example) == ".py" {
		program = filepath.Join(installed, environment, "bin/python")
		if client, err = filepath.Abs(pythonClient + "/src"); err != nil {
			t.Fatal(err)
		}
	}
	// Packages of npm are looked for beside the program.
	text, err := os.ReadFile(code)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folder, example), text, 0o600); err != nil {
		t.Fatal(err)
	}
	commands := t.TempDir()
	for link, target := range map[string]string{
		filepath.Join(folder, "node_modules"): filepath.Join(installed, environment, "node_modules"),
		filepath.Join(commands, "airlock"):    binary,
	} {
		if err := os.Symlink(target, link); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(ctx, program, example)
	cmd.Dir = folder
	cmd.Env = append(os.Environ(), append(env, "PYTHONPATH="+client, "PYTHONDONTWRITEBYTECODE=1", "HOME="+folder,
		"PATH="+commands+":"+os.Getenv("PATH"), "OPENAI_AGENTS_DISABLE_TRACING=1", "OTEL_SDK_DISABLED=true",
		"HAYSTACK_TELEMETRY_ENABLED=False", "LANGSMITH_TRACING=false", "LITELLM_LOCAL_MODEL_COST_MAP=True")...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s%s", err, stdout.Bytes(), stderr.Bytes())
	}
	if testing.Verbose() {
		t.Logf("stderr: %.3000s", stderr.Bytes())
	}
	return stdout.String()
}

const frameworksDocument = "../docs/frameworks.md"

// frameworksPage compares the page with what it has to be, or writes it: the table, and each example with its output.
// An output that is not given is as it was.
func frameworksPage(t *testing.T, outputs map[string]string) {
	t.Helper()
	text, err := os.ReadFile(frameworksDocument)
	if err != nil {
		t.Fatal(err)
	}
	page := string(text)
	table := &strings.Builder{}
	fmt.Fprint(table, "| framework | tested | by | lines | the model sees the chart |\n|---|---|---|---|---|\n")
	for _, f := range frameworks {
		code, err := os.ReadFile(filepath.Join("../examples/frameworks", f.example))
		if err != nil {
			t.Fatal(err)
		}
		var versions []string
		for _, name := range f.packages {
			versions = append(versions, name+" "+frameworkVersion(t, cmp.Or(f.environment, f.name), name))
		}
		fmt.Fprintf(table, "| [%s](../examples/frameworks/%s) | %s | %s | %d | %s |\n", f.title, f.example,
			strings.Join(versions, ", "), f.way, strings.Count(string(code), "\n"),
			map[bool]string{true: "yes", false: "no"}[f.picture])
		output, made := outputs[f.name]
		if !made {
			_, shown, _ := place(t, page, f.name)
			_, output, _ = strings.Cut(shown, "\n```text\n")
			output = strings.TrimSuffix(output, "\n```\n")
		}
		kind := map[string]string{".py": "python", ".mjs": "js"}[filepath.Ext(f.example)]
		before, _, after := place(t, page, f.name)
		page = before + fmt.Sprintf("\n```%s\n%s```\n\n```text\n%s\n```\n", kind, code, output) + after
	}
	for name, text := range map[string]string{
		"table": "\n\n" + table.String() + "\n",
		"code":  "\n```python\n" + frameworkCode + "\n```\n",
	} {
		before, _, after := place(t, page, name)
		page = before + text + after
	}
	if *updateFrameworks {
		if err := os.WriteFile(frameworksDocument, []byte(page), 0o644); err != nil { //nolint:gosec // a document
			t.Fatal(err)
		}
	} else if page != string(text) {
		t.Error("docs/frameworks.md differs from the examples or their outputs: `make test-frameworks ARGS=-update-frameworks`")
	}
}

// place returns what the page has for a name, between two comments, and the text before and after it.
func place(t *testing.T, page, name string) (before, text, after string) {
	t.Helper()
	mark, end := "<!-- "+name+" -->", "<!-- end -->"
	at := strings.Index(page, mark) + len(mark)
	length := strings.Index(page[at:], end)
	if at < len(mark) || length < 0 {
		t.Fatalf("docs/frameworks.md has no place for %s", name)
	}
	return page[:at], page[at : at+length], page[at+length:]
}

// frameworkVersion returns the version of a package that the tests install.
func frameworkVersion(t *testing.T, environment, name string) string {
	t.Helper()
	if environment == "javascript" {
		var list struct{ Dependencies map[string]string }
		text, err := os.ReadFile("frameworks/package.json")
		if err == nil {
			err = json.Unmarshal(text, &list)
		}
		if err != nil || list.Dependencies[name] == "" {
			t.Fatalf("frameworks/package.json has no %s: %v", name, err)
		}
		return list.Dependencies[name]
	}
	text, err := os.ReadFile("frameworks/requirements-" + environment + ".txt")
	if err != nil {
		t.Fatal(err)
	}
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(name) + `(?:\[.*\])?==(\S+)$`).FindSubmatch(text)
	if found == nil {
		t.Fatalf("frameworks/requirements-%s.txt has no %s", environment, name)
	}
	return string(found[1])
}
