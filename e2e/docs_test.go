package e2e

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// block is a block of code of a document.
type block struct {
	document string
	lines    []string
}

// commands matches the lines of blocks that a reader types.
var commands = regexp.MustCompile(`^(\$ |[A-Z]+=\S+;? ?)?(export |P=\$\(|S=\$\()?(bin/)?(airlock|curl|docker|apt|git|make|go|helm|` +
	`systemctl|pg_dump|pg_restore|echo|AIRLOCK_[A-Z_]+=\S+)( |$)`)

// blocks returns the blocks of commands of a document.
func blocks(t *testing.T, document string) (all []block) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join("..", document))
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	end := func() {
		for len(lines) > 0 && lines[len(lines)-1] == "" {
			lines = lines[:len(lines)-1]
		}
		if slices.ContainsFunc(lines, commands.MatchString) {
			all = append(all, block{document, lines})
		}
		lines = nil
	}
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		switch code, indented := strings.CutPrefix(line, "    "); {
		case indented:
			lines = append(lines, code)
		case line == "" && lines != nil:
			lines = append(lines, "")
		default:
			end()
		}
	}
	end()
	return all
}

// documented says of each block of commands, by its document and its first line, what runs it here, which
// other test runs what it shows, or why nothing can.
var documented = []struct {
	document, first string
	run             func(*testing.T, block)
	why             string
}{
	{"README.md", "$ airlock run -f testdata/sales.csv", runSession, ""},
	{"README.md", "docker run", nil, "needs Docker: scripts/try-image"},
	{"README.md", "apt install", nil, "installs a package: scripts/dist and the packages' own tests"},
	{"README.md", "git clone", nil, "clones from the network, and `make run` serves until it is stopped"},
	{"README.md", "bin/airlock run script.py", nil, "names files of the reader; scripts/check-names looks for its flags"},
	{"README.md", "$ airlock ask", nil, "TestAskExamples compares it"},
	{"docs/architecture.md", "airlock serve (root)", nil, "is a drawing of processes"},
	{"docs/ask.md", "$ airlock ask --provider", nil, "TestAskExamples compares it"},
	{"docs/ask.md", "$ AIRLOCK_MODEL_KEY_FILE", nil, "needs GitHub's models and a token"},
	{"docs/cluster.md", "", nil, "needs PostgreSQL, systemd or Kubernetes: TestCluster, TestMigrate, scripts/try-cluster"},
	{"docs/kubernetes.md", "", nil, "needs Kubernetes: make chart-check renders the chart"},
	{"docs/containers.md", "", nil, "needs Docker: scripts/try-image"},
	{"docs/gvisor.md", "airlock setup", nil, "TestSetupWall, TestOwnKernel and TestWallsOfOneService run what it shows"},
	{"docs/images.md", "$ cat examples/Containerfile", nil, "makes images of Debian: scripts/test-images"},
	{"docs/mounts.md", "airlock run --mount ", nil, "TestRunMount runs it"},
	{"docs/mounts.md", "airlock run --mount-rw ", nil, "TestMountToWrite runs it"},
	{"docs/mounts.md", "curl", nil, "needs a folder of the machine: TestMounts of internal/engine and of the sandbox"},
	{"docs/volumes.md", "airlock volumes", nil, "TestVolumes runs it"},
	{"docs/volumes.md", "curl", nil, "the document of the API: TestDocumentIsTrue; TestVolumes"},
	{"docs/languages.md", "airlock setup", nil, "installs from the network: scripts/test-systems"},
	{"docs/librechat-operators.md", "echo", nil, "needs LibreChat's containers: scripts/try-compose"},
	{"docs/live.md", "$ airlock repl", nil, "needs a terminal: TestREPLTerminal"},
	{"docs/live.md", "$ airlock shell", nil, "needs a terminal: TestShellTerminal"},
	{"docs/live.md", "U=http://", runCells, ""},
	{"docs/live.md", "P=$(curl", nil, "its processes outlive the block: TestLiveProcess, TestLivePort"},
	{"docs/live.md", "curl -s $U/sessions/$S/pause", nil, "goes on with the session above: TestCopies, TestPauseTenTimes"},
	{"docs/live.md", "curl -s -X POST", nil, "goes on with the session above: TestLiveFiles"},
	{"docs/live.md", "$ curl -s $U/status", nil, "its numbers differ: TestLiveStatus"},
	{"docs/mcp.md", "airlock mcp install", runInstall, ""},
	{"docs/mcp.md", "AIRLOCK_PUBLIC_URL", nil, "settings of a service with an identity provider: TestMCPIdentityProvider"},
	{"docs/network.md", "airlock serve", nil, "reaches package registries: TestNetworkInstall"},
	{"docs/network.md", "{", nil, "needs a key of GitHub: TestNetworkSecrets"},
	{"docs/onyx.md", "airlock serve", nil, "serves until it is stopped: TestOnyxPrograms"},
	{"docs/packages.md", "apt install", nil, "installs a package"},
	{"docs/packages.md", "systemctl", nil, "needs systemd"},
	{"docs/packages.md", "airlock backup", nil, "TestBackupAndRestore"},
	{"docs/performance.md", "make bench", nil, "takes minutes, and writes the page itself"},
	{"docs/providers.md", "AIRLOCK_LIVE_TESTS", nil, "needs keys of the providers"},
	{"docs/upgrade.md", "airlock backup", nil, "TestUpgrade"},
	{"docs/upgrade.md", "airlock restore", nil, "TestUpgrade"},
	{"docs/workspace.md", "go test", nil, "takes hours"},
}

// TestDocumentedCommands runs the commands that the documents show, and compares what they print. A
// block that no row of the table knows fails.
func TestDocumentedCommands(t *testing.T) {
	pages, err := filepath.Glob("../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	used := make([]bool, len(documented))
	for _, page := range append(pages, "../README.md") {
		document, _ := filepath.Rel("..", page)
		for _, b := range blocks(t, document) {
			row := slices.IndexFunc(documented, func(d struct {
				document, first string
				run             func(*testing.T, block)
				why             string
			}) bool {
				return d.document == b.document && strings.HasPrefix(b.lines[0], d.first)
			})
			if row < 0 {
				t.Errorf("%s: no row of the table knows the block %q", document, b.lines[0])
				continue
			}
			used[row] = true
			if d := documented[row]; d.run != nil {
				t.Run(document+" "+d.first, func(t *testing.T) { d.run(t, b) })
			}
		}
	}
	for i, d := range documented {
		if !used[i] {
			t.Errorf("%s has no block that begins with %q", d.document, d.first)
		}
	}
}

// typed returns the commands of a session that a block shows, with their output.
func (b block) typed() (all [][2]string) {
	for _, line := range b.lines {
		if command, ok := strings.CutPrefix(line, "$ "); ok {
			all = append(all, [2]string{command})
			continue
		}
		last := &all[len(all)-1]
		if strings.HasSuffix(last[0], `\`) {
			last[0] += "\n" + line
		} else {
			last[1] += line + "\n"
		}
	}
	return all
}

// shell runs a script as a reader would, in a copy of what the documents' commands read.
func shell(t *testing.T, who person, url, script string) string {
	t.Helper()
	dir := folder(t, who.credential)
	if err := os.CopyFS(filepath.Join(dir, "testdata"), os.DirFS("../testdata")); err != nil {
		t.Fatal(err)
	}
	if err := os.CopyFS(filepath.Join(dir, "examples"), os.DirFS("../examples")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(binary, filepath.Join(dir, "airlock")); err != nil {
		t.Fatal(err)
	}
	give(t, dir, who.credential)
	script = address.ReplaceAllString(strings.ReplaceAll(script, " 127.0.0.1:8000", " "+url), url)
	cmd := who.command(t, nil)
	cmd.Path, cmd.Args, cmd.Dir = "/bin/bash", []string{"bash", "-c", script}, dir
	cmd.Env = append(cmd.Env, "PATH="+dir+":"+os.Getenv("PATH"), "HOME="+dir, "AIRLOCK_DATA="+dataWithPackages(t, who))
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Fatalf("%s: %v\n%s", script, err, out)
	}
	return string(out)
}

// matches reports whether an output is the documented one, where "..." and ids stand for anything.
func matches(documented, got string) bool {
	blanks := regexp.MustCompile(`(?m)[ \t]+$`) // pandas fills its lines with them
	got = blanks.ReplaceAllString(got, "")
	pattern := regexp.QuoteMeta(strings.TrimSpace(blanks.ReplaceAllString(documented, "")))
	pattern = regexp.MustCompile(`( ?\\\.\\\.\\\.,? ?)`).ReplaceAllString(pattern, `(?s:.*)`)
	pattern = regexp.MustCompile(`"[CR][A-Za-z0-9_-]{20}"`).ReplaceAllString(pattern, `"[\w-]{21}"`)
	return regexp.MustCompile("^" + pattern + "$").MatchString(strings.TrimSpace(got))
}

// TestDoctorPage: the layers of isolation are those that doctor prints, on machines as those of the page.
func TestDoctorPage(t *testing.T) {
	page, err := os.ReadFile("../docs/doctor.md")
	if err != nil {
		t.Fatal(err)
	}
	number := regexp.MustCompile(`\d+`)
	forEachPerson(t, func(t *testing.T, who person) {
		out := who.run(t, nil, "doctor", "--data", dataFolder(t, who)).stdout
		_, part, _ := strings.Cut(out, "\n\nIsolation ")
		part, _, found := strings.Cut(part, "\n\nRuntimes\n")
		heading, _, _ := strings.Cut(part, "\n")
		if !found || !strings.Contains(string(page), "\nIsolation "+heading+"\n") {
			skip(t, "the page shows no machine with the isolation %q", heading)
		}
		if !strings.Contains(number.ReplaceAllString(string(page), "N"), number.ReplaceAllString(part, "N")) {
			t.Errorf("docs/doctor.md does not have this:\n%s", part)
		}
	})
}

func runSession(t *testing.T, b block) {
	needPackages(t)
	who := asks()
	s := serve(t, who, dataFolder(t, who))
	for _, typed := range b.typed() {
		if typed[0] == "" {
			continue
		}
		if got := shell(t, who, s.url, typed[0]); !matches(typed[1], got) {
			t.Errorf("%s prints\n%s\nand the document shows\n%s", typed[0], got, typed[1])
		}
	}
}

// runCells runs the requests of a live session, whose last answer is the block that follows.
func runCells(t *testing.T, b block) {
	for _, tool := range []string{"curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			skip(t, "the document's commands need %s", tool)
		}
	}
	who := asks()
	s := serve(t, who, dataFolder(t, who))
	out := shell(t, who, s.url, "set -e\n"+strings.Join(b.lines, "\necho\n"))
	answers := strings.Split(strings.TrimSpace(out), "\n")
	var second struct {
		Count   int `json:"execution_count"`
		Status  string
		Outputs []struct {
			Type string
			Data map[string]string
		}
	}
	if err := json.Unmarshal([]byte(answers[len(answers)-1]), &second); err != nil || second.Count != 2 ||
		second.Status != "ok" || len(second.Outputs) != 1 || second.Outputs[0].Data["text/plain"] != "42" {
		t.Errorf("%v, %s", err, out)
	}
}

func runInstall(t *testing.T, b block) {
	who := asks()
	got := shell(t, who, "", strings.Join(b.lines, "\n")+"; cat ~/.claude.json")
	if !strings.Contains(got, `"--files"`) || !strings.Contains(got, `"airlock"`) {
		t.Error(got)
	}
}
