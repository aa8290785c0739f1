package live

import (
	"slices"
	"strings"
	"testing"

	"github.com/airlock-run/airlock/internal/language"
)

// openR opens a room on a host that has R.
func openR(t *testing.T) *place {
	t.Helper()
	if r, _ := language.Find("r"); r.Missing() != "" {
		t.Skip("R is not installed: `airlock setup --languages r` installs it")
	}
	return openWith(t, Config{}, t.TempDir()) // R needs no packages
}

func TestR(t *testing.T) {
	p := openR(t)
	s := p.session("r")
	t.Run("what stays", func(t *testing.T) {
		c := p.want(p.run(s, "x <- 41\nf <- function(n) n + 1\ncat('out\\n'); message('err')\nf(x)"), StatusOK)
		checkCell(t, c, facts{Stdout: "out\n", Stderr: "err\n", Result: "[1] 42", Exit: new(0)})
		checkCell(t, p.want(p.run(s, "dir.create('d'); setwd('d'); write.csv(data.frame(a = 1:2), 'a.csv')\nx + 0.5"), StatusOK),
			facts{Result: "[1] 41.5", Files: []string{"d/a.csv"}})
		checkCell(t, p.run(s, "data.frame(a = 1:2, b = c('é', '\"\\\\'))"), facts{Result: "  a   b\n1 1   é\n2 2 \"\\\\"})
		checkCell(t, p.run(s, "1:3\nx\ninvisible(7)"), facts{Stdout: "[1] 1 2 3\n[1] 41\n"})
		checkCell(t, p.run(s, ".Last.value"), facts{Result: "[1] 41"})
	})
	t.Run("errors", func(t *testing.T) {
		c := p.want(p.run(s, "g <- function(n) stop('no: ', n)\nh2 <- function() g(3)\nh2()"), StatusError)
		checkCell(t, c, facts{Error: "Error", Value: "no: 3", Exit: new(1)})
		if trace := strings.Join(raised(c).Traceback, "\n"); trace != "Error in g(3): no: 3\n2: g(3)\n1: h2()" {
			t.Errorf("%s", trace)
		}
		for code, value := range map[string]string{
			"1 +": "unexpected end of input", "nothing": "object 'nothing' not found", "library(nopkg)": "no package called", "\x00": "NUL",
			"stop(structure(class = c('mine', 'error', 'condition'), list(message = 'm', call = NULL)))": "m",
		} {
			checkCell(t, p.want(p.run(s, code), StatusError), facts{ValueHas: value}, code)
		}
		checkCell(t, p.want(p.run(s, "warning('careful'); w <- as.integer('x')"), StatusOK), facts{StderrHas: "Warning message:\ncareful\n"})
	})
	t.Run("plots", func(t *testing.T) {
		c := p.want(p.run(s, "plot(1:3); lines(3:1)\nhist(c(1, 2, 2))\ncat('drawn')"), StatusOK)
		if len(c.Outputs) != 3 || c.Outputs[0].Text != "drawn" || !strings.HasPrefix(form(t, c.Outputs[1], "image/png"), "iVBOR") ||
			!strings.HasPrefix(form(t, c.Outputs[2], "image/png"), "iVBOR") {
			t.Errorf("%d outputs", len(c.Outputs))
		}
		c = p.want(p.run(s, "png('own.png'); plot(1); invisible(dev.off())"), StatusOK)
		checkCell(t, c, facts{Files: []string{"d/own.png"}})
		if len(c.Outputs) != 0 {
			t.Errorf("a plot that the cell saves is shown: %d outputs", len(c.Outputs))
		}
	})
	t.Run("interrupt", func(t *testing.T) {
		for _, code := range []string{"repeat {}", "Sys.sleep(60)", "repeat tryCatch(Sys.sleep(1), error = identity)"} {
			c := p.started(s, "cat('begun\\n')\n"+code)
			if err := p.Interrupt(t.Context(), p.caller, s); err != nil {
				t.Fatal(err)
			}
			checkCell(t, p.want(p.end(s, c.ID), StatusInterrupted), facts{Stdout: "begun\n", Error: "Interrupted", NotMessage: "killed"}, code)
		}
		checkCell(t, p.run(s, "x"), facts{Result: "[1] 41", Restarted: new(false)})
	})
	t.Run("questions", func(t *testing.T) {
		done, err := p.Complete(t.Context(), p.caller, s, "y <- 1\nread.cs", 14)
		if err != nil || !slices.Contains(done.Matches, "read.csv") || done.Start != 7 || done.End != 14 {
			t.Errorf("%v from %d to %d, %v", done.Matches, done.Start, done.End, err)
		}
		seen, err := p.Inspect(t.Context(), p.caller, s, "f(x)", 1, 0)
		if err != nil || !seen.Found || !strings.Contains(string(seen.Data["text/plain"]), "function (n)") {
			t.Errorf("found %v, %v", seen.Found, err)
		}
		names, err := p.Variables(t.Context(), p.caller, s)
		if err != nil || !slices.ContainsFunc(names, func(v Variable) bool { return v.Name == "x" && v.Type == "numeric" && v.Repr == "41" }) {
			t.Errorf("%d names, %v", len(names), err)
		}
		for code, want := range map[string]string{"f <- function() {": "incomplete", "'a": "incomplete", "1": "complete", ")": "invalid"} {
			if status, _, err := p.IsComplete(t.Context(), p.caller, s, code); status != want || err != nil {
				t.Errorf("%s: %s, %v", code, status, err)
			}
		}
	})
	t.Run("input", func(t *testing.T) {
		c, err := p.Start(t.Context(), p.caller, s, CellRequest{Code: "paste('hello', readline('who? '))", AllowInput: true})
		if err != nil {
			t.Fatal(err)
		}
		p.seen(s, c.ID, InputEvent)
		if err := p.Answer(t.Context(), p.caller, s, "you"); err != nil {
			t.Fatal(err)
		}
		checkCell(t, p.end(s, c.ID), facts{Status: StatusOK, Result: `[1] "hello you"`})
		checkCell(t, p.run(s, "readline()"), facts{Status: StatusError, ValueHas: NoInput})
	})
	t.Run("bad input", func(t *testing.T) {
		checkCell(t, p.run(s, "n <- nchar('"+strings.Repeat("x\\\\", 1<<20)+"'); n"), facts{Status: StatusOK, Result: "[1] 2097152"})
		c := p.runCell(s, CellRequest{Code: "cat(nchar('" + strings.Repeat("é", 1000) + "'), Sys.getenv('E'))", Env: map[string]string{"E": "ü \"1\""}})
		checkCell(t, c, facts{Status: StatusOK, Stdout: "1000 ü \"1\""})
		checkCell(t, p.run(s, "closeAllConnections()\n1"), facts{})
		checkCell(t, p.run(s, "sink('away.txt'); print(1)"), facts{Status: StatusOK})
		checkCell(t, p.run(s, "print(2)"), facts{Status: StatusOK, Stdout: "[1] 2\n"})
		checkCell(t, p.run(s, "cat('\\\\n <&> \u2028 \\u00e9 \\t 😀 /')"), facts{Status: StatusOK, Stdout: "\\n <&> \u2028 é \t 😀 /"})
		checkCell(t, p.run(s, "rm(list = ls(all.names = TRUE)); detach('airlock')\nx <- 1"), facts{Status: StatusOK})
		checkCell(t, p.run(s, "x"), facts{Status: StatusOK, Result: "[1] 1"})
	})
	t.Run("exit", func(t *testing.T) {
		c := p.run(s, "quit(status = 3)")
		checkCell(t, p.want(c, StatusLost), facts{Message: "exit code 3", Exit: new(3)})
		checkCell(t, p.run(s, "file.exists('d/a.csv')"), facts{Restarted: new(true), Result: "[1] TRUE"})
	})
	t.Run("program", func(t *testing.T) {
		c := p.runCell(s, CellRequest{Code: "cat; exit 3", Program: &Program{Language: "bash", Stdin: "in"}})
		checkCell(t, c, facts{Status: StatusError, Stdout: "in", Exit: new(3)})
	})
}
