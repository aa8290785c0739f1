// Keeping a notebook: in this browser at once, as a file of its session soon after. One tab edits it at a time.
import { named } from "./page.js";
import { fileNameOf, fromFile, maxNotebook, toFile, unsaved } from "./nbformat.js";
import * as drafts from "./stash.js";

class Refused extends Error {} // nothing is written before a person has looked

const saved = document.getElementById("saved");
const title = document.getElementById("title");

export class Keeper {
  constructor(notebook) {
    this.notebook = notebook;
    this.fresh = unsaved(notebook.session.language);
    this.file = "Untitled.ipynb"; // where the session has it
    this.text = ""; // of the file as this page last saw it
    this.timer = 0; // of the save to come
    this.tried = ""; // the content of a save whose answer may not have come
    this.refused = false; // the notice says why nothing is saved
    addEventListener("pagehide", () => { if (this.timer) this.draft(); });
  }

  get key() { return this.notebook.session.id || this.fresh; }

  // content is the notebook as a file.
  get content() {
    const { cells, session, metadata } = this.notebook;
    return JSON.stringify(toFile(cells.list.map((c) => ({ ...c, outputs: c.view?.outputs?.list ?? c.outputs })), session.language, metadata));
  }

  get fileName() { return fileNameOf(title.value); }

  // draft keeps the notebook in this browser.
  draft(file = this.content, done = false) { return drafts.put(this.key, { title: title.value, file, saved: done }); }
  drafted() { return drafts.get(this.key); }

  changed() {
    if (this.notebook.readOnly) return;
    saved.textContent = "not saved yet";
    this.draft();
    this.later(1000);
  }

  later(ms) {
    clearTimeout(this.timer);
    this.timer = setTimeout(() => this.save(), ms);
  }

  // contentAt reads what is at a path; "": nothing.
  async contentAt(path) {
    const { session } = this.notebook;
    const entry = await session.get(`/fs/stat?path=${encodeURIComponent(path)}`).catch((e) => { if (e.status === 404) return null; throw e; });
    if (!entry) return "";
    if (entry.size > maxNotebook) throw new Refused(`"${named(path)}" was made or changed elsewhere: it has ${Math.round(entry.size / 2 ** 20)} MiB, more than this page opens. Nothing is written over it; delete or rename it among the files to save this notebook.`);
    return (await session.read(path)).text();
  }

  async save() {
    clearTimeout(this.timer);
    this.timer = 0;
    const { notebook } = this;
    const { session } = notebook;
    if (notebook.readOnly || !session.id) return; // without a session the browser keeps it
    const now = this.content;
    const wanted = this.fileName;
    try {
      const mine = this.text && await this.contentAt(this.file);
      if (mine && mine !== this.text) { this.conflict(mine); return; }
      const taken = this.text && wanted === this.file ? "" : await this.contentAt(wanted);
      if (taken && taken !== this.tried) {
        if (this.text) throw new Refused(`There is another file "${named(wanted)}" in the session: give this notebook another name.`);
        this.file = wanted;
        this.conflict(taken);
        return;
      }
      this.tried = now;
      await session.write(wanted, now);
      const first = !this.text || wanted !== this.file;
      if (wanted !== this.file) {
        if (this.text) await session.json(session.at(`/fs/remove?path=${encodeURIComponent(this.file)}`), { method: "POST" }).catch(() => {});
        this.file = wanted;
      }
      this.text = now;
      if (first) notebook.side.list().catch(() => {});
      if (this.refused) notebook.say("");
      this.refused = false;
      if (!this.timer) saved.textContent = "saved"; // else something was changed meanwhile
      this.draft(now, this.timer === 0);
    } catch (e) {
      saved.textContent = "kept in this browser only";
      this.refused ||= e instanceof Refused || !!e.status; // else the service is away for a while
      if (e instanceof Refused) notebook.say(e.message);
      else this.timer = setTimeout(() => this.save(), 5000);
      if (e.status) notebook.say(`The notebook could not be saved: ${e.words}`);
    }
  }

  // conflict asks whose notebook is to stay. Nothing is written before.
  conflict(there) {
    const { notebook } = this;
    saved.textContent = "not saved: it was changed elsewhere";
    notebook.say("This notebook was changed elsewhere, by another browser or by a program, since this page read it. ", "warning", {
      "Show theirs": () => { this.text = there; notebook.show(fromFile(there)); notebook.say(""); saved.textContent = "saved"; },
      "Keep mine": () => { this.text = there; notebook.say(""); this.save(); },
    });
  }

  // edit makes this tab the one that edits. Another tab of this browser that does stops.
  async edit(steal) {
    if (!navigator.locks) return; // not a secure context: the file itself tells of conflicts
    await new Promise((settled) => {
      navigator.locks.request(`airlock:${this.key}`, steal ? { steal: true } : { ifAvailable: true }, (lock) => {
        settled();
        if (!lock) { this.watchOnly(); return undefined; }
        return new Promise(() => {}); // until the page is gone
      }).catch(() => this.watchOnly());
    });
  }

  watchOnly() {
    const { notebook } = this;
    notebook.readOnly = true;
    clearTimeout(this.timer);
    notebook.box.classList.add("read-only");
    for (const c of notebook.cells.list) c.view.lock();
    notebook.say("Another tab edits this notebook. ", "warning", {
      "Edit here": () => { sessionStorage.setItem("airlock:take", this.key); location.reload(); },
    });
  }
}
