// What runs: one cell at a time, and those that wait for it.
import { announce } from "./page.js";
import { duration } from "./words.js";

export class Runner {
  constructor(notebook) {
    this.notebook = notebook;
    this.running = null; // the cell that runs
    this.queue = []; // cells that wait
  }

  state(status, words) {
    const badge = document.getElementById("state");
    badge.className = `badge ${status}`;
    badge.textContent = words;
  }

  run(some) {
    if (this.notebook.readOnly) return;
    document.getElementById("left").hidden = true;
    for (const cell of some) {
      if (cell.kind !== "code") { if (cell.view.outputs) cell.view.render(); }
      else if (cell !== this.running && !this.queue.includes(cell) && cell.source.trim()) {
        this.queue.push(cell);
        cell.waits = true;
        cell.view.mark("waiting");
      }
    }
    if (!this.running) this.next();
  }

  // forget takes a cell out of those that wait.
  forget(cell) {
    this.queue = this.queue.filter((c) => c !== cell);
    cell.waits = false;
  }

  // drop forgets all that wait.
  drop() {
    for (const cell of this.queue) {
      cell.waits = false;
      cell.view.mark("");
    }
    this.queue = [];
  }

  async next() {
    const cell = this.queue.shift();
    if (!cell) return;
    cell.waits = false;
    this.running = cell;
    const { view } = cell;
    view.make().dress();
    view.outputs.reset([]);
    const parent = crypto.randomUUID();
    await this.carry(cell, (tell) => this.notebook.session.run({ code: cell.source, input: true, parent }, tell), parent);
  }

  // watch counts the time of a cell that runs, until it is told to stop.
  watch(view) {
    const start = performance.now();
    const step = () => view.mark("running", performance.now() - start);
    view.mark("running");
    const ticking = setInterval(step, 200);
    return () => { clearInterval(ticking); return performance.now() - start; };
  }

  // carry shows what a cell does until it has ended. parent is what comms call it.
  async carry(cell, start, parent) {
    const { notebook } = this;
    const { view } = cell;
    this.running = cell;
    document.getElementById("interrupt").disabled = document.getElementById("restart").disabled = false;
    this.state("running", "running");
    notebook.box.dataset.busy = "true";
    notebook.side.processes.soon();
    const stop = this.watch(view);
    const began = new Date();
    let ended = "interrupted", took;
    try {
      const done = await start(this.teller(cell, parent));
      notebook.widgets.ended();
      if (done.status === "lost") notebook.widgets.lost();
      cell.count = done.execution_count || null;
      cell.missing = done.missing_package ?? "";
      if (done.message) view.outputs.add({ type: "stderr", text: `${done.message}\n` });
      const words = { ok: "ready", error: "failed", interrupted: "interrupted", timeout: "timed out", lost: "lost" };
      this.state(done.status, words[done.status] ?? done.status);
      ended = done.status;
      took = done.usage.duration_ms;
      if (done.status !== "ok") this.drop();
    } catch (e) {
      this.drop();
      this.state("interrupted", e.status === 404 ? "lost" : "not known");
      const lost = e.status === 404 && cell.metadata.airlock?.cell ? "The service was restarted while this cell ran. What it had printed until then is shown; run it again." : e.words ?? String(e);
      if (e.status === 404) view.outputs.add({ type: "stderr", text: `${lost}\n` });
      notebook.say(lost);
      ended = "lost";
    }
    // Not every language puts out an error that says how a cell has ended.
    if (ended === "ok") delete cell.metadata.airlock;
    else cell.metadata.airlock = { ended };
    const passed = stop();
    took ??= passed;
    cell.metadata.execution = { "iopub.execute_input": began.toISOString(), "shell.execute_reply": new Date(began.getTime() + took).toISOString() };
    cell.outputs = view.outputs.list;
    view.element.querySelector(".cell-input")?.remove();
    view.mark(ended, took);
    this.running = null;
    notebook.box.dataset.busy = "false";
    document.getElementById("interrupt").disabled = true;
    announce(`Cell ${notebook.cells.at(cell) + 1}: ${document.getElementById("state").textContent}, ${duration(took)}.`);
    notebook.changed();
    if (this.queue.length) this.next();
    else notebook.side.refresh();
  }

  // teller returns what takes the events of a cell.
  teller(cell, parent) {
    const { notebook } = this;
    const { view } = cell;
    let clearing = false;
    return (type, data) => {
      if (type === "comm") { notebook.widgets.said(data); return; }
      if (notebook.widgets.takes(parent, type, data)) return;
      if (type === "started") {
        if (data.restarted) { notebook.widgets.lost(); notebook.grants.renewed(); }
        cell.metadata.airlock = { cell: data.id, parent };
        notebook.keeper.draft();
        return;
      }
      if (type === "clear") { clearing = true; return; }
      if (type === "input") { this.question(view, data); return; }
      if (clearing) { view.outputs.reset([]); clearing = false; }
      view.outputs.add({ type, ...data });
    };
  }

  question(view, { prompt, password }) {
    const form = document.createElement("form");
    form.className = "cell-input";
    const label = document.createElement("label");
    const field = document.createElement("input");
    field.type = password ? "password" : "text";
    label.append(prompt || "Input", field);
    const go = document.createElement("button");
    go.textContent = "Answer";
    form.append(label, go);
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      form.remove();
      view.outputs.add({ type: "stdout", text: `${prompt}${password ? "" : field.value}\n` });
      await this.notebook.session.call("/input", { text: field.value }).catch((error) => this.notebook.say(error.words));
    });
    view.out.after(form);
    field.focus();
  }

  async interrupt() {
    this.drop();
    if (!this.running) return;
    this.state("running", "stopping");
    await this.notebook.session.call("/interrupt").catch((e) => this.notebook.say(e.words));
  }

  async restart() {
    this.drop();
    this.state("running", "restarting");
    try {
      await this.notebook.session.call("/restart");
      this.restarted("restarted");
    } catch (e) {
      this.notebook.say(e.words);
    }
  }

  // restarted says that the interpreter is a new one.
  restarted(words) {
    this.notebook.widgets.lost();
    this.state("", words);
    announce("The interpreter is new. Variables are gone, files are there.");
    this.notebook.side.refresh();
  }
}
