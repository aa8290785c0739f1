// Beside the cells: the files of the session, its variables, a terminal.
import { ask, announce, loadScript, meta, named, parts } from "./page.js";
import { openFrame } from "./file-frame.js";
import { fromCSV } from "./table.js";
import { Processes } from "./processes.js";
import { events } from "./stream.js";

const box = document.getElementById("notebook");
const tree = document.getElementById("files");
const variables = document.getElementById("variables");
const dialog = document.getElementById("look");
const maxLook = 64 << 20; // bytes of a file that is shown here

function size(n) {
  const units = ["B", "KiB", "MiB", "GiB"];
  let i = 0;
  while (n >= 1024 && i < 3) { n /= 1024; i++; }
  return `${i ? n.toFixed(1).replace(/\.0$/, "") : n} ${units[i]}`;
}

const icon = (kind) => (kind === "folder" ? "▸ " : "");

export class Side {
  constructor(session, { say, readOnly }) {
    this.session = session;
    this.say = say;
    this.readOnly = readOnly;
    this.processes = new Processes(session, { say, readOnly, show: (title, element, closed) => this.open(title, element, closed) });
    document.getElementById("upload").addEventListener("change", (e) => { this.add(e.target.files); e.target.value = ""; });
    document.getElementById("look-close").addEventListener("click", () => dialog.close());
    document.getElementById("terminal-open").addEventListener("click", () => this.terminal());
    const files = (e) => e.dataTransfer?.types.includes("Files");
    document.addEventListener("dragover", (e) => { if (files(e)) { e.preventDefault(); box.classList.add("over"); } });
    document.addEventListener("dragleave", (e) => { if (!e.relatedTarget) box.classList.remove("over"); });
    document.addEventListener("drop", (e) => {
      if (!files(e)) return;
      e.preventDefault();
      e.stopPropagation();
      box.classList.remove("over");
      this.add(e.dataTransfer.files);
    }, true);
  }

  async add(files) {
    if (this.readOnly()) return;
    for (const file of [...files]) {
      try {
        if (file.size > Number(box.dataset.max)) throw Object.assign(new Error(), { words: `it has ${size(file.size)}, more than one file may have` });
        await this.session.write(file.name, file);
        announce(`${file.name} is uploaded.`);
      } catch (e) {
        this.say(`${named(file.name)} was not uploaded: ${e.words ?? e}`);
      }
    }
    await this.list();
  }

  async refresh() {
    if (!this.session.id) return;
    await Promise.all([this.list(), this.show(), this.processes.refresh()]).catch((e) => this.say(e.words ?? String(e)));
  }

  async list() {
    if (!this.session.id) return;
    const { entries, more } = await this.session.get("/fs/list?depth=6");
    const shown = entries.filter((e) => !e.path.split("/").some((part) => part.startsWith(".")));
    document.getElementById("files-empty").hidden = shown.length > 0;
    tree.replaceChildren(...shown.slice(0, 500).map((e) => this.entry(e)));
    if (more || shown.length > 500) tree.append(Object.assign(document.createElement("li"), { textContent: "… there are more", className: "note" }));
  }

  entry(e) {
    const li = document.createElement("li");
    const parts = e.path.split("/");
    li.style.paddingLeft = `${(parts.length - 1) * 0.9}rem`;
    const isFile = e.kind === "file";
    const name = document.createElement(isFile ? "button" : "span");
    name.className = isFile ? "link tree-name" : "tree-name";
    name.textContent = icon(e.kind) + named(parts.at(-1));
    li.append(name);
    if (!isFile) return li;
    name.addEventListener("click", () => this.look(e));
    const note = document.createElement("small");
    note.textContent = size(e.size);
    li.append(note);
    const act = (words, label, run) => {
      const b = document.createElement("button");
      b.className = "quiet";
      b.textContent = words;
      b.setAttribute("aria-label", `${label} ${named(e.path)}`);
      b.addEventListener("click", () => run().catch((error) => this.say(error.words ?? String(error))));
      li.append(b);
    };
    act("⤓", "Download", () => this.fetch(e));
    act("✎", "Rename", async () => {
      const to = window.prompt("New path", e.path);
      if (!to || to === e.path) return;
      await this.session.json(this.session.at(`/fs/move?from=${encodeURIComponent(e.path)}&to=${encodeURIComponent(to)}`), { method: "POST" });
      await this.list();
    });
    act("✕", "Delete", async () => {
      if (!window.confirm(`Delete ${named(e.path)}?`)) return;
      await this.session.json(this.session.at(`/fs/remove?path=${encodeURIComponent(e.path)}`), { method: "POST" });
      await this.list();
    });
    return li;
  }

  async fetch(e) {
    const blob = await (await this.session.read(e.path)).blob();
    const a = document.createElement("a");
    a.href = URL.createObjectURL(new Blob([blob], { type: "application/octet-stream" }));
    a.download = e.path.split("/").at(-1);
    a.click();
    setTimeout(() => URL.revokeObjectURL(a.href), 10000);
  }

  // open shows an element in the dialog; closed is told when that is closed.
  open(title, element, closed) {
    document.getElementById("look-title").textContent = title;
    document.getElementById("look-body").replaceChildren(...(element ? [element] : []));
    dialog.showModal();
    dialog.addEventListener("close", () => closed?.abort(), { once: true });
  }

  // look shows a file: a table, a picture, text. Nothing of it is taken for HTML.
  async look(e) {
    const body = document.getElementById("look-body");
    this.open(named(e.path));
    const note = (words) => body.replaceChildren(Object.assign(document.createElement("p"), { className: "note", textContent: words }));
    if (e.size > maxLook) return note(`${size(e.size)} is more than is shown here. Download it.`);
    try {
      const ext = e.path.split(".").at(-1).toLowerCase();
      if (["xlsx", "parquet", "pdf", "jsonl", "ndjson"].includes(ext)) return body.replaceChildren(...await this.read(e, ext));
      const answer = await this.session.read(e.path);
      const pictures = { png: "image/png", jpg: "image/jpeg", jpeg: "image/jpeg", gif: "image/gif", webp: "image/webp", svg: "image/svg+xml" };
      if (pictures[ext]) {
        const img = document.createElement("img");
        img.alt = named(e.path);
        img.className = "out-image";
        img.src = URL.createObjectURL(new Blob([await answer.arrayBuffer()], { type: pictures[ext] }));
        body.replaceChildren(img);
      } else if (ext === "csv" || ext === "tsv") {
        const text = await answer.text();
        const start = performance.now();
        const table = fromCSV(text.replace(/^\uFEFF/, ""), ext === "tsv" ? "\t" : ",", named(e.path));
        body.replaceChildren(table.element);
        body.dataset.took = String(performance.now() - start);
      } else {
        const bytes = new Uint8Array(await answer.arrayBuffer());
        if (bytes.subarray(0, 8000).includes(0)) return note("This is not text. Download it.");
        const pre = document.createElement("pre");
        pre.tabIndex = 0;
        pre.textContent = new TextDecoder().decode(bytes.subarray(0, 1 << 20));
        body.replaceChildren(pre);
      }
    } catch (error) {
      note(error.words ?? String(error));
    }
    return undefined;
  }

  // read has a program in the sandbox read a file that is no text: first it has to be stored,
  // which files are soon after they are written.
  async read(e, ext) {
    document.getElementById("look-body").textContent = "Reading …";
    let file;
    for (let n = 0; n < 20 && !file; n++) {
      if (n) await new Promise((r) => setTimeout(r, 500));
      file = ((await this.session.get("/files")).files ?? []).find((f) => f.path === e.path && f.size === e.size);
    }
    if (!file) throw Object.assign(new Error(), { words: "It is not stored yet: try again, or download it." });
    const at = `${box.dataset.files}${file.id}`;
    if (ext === "pdf") return parts(await ask(`${at}/preview`, { accept: "text/html" }));
    return [(await openFrame(at, box.dataset.api, e.path.split("/").at(-1))).element];
  }

  async show() {
    const found = (await this.session.get("/variables")).variables;
    if (!found.length) {
      variables.replaceChildren(Object.assign(document.createElement("p"), { className: "note", textContent: "None yet." }));
      return;
    }
    const list = document.createElement("dl");
    for (const v of found.slice(0, 200)) {
      const dt = document.createElement("dt");
      dt.textContent = v.name;
      const kind = document.createElement("small");
      kind.textContent = ` ${v.type}${v.shape ? ` ${v.shape}` : ""}`;
      dt.append(kind);
      const dd = document.createElement("dd");
      dd.textContent = v.repr;
      list.append(dt, dd);
    }
    variables.replaceChildren(list);
  }

  // joined returns the shell of the session, if one runs: another tab may show it too.
  async joined() {
    const { processes } = await this.session.get("/processes");
    return processes.findLast((p) => p.pty && p.running && p.argv.join(" ") === "bash -i");
  }

  // terminal opens the shell in the sandbox, with its last lines if it runs already.
  async terminal() {
    const place = document.getElementById("terminal");
    place.hidden = false;
    place.scrollIntoView({ block: "nearest" });
    if (this.shell) return this.shell.focus();
    try {
      await this.session.make();
      const { open } = await loadScript(box.dataset.terminal);
      const term = (this.shell = open(place, meta("nonce")));
      term.options.scrollback = 10_000;
      const size = () => ({ cols: term.cols, rows: term.rows });
      const starting = this.joined().then((p) => p ?? this.session.call("/processes", { argv: ["bash", "-i"], pty: size() }));
      let made = null;
      let replied = 0; // the output before this offset is replayed: what it asks of a terminal was answered then
      let shown = 0;
      const at = (path) => this.session.at(`/processes/${made.id}${path}`);
      const encoder = new TextEncoder();
      let sending = starting; // what is typed before waits
      term.onData((data) => {
        if (shown < replied) return;
        sending = sending.then(() => this.session.json(at("/input"), { method: "POST", raw: encoder.encode(data), headers: { "Content-Type": "application/octet-stream" } })).catch((e) => term.write(`\r\n[${e.words}]\r\n`));
      });
      const resize = () => made && this.session.json(at("/resize"), { method: "POST", body: size() }).catch(() => {});
      term.onResize(resize);
      place.onfocusin = resize; // of several tabs, the size is that of the last one used
      made = await starting;
      replied = made.output_bytes;
      resize();
      const answer = await this.session.send(at("/events"), { headers: { Accept: "text/event-stream" } });
      for await (const { type, data } of events(answer.body)) {
        const bytes = data.text !== undefined ? encoder.encode(data.text) : Uint8Array.from(atob(data.base64 ?? ""), (c) => c.charCodeAt(0));
        if (data.offset !== undefined) term.write(bytes, () => { shown = data.offset + bytes.length + (data.bytes ?? 0); });
        if (type === "exit") term.write("\r\n[The shell has ended.]\r\n");
      }
    } catch (e) {
      this.say(e.words ?? String(e));
    }
    this.shell = null;
    place.replaceChildren();
    place.hidden = true;
    return undefined;
  }
}
