package commands

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/assist/internal/changes"
	"github.com/airlock-run/airlock/assist/internal/state"
	"github.com/airlock-run/airlock/assist/workspace"
	"github.com/airlock-run/airlock/internal/command"
	"github.com/airlock-run/airlock/internal/config"
)

// What root does with folders is recorded where nobody else can write, and
// never in the way of the service.
func TestRootsOwnState(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("this is about root")
	}
	private, shared := t.TempDir(), t.TempDir()
	for dir, mode := range map[string]os.FileMode{private: 0o755, shared: 0o771 | os.ModeSticky} {
		if err := os.Chmod(dir, mode); err != nil {
			t.Fatal(err)
		}
	}
	a := &Assistant{App: &command.App{Config: &config.Config{}}}
	a.Input.Home = "/home/root"
	const own = "/home/root/.local/share/airlock"
	for dir, want := range map[string]string{private: private, shared: own,
		filepath.Join(private, "none"): filepath.Join(private, "none")} {
		a.Config.Data = dir
		if got, err := a.stateDir(); got != want || err != nil {
			t.Errorf("%s: %s, %v", dir, got, err)
		}
	}
}

// A token goes to the API that it belongs to.
func TestTokenFor(t *testing.T) {
	db, err := state.Open(t.Context(), t.TempDir(), state.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	if err := db.Projects().PutLink(context.Background(), changes.Link{
		Owner: owner, Project: "P", Root: "/", API: "https://linked.example"}); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		api, token, to, want string
	}{
		{"", "", "https://linked.example", ""},
		{"", "t", "https://linked.example", "t"},
		{"", "t", "https://linked.example:443/base", "t"},
		{"", "t", "https://other.example", ""},
		{"", "t", "http://linked.example", ""},
		{"https://mine.example", "t", "https://mine.example/base", "t"},
		{"https://mine.example", "t", "https://linked.example", ""},
	} {
		a := &Assistant{App: &command.App{Config: &config.Config{API: c.api, APIToken: config.Secret(c.token)},
			Log: slog.New(slog.DiscardHandler)}}
		if got := a.tokenFor(db)(c.to); got != c.want {
			t.Errorf("%+v: %q", c, got)
		}
	}
}

// Wide terminals show both sides, and no terminal is sent control characters.
func TestShowHunk(t *testing.T) {
	h := workspace.Hunk{ID: "h1", OldStart: 1, OldLines: 2, NewStart: 1, NewLines: 2, Lines: []workspace.Line{
		{Op: "-", Text: "a\tb\x1b[2J", Spans: []workspace.Span{{Start: 0, End: 1}}},
		{Op: "+", Text: "A\tb", Spans: []workspace.Span{{Start: 0, End: 1}}}, {Op: " ", Text: "same"},
	}}
	for _, c := range []struct {
		width  int
		colour bool
		want   []string
	}{
		{80, false, []string{"    -a    b\\x1b[2J\n", "    +A    b\n", "     same\n"}},
		{wide, false, []string{"-a    b\\x1b[2J", " | +A    b\n", " same", " |  same\n"}},
		{80, true, []string{"\x1b[31m-\x1b[0m\x1b[31;7ma\x1b[0m", "\x1b[32;7mA\x1b[0m"}},
	} {
		var b strings.Builder
		showHunk(&command.Page{Writer: &b, Colour: c.colour}, &h, c.width)
		for _, want := range c.want {
			if !strings.Contains(b.String(), want) {
				t.Errorf("width %d, colour %v: %q is not in %q", c.width, c.colour, want, b.String())
			}
		}
		if strings.Contains(b.String(), "\x1b[2J") {
			t.Error("a control sequence of a file reaches the terminal")
		}
	}
}

// The sides stand below each other, however wide their characters are.
func TestShowSidesAligned(t *testing.T) {
	h := workspace.Hunk{Lines: []workspace.Line{
		{Op: "-", Text: "日本語"}, {Op: "+", Text: "b", Spans: []workspace.Span{{Start: 0, End: 1}}},
		{Op: "-", Text: strings.Repeat("x語", 99)}, {Op: "+", Text: strings.Repeat("語", 99)}, {Op: " ", Text: "same"},
	}}
	var b strings.Builder
	showHunk(&command.Page{Writer: &b}, &h, wide)
	const column = (wide - 4 - 3) / 2
	for _, line := range strings.Split(strings.TrimRight(b.String(), "\n"), "\n")[1:] {
		left, _, _ := strings.Cut(line, " | ")
		if got := command.Columns(left); got != 4+column || command.Columns(line) > wide {
			t.Errorf("%d columns before the middle, want %d; %d in all: %q", got, 4+column, command.Columns(line), line)
		}
	}
}

// The log lists the files of a transaction in the same order each time.
func TestTransactionFiles(t *testing.T) {
	receipt := &workspace.Receipt{FilesCreated: []string{"c"}, FilesUpdated: []string{"u"}, FilesDeleted: []string{"d"}}
	for range 20 {
		got := strings.Join(transactionOf(workspace.Transaction{Record: &workspace.Record{Receipt: receipt}}).Files, ", ")
		if want := "create c, update u, delete d"; got != want {
			t.Fatalf("%s, want %s", got, want)
		}
	}
}
