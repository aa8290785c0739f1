package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/provider"
	"github.com/airlock-run/airlock/provider/providertest"
)

const exampleCode = `import collections, csv

sums = collections.Counter()
for row in csv.DictReader(open("sales.csv")):
    sums[row["month"]] += int(row["sales"])
with open("sums.csv", "w") as f:
    for month, sales in sums.items():
        f.write(f"{month},{sales}\n")
print(len(sums), "months")`

// The worked examples of the documents are what the command prints.
func TestAskExamples(t *testing.T) {
	documents := map[string]string{}
	for _, name := range []string{"README.md", "docs/ask.md"} {
		text, err := os.ReadFile(filepath.Join("..", name))
		if err != nil {
			t.Fatal(err)
		}
		documents[name] = string(text)
	}
	for name, open := range accesses() {
		t.Run(name, func(t *testing.T) {
			who, access := asks(), open(t)
			made := providertest.Made{Name: "sums.csv", Data: []byte("jan,3\nfeb,3\n")}
			code := exampleCode
			if name == provider.Anthropic { // its tool is a shell
				code = "python3 <<'END'\n" + exampleCode + "\nEND"
			}
			step := providertest.Step{Code: code, Stdout: "2 months\n", Files: []providertest.Made{made}}
			if name == provider.Gemini || name == provider.XAI {
				step.Stdout, step.Files = step.Stdout+provider.Frame(made.Name, made.Data), nil
			}
			access.server.Rescript(providertest.Turn{Steps: []providertest.Step{step}, Text: "Both months have sales of 3; the sums are in sums.csv.\n"})
			dir := folder(t, who.credential)
			if err := os.WriteFile(filepath.Join(dir, "sales.csv"), []byte("month,sales\njan,1\njan,2\nfeb,3\n"), 0o644); err != nil {
				t.Fatal(err)
			}
			cmd := who.command(t, askEnv(t, who, access), "ask", "--yes", "-f", "sales.csv", "-o", "out", "Sum the sales by month")
			cmd.Dir = dir
			var both bytes.Buffer
			cmd.Stdout, cmd.Stderr = &both, &both
			if err := cmd.Run(); err != nil {
				t.Fatalf("%v: %s", err, both.String())
			}
			where := "--provider " + name + " --model MODEL"
			if name == provider.Local {
				where += " --model-url http://localhost:11434/v1"
			}
			text := "$ airlock ask " + where + " --yes -f sales.csv -o out 'Sum the sales by month'\n" + both.String()
			for pattern, with := range map[string]string{`conversation [a-z2-7]{26}`: "conversation k3zq7m2ajxw5cfh4n6tdvbor2e", ` after [0-9.]+m?s`: "", `sha256 ([0-9a-f]{12})[0-9a-f]{52}`: "sha256 $1..."} {
				text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
			}
			block := "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
			for document, content := range documents {
				if !strings.Contains(content, block) && (document != "README.md" || name == provider.OpenAI) {
					t.Errorf("%s does not have this:\n%s", document, block)
				}
			}
		})
	}
}
