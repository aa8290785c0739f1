// One cell: its editor or its text, what it put out, and how its last run went. What is in a cell
// is made when the cell first comes into sight.
import { announce, loadScript, meta } from "./page.js";
import { Outputs } from "./outputs.js";
import { languages } from "./nbformat.js";
import { failedLine } from "./failure.js";
import { icon } from "./icons.js";
import { duration, size } from "./words.js";

const views = new WeakMap(); // of elements
const seen = new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting) views.get(e.target).appear();
}, { rootMargin: "300px" });

export function viewOf(element) {
  return views.get(element?.closest(".cell"));
}

function part(tag, className) {
  return Object.assign(document.createElement(tag), { className });
}

function button(label, content, act, className = "quiet") {
  const b = part("button", className);
  b.type = "button";
  if (label) b.setAttribute("aria-label", label); // else what is on it names it
  b.append(content);
  b.addEventListener("click", act);
  return b;
}

// The words for how a run ended, but well.
const ends = { error: "failed", interrupted: "stopped", timeout: "timed out", lost: "lost" };

// The line that stands in an output for what was left out.
const cut = /\[\.\.\. ([\d,]+) bytes of output left out; all of it is in ([^\n]+?) \.\.\.\]/g;

// outcome is how the last run of a cell went, as its outputs and metadata have it.
function outcome(cell) {
  if (cell.kind !== "code") return {};
  const { "iopub.execute_input": from, "shell.execute_reply": to } = cell.metadata.execution ?? {};
  const took = from && to ? Date.parse(to) - Date.parse(from) : NaN;
  const error = cell.outputs.findLast((o) => o.type === "error");
  const state = error ? (error.name === "KeyboardInterrupt" ? "interrupted" : "error") : cell.metadata.airlock?.ended ?? (cell.count ? "ok" : "");
  return { state, took };
}

export class View {
  constructor(notebook, cell) {
    this.notebook = notebook;
    this.cell = cell;
    const el = (this.element = part("div", `cell ${cell.kind}`));
    el.setAttribute("role", "listitem");
    el.tabIndex = -1;
    el.style.minHeight = `${Math.min(cell.source.split("\n").length, 25) * 1.4 + 2}rem`; // about what it will have
    views.set(el, this);
    seen.observe(el);
  }

  make() {
    if (this.outputs) return this;
    const { cell, element: el, notebook } = this;
    seen.unobserve(el);
    el.style.minHeight = "";
    const head = part("div", "cell-head");
    this.runButton = button("Run this cell", icon("run"), () => (cell === notebook.runner.running ? notebook.runner.interrupt() : notebook.runner.run([cell])), "quiet cell-run");
    this.count = part("span", "cell-count");
    this.status = part("span", "cell-state");
    head.append(this.runButton, this.count, this.status);
    const body = part("div", "cell-body");
    body.append(...this.makeSource(), ...this.makeOutputs());
    el.append(head, body, this.makeTools(), this.makeBetween());
    el.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || !(e.shiftKey || e.ctrlKey || e.metaKey) || e.defaultPrevented) return;
      e.preventDefault();
      this.enter(e.shiftKey);
    });
    this.shown.hidden = true;
    const ended = outcome(cell);
    this.outputs.reset(cell.outputs);
    if (cell.waits) this.mark("waiting");
    else this.mark(ended.state ?? "", ended.took);
    this.fold();
    if (notebook.readOnly) this.lock();
    return this;
  }

  makeSource() {
    const { cell } = this;
    this.source = part("div", "cell-source");
    this.area = document.createElement("textarea");
    this.area.value = cell.source;
    this.area.spellcheck = cell.kind !== "code";
    this.area.rows = Math.min(Math.max(cell.source.split("\n").length, 1), 30);
    this.area.setAttribute("aria-label", cell.kind === "code" ? "Code" : "Text");
    this.area.addEventListener("input", () => this.edited());
    this.source.append(this.area);
    this.shown = part("div", "cell-text");
    this.shown.tabIndex = 0;
    this.shown.setAttribute("role", "group");
    this.shown.setAttribute("aria-label", "Text of this cell; Enter edits it");
    this.shown.addEventListener("dblclick", () => this.write());
    this.help = part("pre", "cell-help");
    this.help.hidden = true;
    this.help.tabIndex = 0;
    this.unfold = button("", "", () => { cell.folded = false; this.fold(); this.notebook.changed(); }, "quiet cell-folded");
    this.unfold.setAttribute("aria-expanded", "false");
    return [this.source, this.shown, this.unfold, this.help];
  }

  makeOutputs() {
    const { cell } = this;
    this.out = part("div", "cell-out");
    this.outputs = new Outputs(this.out);
    this.showOut = button("", "Output is folded: show it", () => { cell.hidden = false; this.fold(); this.notebook.changed(); }, "quiet cell-folded");
    this.showOut.setAttribute("aria-expanded", "false");
    this.cuts = part("div", "cell-cuts");
    return [this.out, this.showOut, this.cuts];
  }

  // makeTools makes what is seen of a cell that is pointed at, or has the focus.
  makeTools() {
    const { cell, notebook } = this;
    const tools = part("div", "cell-tools");
    tools.setAttribute("role", "group");
    tools.setAttribute("aria-label", "Actions of this cell");
    this.grip = button("Move this cell: drag it, or press the arrow keys", icon("grip"), () => {}, "quiet cell-grip");
    this.grip.addEventListener("keydown", (e) => {
      const by = { ArrowUp: -1, ArrowDown: 1 }[e.key];
      if (!by || notebook.readOnly) return;
      e.preventDefault();
      notebook.cells.move(cell, by);
      this.grip.focus();
    });
    notebook.cells.draggable(this.grip, cell);
    const more = button("More for this cell", icon("more"), () => notebook.commands.openMenu(cell, more), "quiet cell-more");
    more.setAttribute("aria-haspopup", "menu");
    tools.append(this.grip, more);
    return tools;
  }

  makeBetween() {
    const { cell, notebook } = this;
    const between = part("div", "cell-between");
    between.append(button("Add code below", "+ Code", () => notebook.cells.insert(cell, 1, "code"), ""),
      button("Add text below", "+ Text", () => notebook.cells.insert(cell, 1, "markdown"), ""));
    return between;
  }

  // appear is when the cell first comes into sight.
  appear() {
    this.make();
    this.rendering ??= this.cell.kind === "code" ? this.dress() : this.render();
    return this.rendering;
  }

  async dress() {
    if (this.editor || this.cell.kind !== "code") return;
    const { notebook } = this;
    const { session } = notebook;
    const { create } = await loadScript(notebook.box.dataset.editor);
    if (this.editor || this.cell.kind !== "code") return;
    const focused = document.activeElement === this.area;
    this.editor = create(this.area, {
      language: languages[session.language].editor, nonce: meta("nonce"), label: "Code", run: () => this.enter(false), onChange: () => this.edited(),
      keys: [{ key: "Shift-Enter", run: () => { this.enter(true); return true; } }],
      complete: async (code, cursor) => {
        if (!session.id || notebook.runner.running) return null;
        const found = await session.call("/complete", { code, cursor }).catch(() => null);
        return !notebook.runner.running && this.element.contains(document.activeElement) ? found : null; // else nobody waits for it any more
      },
      inspect: (code, cursor) => this.inspect(code, cursor),
    });
    this.fail();
    if (focused) this.editor.focus();
    if (notebook.readOnly) this.lock();
  }

  async inspect(code, cursor) {
    const { session } = this.notebook;
    if (!session.id) return;
    try {
      const found = await session.call("/inspect", { code, cursor });
      this.help.textContent = found.found ? (found.data["text/plain"] ?? "").replace(/\x1b\[[0-9;]*m/g, "") : "There is no help for this.";
      this.help.hidden = false;
      announce("Help is shown below the cell.");
    } catch (e) {
      this.notebook.say(e.words ?? String(e));
    }
  }

  edited() {
    this.cell.source = this.area.value;
    this.help.hidden = true;
    if (this.cell.kind !== "code") this.notebook.outline.soon();
    this.notebook.changed();
  }

  // enter runs the cell, or shows its text; next goes on to the one below.
  enter(next) {
    const { cells, runner } = this.notebook;
    const commanding = this.element === document.activeElement || this.shown === document.activeElement;
    runner.run([this.cell]);
    if (!next) return;
    const at = cells.list.indexOf(this.cell);
    const added = at === cells.list.length - 1;
    if (added) cells.insert(this.cell, 1, "code");
    else if (commanding) cells.select(cells.list[at + 1]);
    else cells.list[at + 1].view.focus();
  }

  // focus goes into the cell, to write if there is something to write in.
  focus() {
    if (!this.outputs) this.appear();
    this.element.scrollIntoView({ block: "nearest" });
    if (this.cell.kind !== "code" && !this.shown.hidden) this.shown.focus();
    else (this.editor ?? this.area).focus();
  }

  // write goes into the cell to write.
  write() {
    if (this.notebook.readOnly) return;
    this.make();
    if (this.cell.folded) { this.cell.folded = false; this.fold(); }
    if (this.cell.kind === "code") { this.dress(); this.focus(); return; }
    this.shown.hidden = true;
    this.source.hidden = false;
    this.area.focus();
  }

  async render() {
    this.source.hidden = true;
    this.shown.hidden = false;
    if (!this.cell.source.trim()) {
      this.shown.textContent = "An empty text cell: press Enter to write.";
      return;
    }
    await this.notebook.markdown(this.cell.source, this.shown);
  }

  // turn makes code of text, or text of code.
  turn(kind) {
    const { cell, notebook } = this;
    if (notebook.readOnly || cell.kind === kind || cell === notebook.runner.running) return;
    notebook.runner.forget(cell);
    Object.assign(cell, { kind, outputs: [], count: null });
    delete cell.metadata.execution;
    const fresh = new View(notebook, cell);
    this.element.replaceWith(fresh.element);
    cell.view = fresh;
    fresh.appear();
    notebook.cells.select(cell);
    notebook.outline.soon();
    notebook.changed();
  }

  // mark shows the state of the cell: "", waiting, running, or how it ended. took is in milliseconds.
  mark(state, took = NaN) {
    if (!this.outputs) return;
    const { cell, element } = this;
    const code = cell.kind === "code";
    element.dataset.state = code ? state : "";
    const busy = state === "waiting" || state === "running";
    this.count.textContent = !code ? "" : busy ? "[*]" : cell.count ? `[${cell.count}]` : "[ ]";
    const time = Number.isFinite(took) ? duration(took) : "";
    this.status.replaceChildren(...(!code ? [] : [state === "waiting" ? state : ends[state], time]).filter(Boolean).map((words) => Object.assign(document.createElement("span"), { textContent: words })));
    const running = state === "running";
    this.runButton.replaceChildren(icon(running ? "stop" : code ? "run" : "show"));
    this.runButton.setAttribute("aria-label", running ? "Stop this cell" : code ? "Run this cell" : "Show this text");
    if (!busy) {
      this.outputs.ended();
      this.tellCuts();
      this.offer();
    }
    this.fail();
  }

  // tellCuts says how much of an output is shown, and offers all of it.
  tellCuts() {
    this.cuts.replaceChildren(...this.outputs.list.filter((o) => o.type === "stdout" || o.type === "stderr").flatMap(({ text }) => {
      const found = [...text.matchAll(cut)];
      if (!found.length) return [];
      const shown = new Blob([text]).size;
      const path = found.at(-1)[2];
      const line = part("p", "note");
      const all = shown + found.reduce((sum, m) => sum + Number(m[1].replaceAll(",", "")), 0);
      line.append(`${size(shown)} of ${size(all)} of this output are shown. `,
        button(`Download all of it, ${path}`, "Download all", () => this.notebook.side.fetch({ path }).catch((e) => this.notebook.say(e.words ?? String(e))), ""));
      return [line];
    }));
  }

  // offer offers to install the package that the cell missed in its last run here.
  offer() {
    const { cell, notebook } = this;
    if (!cell.missing || this.element.dataset.state !== "error" || !notebook.grants.installs) return;
    this.cuts.append(button("", `Install ${cell.missing}`, () => notebook.grants.openInstall(cell.missing), ""));
  }

  // fail marks the line at which the cell failed.
  fail() {
    const error = this.element.dataset.state === "error" ? this.outputs.list.findLast((o) => o.type === "error") : null;
    this.editor?.fail(error ? failedLine(this.cell, error) : 0);
  }

  fold() {
    const { cell } = this;
    this.element.classList.toggle("folded", !!cell.folded);
    this.element.classList.toggle("quieted", !!cell.hidden);
    this.unfold.textContent = cell.source.trim().split("\n")[0].slice(0, 80) || "Empty code";
  }

  clear() {
    this.cell.outputs = [];
    this.cell.count = null;
    this.cell.missing = "";
    delete this.cell.metadata.execution;
    delete this.cell.metadata.airlock;
    this.outputs?.reset([]);
    this.mark("");
  }

  lock() {
    this.element.inert = true;
    if (this.area) this.area.readOnly = true;
  }
}
