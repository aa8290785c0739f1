package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// ready waits for the prompt of an input of a REPL.
func (term *terminal) ready(prompt string) {
	term.t.Helper()
	eventually(term.t, patience, "the prompt "+prompt, func() bool {
		return strings.Contains(term.screen.String(), prompt) && !term.lineMode()
	})
}

// A REPL keeps variables, completes names, takes code of several lines, saves
// pictures, and is interrupted.
func TestREPLTerminal(t *testing.T) {
	needPackages(t)
	who := root(t)
	data := dataFolder(t, who)
	serve(t, who, data)
	out, in := folder(t, who.credential), folder(t, who.credential)
	if err := os.WriteFile(filepath.Join(in, "given.txt"), []byte("given"), 0o644); err != nil {
		t.Fatal(err)
	}
	term := onTerminal(t, who.command(t, []string{"AIRLOCK_DATA=" + data}, "repl", "-f", filepath.Join(in, "given.txt"), "-o", out))
	term.ready("In [1]: ")
	term.press("long_name = open('given.txt').read()\r")
	term.ready("In [2]: ")
	term.press("long_na\t.upper()\r")
	term.until("Out[2]: 'GIVEN'")
	term.ready("In [3]: ")
	term.press("for i in range(2):\r")
	term.until("   ...: ")
	term.press("print('row', i)\r\r")
	term.until("row 1")
	term.ready("In [4]: ")
	term.press("while True: pass\r\r")
	eventually(t, patience, "the cell runs", term.lineMode)
	term.press("\x03")
	term.until("KeyboardInterrupt")
	term.ready("In [5]: ")
	term.press("import matplotlib.pyplot as plt; plt.plot([1, 2]); open('made.txt', 'w').close()\r")
	term.until("saved " + filepath.Join(out, "figure-1.png"))
	term.until("saved " + filepath.Join(out, "made.txt"))
	term.ready("In [6]: ")
	term.press("name = input('Who? ')\r")
	term.until("Who? ")
	term.press("me\n")
	term.ready("In [7]: ")
	term.press(":vars\r")
	term.until("'me'")
	term.ready("In [7]: ")
	term.press("\x04")
	if code, screen := term.end(); code != 0 || !term.lineMode() {
		t.Errorf("exit code %d, in line mode %v:\n%s", code, term.lineMode(), screen)
	}
	if picture, err := os.ReadFile(filepath.Join(out, "figure-1.png")); err != nil || !strings.HasPrefix(string(picture), "\x89PNG") {
		t.Errorf("%.20q %v", picture, err)
	}
}
