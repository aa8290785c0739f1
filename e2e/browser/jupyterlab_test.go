package browser

import (
	"context"
	"encoding/json"
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
)

// jupyterLab starts a JupyterLab whose kernels are a service's, and returns the address
// of a notebook in it and the folder where that is.
func jupyterLab(t *testing.T, gateway, notebook string) (address, folder string) {
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
	folder = t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "book.ipynb"), []byte(notebook), 0o600); err != nil {
		t.Fatal(err)
	}
	free, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_, port, _ := net.SplitHostPort(free.Addr().String())
	free.Close()
	cmd := exec.Command(filepath.Join(at, "python/bin/jupyter-lab"), "--allow-root", "--no-browser", "--ip=127.0.0.1",
		"--port="+port,
		"--IdentityProvider.token=t", "--LabApp.expose_app_in_browser=True", "--gateway-url="+gateway,
		"--notebook-dir="+folder)
	cmd.Env = append(os.Environ(), "HOME="+t.TempDir())
	cmd.Stdout, cmd.Stderr = t.Output(), t.Output()
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	base := "http://127.0.0.1:" + port
	for began := time.Now(); ; {
		resp, err := http.Get(base + "/api/status?token=t")
		if err == nil {
			resp.Body.Close()
			return base + "/lab/tree/book.ipynb?token=t", folder
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
	notebook := map[string]any{"nbformat": 4, "nbformat_minor": 5, "cells": []any{}, "metadata": map[string]any{
		"kernelspec": map[string]string{"name": "python3", "display_name": "Python 3", "language": "python"}}}
	for i, source := range []string{
		"import os, matplotlib.pyplot as plt, pandas as pd\nprint('in', os.getcwd())\nplt.plot([1, 4, 9])\n" +
			"plt.title('squares')\nplt.show()\n" +
			"pd.DataFrame({'a': [1, 2]})",
		"name = input('who? ')\nprint('hello', name)",
		"1 / 0",
	} {
		notebook["cells"] = append(notebook["cells"].([]any), map[string]any{"cell_type": "code", "id": string(rune('a' + i)),
			"metadata": map[string]any{}, "execution_count": nil, "outputs": []any{}, "source": source})
	}
	text, err := json.Marshal(notebook)
	if err != nil {
		t.Fatal(err)
	}
	address, folder := jupyterLab(t, strings.TrimSuffix(s.url, "/ui")+"/jupyter", string(text))
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
	text, err = os.ReadFile(filepath.Join(folder, "book.ipynb"))
	var saved struct {
		Cells []struct {
			Count   int `json:"execution_count"`
			Outputs []map[string]any
		}
	}
	if json.Unmarshal(text, &saved) != nil || err != nil || len(saved.Cells) != 3 || saved.Cells[2].Count != 3 {
		t.Fatalf("%v %s", err, text)
	}
	forms := map[string]bool{}
	for _, c := range saved.Cells {
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
	b.run(`await jupyterapp.shell.currentWidget.sessionContext.shutdown()`)
	b.forgive() // what JupyterLab's own scripts say is not ours
}
