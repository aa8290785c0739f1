package e2e

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/provider"
	"github.com/airlock-run/airlock/assist/provider/providertest"
)

const exampleCode = `import collections, csv

sums = collections.Counter()
for row in csv.DictReader(open("sales.csv")):
    sums[row["month"]] += int(row["sales"])
with open("sums.csv", "w") as f:
    for month, sales in sums.items():
        f.write(f"{month},{sales}\n")
print(len(sums), "months")`

const shortCode = `sales = [int(row.split(",")[1]) for row in open("sales.csv").readlines()[1:]]
print(sum(sales), file=open("sum.txt", "w"))`

// example is a worked one, with a provider.
type example struct {
	prompt string
	turn   providertest.Turn
}

// examples are those of each document: a short one in the README.
func examples(name string) map[string]example {
	sums, sum := providertest.Made{Name: "sums.csv", Data: []byte("jan,3\nfeb,3\n")},
		providertest.Made{Name: "sum.txt", Data: []byte("6\n")}
	long := exampleCode
	if name == provider.Anthropic { // its tool is a shell
		long = "python3 <<'END'\n" + exampleCode + "\nEND"
	}
	turn := func(code, stdout, text string, made providertest.Made) providertest.Turn {
		step := providertest.Step{Code: code, Stdout: stdout, Files: []providertest.Made{made}}
		if name == provider.Gemini || name == provider.XAI {
			step.Stdout, step.Files = step.Stdout+provider.Frame(made.Name, made.Data), nil
		}
		return providertest.Turn{Steps: []providertest.Step{step}, Text: text}
	}
	all := map[string]example{
		"docs/ask.md": {"Sum the sales by month",
			turn(long, "2 months\n", "Both months have sales of 3; the sums are in sums.csv.\n", sums)},
	}
	if name == provider.OpenAI {
		all["README.md"] = example{"Sum the sales", turn(shortCode, "", "The sum is 6; it is in sum.txt.\n", sum)}
	}
	return all
}

// The worked examples of the documents are what the command prints, for each
// provider.
func TestAskExamples(t *testing.T) {
	t.Parallel()
	for name, open := range accesses() {
		t.Run(name, func(t *testing.T) {
			for document, e := range examples(name) {
				content, err := os.ReadFile(filepath.Join("..", document))
				if err != nil {
					t.Fatal(err)
				}
				if block := worked(t, open(t), e); !strings.Contains(string(content), block) {
					t.Errorf("%s does not have this:\n%s", document, block)
				}
			}
		})
	}
}

// worked runs an example and returns it as a document shows it.
func worked(t *testing.T, access modelAccess, e example) string {
	t.Helper()
	who := asks()
	access.server.Rescript(e.turn)
	dir := folder(t, who.credential)
	if err := os.WriteFile(filepath.Join(dir, "sales.csv"), []byte("month,sales\njan,1\njan,2\nfeb,3\n"),
		0o644); err != nil {
		t.Fatal(err)
	}
	cmd := who.command(t, askEnv(t, who, access), "ask", "--yes", "-f", "sales.csv", "-o", "out", e.prompt)
	cmd.Dir = dir
	var both bytes.Buffer
	cmd.Stdout, cmd.Stderr = &both, &both
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, both.String())
	}
	where := "--provider " + access.name + " --model MODEL"
	if access.name == provider.Local {
		where += " --model-url http://localhost:11434/v1"
	}
	text := "$ airlock ask " + where + " --yes -f sales.csv -o out '" + e.prompt + "'\n" + both.String()
	for pattern, with := range map[string]string{`conversation [a-z2-7]{26}`: "conversation k3zq7m2ajxw5cfh4n6tdvbor2e", ` after [0-9.]+ m?s`: "", `sha256 ([0-9a-f]{12})[0-9a-f]{52}`: "sha256 $1..."} {
		text = regexp.MustCompile(pattern).ReplaceAllString(text, with)
	}
	return "    " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n    ")
}
