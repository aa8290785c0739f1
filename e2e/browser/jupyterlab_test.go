package browser

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/airlock-run/airlock/internal/sandbox/sandboxtest"
)

// installJupyterLab installs JupyterLab, once, and returns the folder of its commands.
func installJupyterLab(t *testing.T) string {
	t.Helper()
	at, err := filepath.Abs("../../.cache/jupyterlab")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Minute)
	defer cancel()
	if out, err := exec.CommandContext(ctx, "../jupyter/install", at, "jupyterlab.txt").CombinedOutput(); err != nil {
		skip(t, "JupyterLab cannot be installed: %v: %s", err, out)
	}
	return filepath.Join(at, "python/bin")
}

// jupyterLab starts a JupyterLab whose kernels are a service's, and returns the address
// of a notebook in it and the folder where that is.
func jupyterLab(t *testing.T, gateway, notebook string) (address, folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "book.ipynb"), []byte(notebook), 0o600); err != nil {
		t.Fatal(err)
	}
	base := jupyterServer(t, folder, "--gateway-url="+gateway)
	return base + "/lab/tree/book.ipynb?token=" + jupyterToken, folder
}

// jupyterToken opens the servers of tests.
const jupyterToken = "t"

// jupyterServer starts JupyterLab and its server in a folder, and returns its address.
func jupyterServer(t *testing.T, folder string, args ...string) string {
	t.Helper()
	for range 5 {
		if base := startJupyter(t, folder, args); base != "" {
			return base
		}
	}
	t.Fatal("JupyterLab has ended five times before it answered")
	return ""
}

// startJupyter is jupyterServer, or returns "" if the server has ended: another process may have taken its port.
func startJupyter(t *testing.T, folder string, args []string) string {
	t.Helper()
	commands := installJupyterLab(t)
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	cmd := exec.Command(filepath.Join(commands, "jupyter-lab"), slices.Concat(args, []string{"--allow-root", "--no-browser",
		"--ip=127.0.0.1", "--port=" + port, "--ServerApp.port_retries=0", "--IdentityProvider.token=" + jupyterToken,
		"--LabApp.expose_app_in_browser=True", "--ServerApp.disable_check_xsrf=True", "--notebook-dir=" + folder})...)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir(), "PATH="+commands+":"+os.Getenv("PATH"))
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = cmd.Wait(); close(ended) }()
	t.Cleanup(func() { _ = cmd.Process.Kill(); <-ended })
	// Whoever else has the port may accept and never answer.
	base, client := "http://127.0.0.1:"+port, http.Client{Timeout: 5 * time.Second}
	for began := time.Now(); ; {
		select {
		case <-ended:
			return ""
		case <-time.After(20 * time.Millisecond):
		}
		resp, err := client.Get(base + "/api/status?token=" + jupyterToken)
		if err == nil {
			resp.Body.Close()
			if resp.StatusCode == http.StatusOK {
				return base
			}
			err = errors.New(resp.Status)
		}
		if time.Since(began) > waitTime {
			t.Fatal(err)
		}
	}
}

// A notebook is opened in JupyterLab, with its kernel here: run, with a plot, a table, a
// question and an error, and saved.
func TestJupyterLab(t *testing.T) {
	s := shared(t)
	text := bookOf(t, "import os, matplotlib.pyplot as plt, pandas as pd\nprint('in', os.getcwd())\nplt.plot([1, 4, 9])\n"+
		"plt.title('squares')\nplt.show()\n"+
		"pd.DataFrame({'a': [1, 2]})",
		"name = input('who? ')\nprint('hello', name)",
		"1 / 0")
	address, folder := jupyterLab(t, strings.TrimSuffix(s.url, "/ui")+"/jupyter", text)
	b := open(t, looks[0])
	b.goTo(address)
	b.wait(`window.jupyterapp && document.querySelector('.jp-Notebook') && jupyterapp.shell.currentWidget?.context?.isReady`)
	b.wait(`jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'`)
	b.run(`void jupyterapp.commands.execute('notebook:run-all-cells')`) // it ends when its question is answered
	b.wait(`document.querySelector('.jp-OutputArea img')?.complete && document.querySelector('.jp-OutputArea table')`)
	b.wait(`document.querySelector('.jp-Stdin-input')`)
	b.run(`const box = document.querySelector('.jp-Stdin-input'); box.focus(); box.value = 'world';
		box.dispatchEvent(new KeyboardEvent('keydown', { key: 'Enter', bubbles: true, cancelable: true }))`)
	b.wait(`[...document.querySelectorAll('.jp-OutputArea')].some((e) => e.innerText.includes('hello world'))`)
	b.wait(`[...document.querySelectorAll('.jp-OutputArea')].some((e) => e.innerText.includes('ZeroDivisionError'))`)
	b.wait(`[...document.querySelectorAll('.jp-InputPrompt')].some((e) => e.innerText.includes('[3]'))`) // the answer came
	if got := eval[float64](b, `document.querySelector('.jp-OutputArea img').naturalWidth`); got < 100 {
		t.Errorf("the plot is %v wide", got)
	}
	b.shoot("jupyterlab")
	b.run(`await jupyterapp.commands.execute('docmanager:save')`)
	saved, err := os.ReadFile(filepath.Join(folder, "book.ipynb"))
	var book struct {
		Cells []struct {
			Count   int `json:"execution_count"`
			Outputs []map[string]any
		}
	}
	if json.Unmarshal(saved, &book) != nil || err != nil || len(book.Cells) != 3 || book.Cells[2].Count != 3 {
		t.Fatalf("%v %s", err, saved)
	}
	forms := map[string]bool{}
	for _, c := range book.Cells {
		for _, o := range c.Outputs {
			data, _ := o["data"].(map[string]any)
			for form := range data {
				forms[form] = true
			}
			if o["output_type"] == "error" { // the schema of notebooks knows no other field
				keys := slices.Sorted(maps.Keys(o))
				forms[strings.Join(keys, " ")] = true
			}
		}
	}
	for _, want := range []string{"image/png", "text/html", "ename evalue output_type traceback"} {
		if !forms[want] {
			t.Errorf("the notebook was saved without %s: %v", want, forms)
		}
	}
	b.run(`await jupyterapp.shell.currentWidget.sessionContext.restartKernel()`)
	b.wait(`jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'`)
	b.diesInJupyterLab()
	b.run(`await jupyterapp.shell.currentWidget.sessionContext.shutdown()`)
	b.forgive() // what JupyterLab's own scripts say is not ours
}

// diesInJupyterLab kills the interpreter of the notebook's kernel. The page has a dialog that says so, as it has not for
// the restarts that a person asked for, and the next cell says that it begins anew.
func (b *tab) diesInJupyterLab() {
	b.t.Helper()
	run := func(cell int, code string) {
		b.run(fmt.Sprintf(`const book = jupyterapp.shell.currentWidget.content
			book.widgets[%d].model.sharedModel.setSource(%q); book.activeCellIndex = %[1]d
			void jupyterapp.commands.execute('notebook:run-cell')`, cell, code))
	}
	const dialogs = `[...document.querySelectorAll('.jp-Dialog')].map((e) => e.innerText).join()`
	run(0, "kept = 1\nprint('alive')")
	b.wait(`document.querySelectorAll('.jp-OutputArea')[0].innerText.includes('alive')`)
	if said := eval[string](b, dialogs); said != "" {
		b.t.Errorf("a kernel that was restarted by its user shows %q", said)
	}
	run(0, "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)")
	b.wait(dialogs + `.includes('appears to have died. It will restart automatically')`)
	b.wait(`document.querySelectorAll('.jp-OutputArea')[0].innerText.includes('DeadKernelError')`)
	b.shoot("jupyterlab-died")
	b.run(`document.querySelector('.jp-Dialog .jp-mod-accept').click()`)
	b.wait(`jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'`)
	run(1, "print('kept' in globals(), os.getcwd() if 'os' in globals() else 'new')")
	b.wait(`document.querySelectorAll('.jp-OutputArea')[1].innerText.includes('False new')`)
	if said := eval[string](b, `document.querySelectorAll('.jp-OutputArea')[1].innerText`); !strings.Contains(said,
		"This is a new interpreter: variables are gone") {
		b.t.Errorf("the next cell does not say that its interpreter is new: %q", said)
	}
	if said := eval[string](b, dialogs); said != "" {
		b.t.Errorf("the new interpreter shows %q", said)
	}
}

// JupyterLab's launcher has a kernel for each image.
func TestJupyterLabImages(t *testing.T) {
	archive := sandboxtest.ImageArchive(t, "trixie")
	s := &service{t: t, log: t.Output(), data: ownFolder(t)}
	if out, err := s.command("images", "add", "--data", s.data, "py313", "docker-archive:"+archive).Output(); err != nil {
		t.Fatalf("images add: %v\n%s", err, out)
	}
	t.Cleanup(s.stop)
	s.start("127.0.0.1:0")
	address, _ := jupyterLab(t, strings.TrimSuffix(s.url, "/ui")+"/jupyter", `{"cells": [], "metadata": {"kernelspec":
		{"name": "py313", "display_name": "py313", "language": "python"}}, "nbformat": 4, "nbformat_minor": 5}`)
	b := open(t, looks[0])
	b.goTo(address)
	b.wait(`window.jupyterapp && jupyterapp.shell.currentWidget?.sessionContext?.session?.kernel?.status === 'idle'`)
	b.run(`await jupyterapp.commands.execute('launcher:create')`)
	const cards = `[...document.querySelectorAll('.jp-LauncherCard[data-category="Notebook"]')].map((e) => e.innerText.trim())`
	b.wait(cards + `.length > 1`)
	got := eval[[]string](b, cards)
	for _, name := range []string{"Python 3", "py313"} {
		if !slices.ContainsFunc(got, func(card string) bool { return strings.Contains(card, name) }) {
			t.Errorf("the launcher has %q, not %s", got, name)
		}
	}
	b.shoot("jupyterlab-images")
	b.forgive() // what JupyterLab's own scripts say is not ours
}
