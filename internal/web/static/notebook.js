// The notebook: cells over a live session. What is written is kept in the browser at
// once and as a file of the session soon after; one tab edits a notebook at a time.
import { announce, ask, loadScript, meta, named, parts } from "./page.js";
import { addForm, latex, Outputs } from "./outputs.js";
import { blank, fromFile, languages, maxNotebook, toFile, toScript, unsaved } from "./nbformat.js";
import { toHTML } from "./nbhtml.js";
import { Session } from "./session.js";
import * as drafts from "./stash.js";
import { Side } from "./side.js";
import { VIEW, Widgets } from "./widgets.js";

const box = document.getElementById("notebook");
const list = document.getElementById("cells");
const title = document.getElementById("title");
const notice = document.getElementById("notice");
const saved = document.getElementById("saved");
const badge = document.getElementById("state");
const clock = document.getElementById("clock");
const button = (id) => document.getElementById(id);
const session = new Session(box.dataset.api, box.dataset.session, box.dataset.language, box.dataset.image);
const side = new Side(session, { say, readOnly: () => readOnly });
const widgets = new Widgets(session, { say, readOnly: () => readOnly });
addForm(VIEW, (data, output, outputs) => widgets.show(data, output, outputs));
const cells = []; // {id, kind, source, outputs, count, ..., view}
let file = "Untitled.ipynb"; // where the session has it
let readOnly = false;
let running = null; // the cell that runs
let queue = []; // cells that wait

function say(words, kind = "problem") {
  notice.className = kind;
  notice.textContent = words;
  notice.hidden = !words;
}

function state(status, words) {
  badge.className = `badge ${status}`;
  badge.textContent = words;
}

// Keeping what is written.

let dirty = 0; // timer of the save to come
let text = ""; // of the file as this page last saw it
function changed() {
  if (readOnly) return;
  saved.textContent = "not saved yet";
  drafts.put(key(), { title: title.value, file: content(), saved: false });
  clearTimeout(dirty);
  dirty = setTimeout(save, 1000);
}
const fresh = unsaved(session.language);
const key = () => session.id || fresh;
const content = () => JSON.stringify(toFile(cells.map((c) => ({ ...c, outputs: c.view?.outputs?.list ?? c.outputs })), session.language));

const fileName = () => `${title.value.trim().replace(/[\/\\\0-\x1f]/g, "-").replace(/^\.+/, "") || "Untitled"}.ipynb`;

let tried = ""; // the content of a save whose answer may not have come
let refused = false; // the notice says why nothing is saved

class Refused extends Error {} // nothing is written before a person has looked

// contentAt reads what is at a path; "": nothing.
async function contentAt(path) {
  const entry = await session.get(`/fs/stat?path=${encodeURIComponent(path)}`).catch((e) => { if (e.status === 404) return null; throw e; });
  if (!entry) return "";
  if (entry.size > maxNotebook) throw new Refused(`"${named(path)}" was made or changed elsewhere: it has ${Math.round(entry.size / 2 ** 20)} MiB, more than this page opens. Nothing is written over it; delete or rename it among the files to save this notebook.`);
  return (await session.read(path)).text();
}

async function save() {
  clearTimeout(dirty);
  dirty = 0;
  if (readOnly || !session.id) return; // without a session the browser keeps it
  const now = content();
  const wanted = fileName();
  try {
    const mine = text && await contentAt(file);
    if (mine && mine !== text) return conflict(mine);
    const taken = text && wanted === file ? "" : await contentAt(wanted);
    if (taken && taken !== tried) {
      if (text) throw new Refused(`There is another file "${named(wanted)}" in the session: give this notebook another name.`);
      file = wanted;
      return conflict(taken);
    }
    tried = now;
    await session.write(wanted, now);
    if (wanted !== file) {
      if (text) await session.json(session.at(`/fs/remove?path=${encodeURIComponent(file)}`), { method: "POST" }).catch(() => {});
      file = wanted;
    }
    text = now;
    if (refused) say("");
    refused = false;
    if (!dirty) saved.textContent = "saved"; // else something was changed meanwhile
    drafts.put(key(), { title: title.value, file: now, saved: dirty === 0 });
  } catch (e) {
    saved.textContent = "kept in this browser only";
    refused ||= e instanceof Refused || !!e.status; // else the service is away for a while
    if (e instanceof Refused) say(e.message);
    else dirty = setTimeout(save, 5000);
    if (e.status) say(`The notebook could not be saved: ${e.words}`);
  }
}

// conflict asks whose notebook is to stay. Nothing is written before.
function conflict(there) {
  saved.textContent = "not saved: it was changed elsewhere";
  say("This notebook was changed elsewhere, by another browser or by a program, since this page read it. ", "warning");
  const load = document.createElement("button");
  load.textContent = "Show theirs";
  const mine = document.createElement("button");
  mine.textContent = "Keep mine";
  load.addEventListener("click", () => { text = there; fill(fromFile(there).cells); say(""); saved.textContent = "saved"; });
  mine.addEventListener("click", () => { text = there; say(""); save(); });
  notice.append(load, " ", mine);
}

// edit makes this tab the one that edits. Another tab of this browser that does stops.
async function edit(steal) {
  if (!navigator.locks) return; // not a secure context: the file itself tells of conflicts
  await new Promise((settled) => {
    navigator.locks.request(`airlock:${key()}`, steal ? { steal: true } : { ifAvailable: true }, (lock) => {
      settled();
      if (!lock) { watchOnly(); return undefined; }
      return new Promise(() => {}); // until the page is gone
    }).catch(() => watchOnly());
  });
}

function watchOnly() {
  readOnly = true;
  clearTimeout(dirty);
  box.classList.add("read-only");
  for (const c of cells) c.view.lock();
  say("Another tab edits this notebook. ", "warning");
  const take = document.createElement("button");
  take.textContent = "Edit here";
  take.addEventListener("click", async () => { sessionStorage.setItem("airlock:take", key()); location.reload(); });
  notice.append(take);
}

// Cells.

class View {
  constructor(cell) {
    this.cell = cell;
    const el = (this.element = document.createElement("div"));
    el.className = `cell ${cell.kind}`;
    el.setAttribute("role", "listitem");
    el.style.minHeight = `${Math.min(cell.source.split("\n").length, 25) * 1.4 + 4}rem`; // about what it will have
    views.set(el, this);
    seen.observe(el);
  }

  // make makes what is in the cell, when that is first needed: of a long notebook only
  // what is read.
  make() {
    if (this.outputs) return this;
    const { cell, element: el } = this;
    seen.unobserve(el);
    el.style.minHeight = "";
    const head = document.createElement("div");
    head.className = "cell-head";
    this.count = document.createElement("span");
    this.count.className = "cell-count";
    const control = (words, label, act) => {
      const b = document.createElement("button");
      b.type = "button";
      b.className = "quiet";
      b.textContent = words;
      b.setAttribute("aria-label", label);
      b.addEventListener("click", act);
      head.append(b);
      return b;
    };
    head.append(this.count);
    this.runButton = control("Run", "Run this cell", () => run([cell]));
    control("Run from here", "Run from here on", () => run(cells.slice(cells.indexOf(cell))));
    const gap = document.createElement("span");
    gap.className = "push";
    head.append(gap);
    this.foldButton = control("Fold", "Fold this cell", () => { cell.folded = !cell.folded; this.fold(); changed(); });
    control("↑", "Move this cell up", () => move(cell, -1));
    control("↓", "Move this cell down", () => move(cell, 1));
    control("Text", "Turn this cell into text or code", () => this.turn());
    control("Delete", "Delete this cell", () => remove(cell)).classList.add("danger");
    this.source = document.createElement("div");
    this.source.className = "cell-source";
    this.area = document.createElement("textarea");
    this.area.value = cell.source;
    this.area.spellcheck = cell.kind !== "code";
    this.area.rows = Math.min(Math.max(cell.source.split("\n").length, 2), 30);
    this.area.setAttribute("aria-label", cell.kind === "code" ? "Code" : "Text");
    this.area.addEventListener("input", () => this.edited());
    this.source.append(this.area);
    this.shown = document.createElement("div");
    this.shown.className = "cell-text";
    this.shown.tabIndex = 0;
    this.shown.setAttribute("role", "group");
    this.shown.setAttribute("aria-label", "Text of this cell; Enter edits it");
    this.shown.addEventListener("dblclick", () => this.write());
    this.shown.addEventListener("keydown", (e) => { if (e.key === "Enter" && e.target === this.shown) { e.preventDefault(); this.write(); } });
    const out = document.createElement("div");
    out.className = "cell-out";
    this.help = document.createElement("pre");
    this.help.className = "cell-help";
    this.help.hidden = true;
    this.help.tabIndex = 0;
    el.append(head, this.source, this.shown, this.help, out);
    this.outputs = new Outputs(out);
    el.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || !(e.shiftKey || e.ctrlKey || e.metaKey) || e.defaultPrevented) return;
      e.preventDefault();
      this.enter(e.shiftKey);
    });
    this.kindly();
    this.outputs.reset(cell.outputs);
    if (readOnly) this.lock();
    return this;
  }

  // appear is when the cell first comes into sight.
  appear() {
    this.make();
    if (this.cell.kind === "code") this.dress();
    else this.render();
  }

  async dress() {
    if (this.editor || this.cell.kind !== "code") return;
    const { create } = await loadScript(box.dataset.editor);
    if (this.editor || this.cell.kind !== "code") return;
    const focused = document.activeElement === this.area;
    this.editor = create(this.area, {
      language: languages[session.language].editor, nonce: meta("nonce"), label: "Code", run: () => this.enter(false), onChange: () => this.edited(),
      keys: [{ key: "Shift-Enter", run: () => { this.enter(true); return true; } }],
      complete: async (code, cursor) => {
        if (!session.id || running) return null;
        const found = await session.call("/complete", { code, cursor }).catch(() => null);
        return !running && this.element.contains(document.activeElement) ? found : null; // else nobody waits for it any more
      },
      inspect: (code, cursor) => this.inspect(code, cursor),
    });
    if (focused) this.editor.focus();
    if (readOnly) this.lock();
  }

  async inspect(code, cursor) {
    if (!session.id) return;
    try {
      const found = await session.call("/inspect", { code, cursor });
      this.help.textContent = found.found ? (found.data["text/plain"] ?? "").replace(/\x1b\[[0-9;]*m/g, "") : "Nothing is known of this.";
      this.help.hidden = false;
      announce("Help is shown below the cell.");
    } catch (e) {
      say(e.words ?? String(e));
    }
  }

  edited() {
    this.cell.source = this.area.value;
    this.help.hidden = true;
    changed();
  }

  enter(next) {
    run([this.cell]);
    if (!next) return;
    const at = cells.indexOf(this.cell);
    if (at === cells.length - 1) add(blank());
    cells[at + 1].view.focus();
  }

  focus() {
    if (!this.outputs) this.appear();
    this.element.scrollIntoView({ block: "nearest" });
    if (this.cell.kind !== "code" && !this.shown.hidden) this.shown.focus();
    else (this.editor ?? this.area).focus();
  }

  write() {
    if (readOnly) return;
    this.make();
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
    // Mathematics is taken out before, so that Markdown does not see its underscores.
    const maths = [];
    const source = this.cell.source.replace(/\$\$([\s\S]+?)\$\$|(?<![\\$\w])\$([^\s$](?:[^$\n]*[^\s$\\])?)\$(?!\d)/g, (_, wide, inline) => `\uE000${maths.push({ text: wide ?? inline, wide: wide !== undefined }) - 1}\uE001`);
    try {
      const html = await markdown(source);
      this.shown.replaceChildren(...parts(`<div>${html}</div>`));
    } catch {
      this.shown.textContent = this.cell.source;
      return;
    }
    const walk = document.createTreeWalker(this.shown, NodeFilter.SHOW_TEXT);
    const nodes = [];
    while (walk.nextNode()) if (walk.currentNode.data.includes("\uE000")) nodes.push(walk.currentNode);
    for (const node of nodes) {
      node.replaceWith(...node.data.split(/(\uE000\d+\uE001)/).map((piece) => {
        const found = /^\uE000(\d+)\uE001$/.exec(piece);
        if (!found) return piece;
        const { text: formula, wide } = maths[Number(found[1])] ?? { text: "", wide: false };
        const span = document.createElement("span");
        latex(formula, span, wide);
        return span;
      }));
    }
  }

  turn() {
    if (readOnly) return;
    const cell = this.cell;
    cell.kind = cell.kind === "code" ? "markdown" : "code";
    cell.outputs = [];
    cell.count = null;
    const fresh = new View(cell);
    this.element.replaceWith(fresh.element);
    cell.view = fresh;
    fresh.appear();
    if (cell.kind !== "code") fresh.write();
    changed();
  }

  kindly() {
    const code = this.cell.kind === "code";
    this.shown.hidden = true;
    this.runButton.textContent = code ? "Run" : "Show";
    this.runButton.setAttribute("aria-label", `${this.runButton.textContent} this cell`);
    this.number(this.mark);
    this.fold();
  }

  number(mark = "") {
    this.mark = mark;
    if (this.count) this.count.textContent = this.cell.kind !== "code" ? "" : mark || (this.cell.count ? `[${this.cell.count}]` : "[ ]");
  }

  fold() {
    this.element.classList.toggle("folded", this.cell.folded);
    this.foldButton.textContent = this.cell.folded ? "Unfold" : "Fold";
    this.foldButton.setAttribute("aria-label", `${this.foldButton.textContent} this cell`);
    this.foldButton.setAttribute("aria-expanded", String(!this.cell.folded));
  }

  lock() {
    this.element.inert = true;
    if (this.area) this.area.readOnly = true;
  }
}

const views = new WeakMap(); // of elements
const seen = new IntersectionObserver((entries) => {
  for (const e of entries) if (e.isIntersecting) views.get(e.target).appear();
}, { rootMargin: "600px" });

function add(cell, at = cells.length) {
  cell.view = new View(cell);
  cells.splice(at, 0, cell);
  list.insertBefore(cell.view.element, list.children[at] ?? null);
  return cell;
}

function remove(cell) {
  if (readOnly || cell === running) return;
  const at = cells.indexOf(cell);
  cells.splice(at, 1);
  queue = queue.filter((c) => c !== cell);
  cell.view.element.remove();
  if (!cells.length) add(blank());
  cells[Math.min(at, cells.length - 1)].view.focus();
  changed();
}

function move(cell, by) {
  const at = cells.indexOf(cell);
  const to = at + by;
  if (readOnly || to < 0 || to >= cells.length) return;
  cells.splice(at, 1);
  cells.splice(to, 0, cell);
  list.insertBefore(cell.view.element, list.children[by > 0 ? to + 1 : to] ?? null);
  announce(`The cell is now number ${to + 1} of ${cells.length}.`);
  cell.view.element.querySelector(`[aria-label="Move this cell ${by > 0 ? "down" : "up"}"]`).focus();
  changed();
}

function fill(all) {
  cells.length = 0;
  queue = [];
  const place = document.createDocumentFragment();
  for (const cell of all.length ? all : [blank()]) {
    cell.view = new View(cell);
    cells.push(cell);
    place.append(cell.view.element);
  }
  list.replaceChildren(place);
}

// Running.

let ticking = 0;
function tick() {
  clearInterval(ticking);
  const start = performance.now();
  const step = () => { const s = (performance.now() - start) / 1000; clock.textContent = s < 60 ? `${s.toFixed(1)} s` : `${Math.floor(s / 60)} min ${Math.floor(s) % 60} s`; };
  ticking = setInterval(step, 100);
  step();
}

function run(some) {
  if (readOnly) return;
  for (const cell of some) {
    if (cell.kind !== "code") { if (cell.view.outputs) cell.view.render(); }
    else if (cell !== running && !queue.includes(cell) && cell.source.trim()) { queue.push(cell); cell.view.number("[*]"); }
  }
  if (!running) next();
}

async function next() {
  const cell = queue.shift();
  if (!cell) return;
  running = cell;
  const view = cell.view;
  view.make().dress();
  view.outputs.reset([]);
  const parent = crypto.randomUUID();
  await carry(cell, (tell) => session.run({ code: cell.source, input: true, parent }, tell), parent);
}

// carry shows what a cell does until it has ended.
// parent is what comms call it.
async function carry(cell, start, parent) {
  const view = cell.view;
  running = cell;
  button("interrupt").disabled = button("restart").disabled = false;
  state("running", "running");
  view.element.classList.add("runs");
  box.dataset.busy = "true";
  side.processes.soon();
  tick();
  let clearing = false;
  let done;
  try {
    done = await start((type, data) => {
      if (type === "comm") { widgets.said(data); return; }
      if (widgets.takes(parent, type, data)) return;
      if (type === "started") { if (data.restarted) widgets.lost(); cell.metadata.airlock = { cell: data.id, parent }; drafts.put(key(), { title: title.value, file: content(), saved: false }); return; }
      if (type === "clear") { clearing = true; return; }
      if (type === "input") { question(view, data); return; }
      if (clearing) { view.outputs.reset([]); clearing = false; }
      view.outputs.add({ type, ...data });
    });
    widgets.ended();
    if (done.status === "lost") widgets.lost();
    cell.count = done.execution_count || null;
    if (done.message) view.outputs.add({ type: "stderr", text: `${done.message}\n` });
    const words = { ok: "ready", error: "failed", interrupted: "interrupted", timeout: "timed out", lost: "lost" };
    state(done.status, words[done.status] ?? done.status);
    clock.textContent = `${done.usage.duration_ms} ms`;
    if (done.status !== "ok") queue = [];
  } catch (e) {
    queue = [];
    state("interrupted", e.status === 404 ? "lost" : "not known");
    const lost = e.status === 404 && cell.metadata.airlock ? "The service was restarted while this cell ran. What it had printed until then is shown; run it again." : e.words ?? String(e);
    if (e.status === 404) view.outputs.add({ type: "stderr", text: `${lost}\n` });
    say(lost);
  }
  delete cell.metadata.airlock;
  clearInterval(ticking);
  cell.outputs = view.outputs.list;
  view.element.classList.remove("runs");
  view.element.querySelector(".cell-input")?.remove();
  view.number();
  for (const c of cells) if (c.view.mark && !queue.includes(c)) c.view.number();
  running = null;
  box.dataset.busy = "false";
  button("interrupt").disabled = true;
  announce(`Cell ${cells.indexOf(cell) + 1}: ${badge.textContent}.`);
  changed();
  if (queue.length) next();
  else side.refresh();
}

function question(view, { prompt, password }) {
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
    await session.call("/input", { text: field.value }).catch((error) => say(error.words));
  });
  view.element.append(form);
  field.focus();
}

async function interrupt() {
  queue = [];
  state("running", "interrupting");
  await session.call("/interrupt").catch((e) => say(e.words));
}

button("run-all").addEventListener("click", () => run(cells));
button("interrupt").addEventListener("click", interrupt);
button("restart").addEventListener("click", async () => {
  queue = [];
  state("running", "restarting");
  try {
    await session.call("/restart");
    widgets.lost();
    state("", "restarted");
    announce("The interpreter is new. Variables are gone, files are there.");
    side.refresh();
  } catch (e) {
    say(e.words);
  }
});
button("add-code").addEventListener("click", () => { add(blank()).view.focus(); changed(); });
button("add-text").addEventListener("click", () => { const c = add(blank("markdown")); c.view.write(); changed(); });
button("clear").addEventListener("click", () => { for (const c of cells) { c.outputs = []; c.count = null; c.view.outputs?.reset([]); c.view.number(); } changed(); });
title.addEventListener("input", changed);

const spoken = () => languages[session.language].info;
function download(name, content, type) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([content], { type }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
const markdown = async (source) => (await session.elsewhere(box.dataset.markdown, { method: "POST", raw: source, headers: { "Content-Type": "text/plain" } })).text();
const pretty = () => JSON.stringify(JSON.parse(content()), null, 1) + "\n";
button("export-ipynb").addEventListener("click", () => download(fileName(), pretty(), "application/x-ipynb+json"));
button("export-script").addEventListener("click", () => download(fileName().replace(/\.ipynb$/, spoken().file_extension), toScript(cells, session.language), spoken().mimetype));
button("export-html").addEventListener("click", async () => {
  try {
    download(fileName().replace(/ipynb$/, "html"), await toHTML(title.value.trim() || "Untitled", cells, markdown), "text/html");
  } catch (e) {
    say(e.words ?? e.message);
  }
});

// share makes a link to a copy of the notebook as it is now.
function share() {
  const dialog = button("look");
  const body = button("look-body");
  button("look-title").textContent = "Share a link";
  const form = document.createElement("form");
  form.className = "stack";
  const words = document.createElement("p");
  words.textContent = "Whoever has the link sees the notebook as it is now, with its outputs, and can change nothing. You can revoke it on the page of notebooks.";
  const label = document.createElement("label");
  const days = document.createElement("select");
  for (const n of [1, 7, 30]) days.append(new Option(n === 1 ? "1 day" : `${n} days`, n, n === 7, n === 7));
  label.append("Good for ", days);
  const go = document.createElement("button");
  go.className = "primary";
  go.textContent = "Make a link";
  form.append(words, label, go);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const made = await ask(`${box.dataset.shares}?days=${days.value}&title=${encodeURIComponent(title.value)}`, { method: "POST", body: content(), type: "application/json" });
      const link = document.createElement("input");
      link.type = "text";
      link.readOnly = true;
      link.value = new URL(made.url, location.href).href;
      link.setAttribute("aria-label", "The link");
      go.replaceWith(link);
      link.select();
    } catch (error) {
      words.textContent = error.words ?? String(error);
    }
  });
  body.replaceChildren(form);
  dialog.showModal();
}
button("share").addEventListener("click", share);

let escapes = 0;
document.addEventListener("keydown", (e) => {
  if (e.key !== "Escape" || !running) return;
  if (performance.now() - escapes < 600) interrupt();
  escapes = performance.now();
});
addEventListener("pagehide", () => { if (dirty) drafts.put(key(), { title: title.value, file: content(), saved: false }); });

session.made = () => {
  history.replaceState(null, "", `${box.dataset.base}${session.id}`);
  drafts.drop(fresh);
  edit(false);
  begun();
};
function begun() {
  button("restart").disabled = false;
  button("export-zip").hidden = false;
  button("export-zip").href = `${box.dataset.sessions}${session.id}/files.zip`;
  document.title = `${title.value} · Airlock`;
}

// open shows the notebook of the session, or what this browser has of it that was not
// saved.
async function open() {
  const found = drafts.get(key()); // asked for before anything is written over it
  const first = document.getElementById("first"); // a new notebook comes with its first cell
  if (first) {
    fill([blank("code", first.value)]);
    cells[0].view.focus();
    if (first.value) changed();
  }
  const draft = await found;
  const typed = first ? cells.map((c) => c.source).filter((source) => source.trim()) : [];
  let there = "";
  if (session.id) {
    begun();
    const [{ files = [] }, { language, image }] = await Promise.all([session.get("/files"), session.get("")]);
    session.language = language;
    session.image = image;
    const found = files.find((f) => /^[^/]+\.ipynb$/.test(f.path));
    if (found) {
      if (found.size > maxNotebook) throw new Error(`It has ${Math.round(found.size / 2 ** 20)} MiB; the page opens up to ${maxNotebook >> 20} MiB. Download it among the files, and clear its outputs: jupyter nbconvert --clear-output.`);
      file = found.path;
      title.value = named(file.replace(/\.ipynb$/, ""));
      there = await (await session.elsewhere(`${box.dataset.files}${found.id}/content`)).text();
      text = there;
    }
  }
  const mine = draft && (!draft.saved || !there);
  if (mine) title.value = draft.title;
  const content = mine ? draft.file : there;
  if (!first || draft) fill(content ? fromFile(content).cells : [blank()]);
  if (draft) for (const source of typed) add(blank("code", source));
  if (mine && there && draft.file !== there) { saved.textContent = "restored from this browser"; dirty = setTimeout(save, 1000); }
  // A cell that ran when the page was left is watched again.
  for (const c of cells) {
    const id = c.metadata.airlock?.cell;
    if (!id || !session.id) continue;
    c.view.make().dress();
    const before = c.outputs;
    c.outputs = [];
    c.view.outputs.reset([]);
    const known = await session.get(`/cells/${id}`).catch((e) => e);
    if (known.status === 404 || known instanceof Error) c.view.outputs.reset(before);
    carry(c, (tell) => session.follow(id, tell), c.metadata.airlock.parent);
  }
  document.getElementById("language").textContent = languages[session.language].kernel.display_name + (session.image && session.image !== "host" ? ` in ${session.image}` : "");
  side.refresh();
}

const stolen = sessionStorage.getItem("airlock:take") === key();
sessionStorage.removeItem("airlock:take");
try {
  await open();
} catch (e) {
  fill([blank()]);
  readOnly = true; // what could not be read is not written over
  say(`This notebook could not be opened: ${e.words ?? e.message} It is left as it is.`);
}
if (session.id && !readOnly) await edit(stolen);
requestAnimationFrame(() => setTimeout(() => { box.dataset.took = String(performance.now()); })); // since the address
box.dataset.ready = "true";
