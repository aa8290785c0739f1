package browser

import (
	"archive/zip"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The cells of a notebook with widgets.
const (
	// The slider of interact changes a plot: it is drawn in an Output, which takes what its function prints.
	interactCell = `import matplotlib.pyplot as plt, ipywidgets as w
@w.interact(n=w.IntSlider(2, 1, 9))
def draw(n):
    plt.plot([i ** n for i in range(10)])
    plt.show()
    print('power', n)`
	// A widget with a script of its own answers to a click, and to what Python sets.
	anywidgetCell = `import sys; sys.path.insert(0, 'anywidget.zip')
import anywidget, traitlets
class Counter(anywidget.AnyWidget):
    _esm = """export default { render({ model, el }) {
        const b = document.createElement('button')
        const show = () => { b.textContent = 'count ' + model.get('value') }
        b.className = 'counter'
        b.onclick = () => { model.set('value', model.get('value') + 1); model.save_changes() }
        model.on('change:value', show); show(); el.appendChild(b) } }"""
    value = traitlets.Int(0).tag(sync=True)
counter = Counter()
counter.observe(lambda change: setattr(counter, 'value', 10 * change.new) if change.new < 10 else None, 'value')
counter`
)

// zipPackages packs Python packages of JupyterLab's environment.
func zipPackages(t *testing.T, names ...string) []byte {
	t.Helper()
	var packed bytes.Buffer
	z := zip.NewWriter(&packed)
	for _, name := range names {
		found, err := filepath.Glob("../../.cache/jupyterlab/python/lib/python3.*/site-packages/" + name)
		if err != nil || len(found) != 1 {
			t.Fatalf("%s: %v %v", name, found, err)
		}
		err = filepath.WalkDir(found[0], func(path string, d os.DirEntry, err error) error {
			if err != nil || d.IsDir() || strings.HasSuffix(path, ".so") || strings.HasSuffix(path, ".pyc") {
				return err
			}
			content, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			inside, _ := filepath.Rel(filepath.Dir(found[0]), path)
			w, err := z.Create(inside)
			if err == nil {
				_, err = w.Write(content)
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	return packed.Bytes()
}

// Widgets of ipywidgets and anywidget are used in JupyterLab, whose kernels are here.
func TestJupyterLabWidgets(t *testing.T) {
	s := shared(t)
	gateway := strings.TrimSuffix(s.url, "/ui") + "/jupyter"
	address, _ := jupyterLab(t, gateway, bookOf(t, interactCell, anywidgetCell))
	b := open(t, looks[0])
	b.goTo(address)
	b.wait(`window.jupyterapp && document.querySelector('.jp-Notebook') && jupyterapp.shell.currentWidget?.context?.isReady`)
	b.wait(`jupyterapp.shell.currentWidget.sessionContext.session?.kernel?.status === 'idle'`)
	kernel := eval[string](b, `jupyterapp.shell.currentWidget.sessionContext.session.kernel.id`)
	body, err := json.Marshal(map[string]string{"type": "file", "format": "base64",
		"content": base64.StdEncoding.EncodeToString(zipPackages(t, "anywidget", "anywidget-*.dist-info", "psygnal", "psygnal-*.dist-info"))})
	if err != nil {
		t.Fatal(err)
	}
	put, err := http.NewRequestWithContext(t.Context(), http.MethodPut, gateway+"/api/contents/"+kernel+"/anywidget.zip", bytes.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	if resp, err := http.DefaultClient.Do(put); err != nil || resp.StatusCode >= 300 {
		t.Fatal(resp, err)
	} else {
		resp.Body.Close()
	}
	b.run(`await jupyterapp.commands.execute('notebook:run-all-cells')`)
	const outputs = `[...document.querySelectorAll('.jp-OutputArea')].map((e) => e.innerText).join(' ')`
	b.wait(outputs + `.includes('power 2') && document.querySelector('.widget-output img')?.complete`)
	before := eval[string](b, `document.querySelector('.widget-output img').src`)
	b.run(`const slider = document.querySelector('.widget-slider .noUi-handle'); slider.focus();
		slider.dispatchEvent(new KeyboardEvent('keydown', { key: 'ArrowRight', bubbles: true, cancelable: true }))`)
	b.wait(outputs + `.includes('power 3')`)
	b.wait(`document.querySelectorAll('.widget-output img').length === 1 && document.querySelector('.widget-output img').complete`)
	if after := eval[string](b, `document.querySelector('.widget-output img').src`); after == before {
		t.Error("the plot stays as it was")
	}
	b.wait(`document.querySelector('button.counter')?.textContent === 'count 0'`)
	b.run(`document.querySelector('button.counter').click()`)
	b.wait(`document.querySelector('button.counter').textContent === 'count 10'`)
	b.shoot("jupyterlab-widgets")

	// A page that is opened anew finds the widgets of its kernel.
	b.run(`await jupyterapp.commands.execute('docmanager:save')`)
	b.goTo(address)
	b.wait(`document.querySelector('button.counter')?.textContent === 'count 10'`)
	b.run(`await jupyterapp.shell.currentWidget.sessionContext.shutdown()`)
	b.forgive() // what JupyterLab's own scripts say is not ours
}

// A page with widgets hears from our kernels what it hears from ipykernel behind a Jupyter server.
func TestWidgetMessages(t *testing.T) {
	s := shared(t)
	ask := func(address, token string) string {
		cmd := exec.CommandContext(t.Context(), filepath.Join(installJupyterLab(t), "python"), "../jupyter/widgets.py", address, token)
		cmd.Stderr = t.Output()
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("%s: %v\n%s", address, err, out)
		}
		return string(out)
	}
	want, got := ask(jupyterServer(t, t.TempDir()), jupyterToken), ask(strings.TrimSuffix(s.url, "/ui")+"/jupyter", "")
	// Before there are widgets its target of comms is no news.
	want = strings.Replace(want, `iopub stream {"name": "stderr", "text": "No such comm target registered: jupyter.widget.control"}`+"\n", "", 1)
	if diff := cmp.Diff(strings.Split(want, "\n"), strings.Split(got, "\n")); diff != "" {
		t.Errorf("-Jupyter +Airlock:\n%s", diff)
	}
	if strings.Count(want, "comm_open") < 8 || !strings.Contains(want, "echo_update") {
		t.Errorf("Jupyter's messages are\n%s", want)
	}
}

// bookOf returns a notebook with these cells of Python.
func bookOf(t *testing.T, sources ...string) string {
	t.Helper()
	cells := make([]any, len(sources))
	for i, source := range sources {
		cells[i] = map[string]any{"cell_type": "code", "id": string(rune('a' + i)), "metadata": map[string]any{},
			"execution_count": nil, "outputs": []any{}, "source": source}
	}
	text, err := json.Marshal(map[string]any{"nbformat": 4, "nbformat_minor": 5, "cells": cells, "metadata": map[string]any{
		"kernelspec": map[string]string{"name": "python3", "display_name": "Python 3", "language": "python"}}})
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}
