// What runs in the session beside the cells: the tree of its processes, and the ports on
// which programs listen. While something runs it is looked at again every few seconds.
import { Console } from "./console.js";
import { announce, named } from "./page.js";
import { events } from "./stream.js";

const box = document.getElementById("notebook");
const list = document.getElementById("processes");
const empty = document.getElementById("processes-empty");
const ports = document.getElementById("ports");
const form = document.getElementById("process-new");
const again = 3000; // milliseconds
const most = 200; // rows

const words = (argv) => (/\bbash$/.test(argv[0]) && argv[1] === "-c" ? argv.slice(2) : argv).join(" ");
const alive = (p) => p.running || p.background;

function ended(p) {
  if (p.running) return "";
  return p.signal ? `ended by ${p.signal}` : `ended with ${p.exit_code}`;
}

const seconds = (ms) => (ms < 60_000 ? `${(ms / 1000).toFixed(1)} s` : `${Math.floor(ms / 60_000)} min`);
const used = (p) => `pid ${p.pid} · ${seconds(p.cpu_ms)} · ${Math.round(p.memory_bytes / 2 ** 20)} MiB`;

// arrange makes rows of the session's commands and of its processes: {key, name, note, mark, end, output, rows}.
// A command that has one process at its top is one row with it.
export function arrange(commands, tree) {
  const made = new Map(tree.map((p) => [p.pid, { key: p.id, name: p.command, note: used(p), end: p.interpreter ? "" : `/tree/${p.id}`, rows: [], of: p }]));
  const rows = [];
  const tops = new Map(commands.map((c) => [c.id, []]));
  for (const row of made.values()) {
    const above = made.get(row.of.parent);
    const { process, interpreter } = row.of;
    if (interpreter) Object.assign(row, { name: "Interpreter", mark: "runs the cells" });
    if (above && (above.of.process === process || !tops.has(process))) above.rows.push(row);
    else (tops.get(process) ?? rows).push(row);
  }
  rows.sort((a, b) => Number(b.of.interpreter) - Number(a.of.interpreter));
  for (const c of [...commands].reverse()) {
    const inside = tops.get(c.id);
    const row = { key: c.id, name: words(c.argv), note: ended(c), output: c, end: alive(c) ? `/processes/${c.id}` : "", rows: inside };
    if (c.pty) row.mark = "terminal";
    if (c.background) row.mark = "background";
    if (c.running && inside.length === 1) Object.assign(row, { note: inside[0].note, rows: inside[0].rows });
    rows.push(row);
  }
  return rows;
}

// place has a list show elements in an order. What is at its place is not moved: it keeps the focus.
function place(parent, elements) {
  const wanted = new Set(elements);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  elements.forEach((element, i) => { if (parent.children[i] !== element) parent.insertBefore(element, parent.children[i] ?? null); });
}

const put = (element, text) => { if (element.textContent !== text) element.textContent = text; };

export class Processes {
  constructor(session, { say, readOnly, show }) {
    this.session = session;
    this.say = say;
    this.show = show; // opens the dialog on an element
    this.rows = new Map(); // what is shown, by key
    form.addEventListener("submit", async (e) => {
      e.preventDefault();
      const field = form.elements.command;
      if (readOnly() || !field.value.trim()) return;
      try {
        await session.make();
        await session.call("/processes", { shell: field.value });
        field.value = "";
        await this.refresh();
      } catch (error) {
        say(error.words ?? String(error));
      }
    });
    document.addEventListener("visibilitychange", () => { if (!document.hidden && this.timer) this.refresh(); });
  }

  // soon looks while a cell runs, if it runs for longer than most.
  soon() {
    this.timer ||= setTimeout(() => this.again(), again);
  }

  // again looks once more, or waits until somebody sees the page.
  again() {
    if (!document.hidden) this.refresh();
  }

  // refresh looks, and again as long as something runs.
  async refresh() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.session.id) return;
    const turn = (this.turn = (this.turn ?? 0) + 1);
    let problem = "";
    let commands, open, tree;
    try {
      [{ processes: commands }, { ports: open }, { processes: tree }] = await Promise.all([
        this.session.get("/processes"), this.session.get("/ports"),
        this.session.get("/tree").catch((e) => { problem = e.words ?? String(e); return { processes: [] }; }),
      ]);
    } catch (e) {
      if (e.status === 429 || e.status === 503) this.timer = setTimeout(() => this.again(), again); // nobody asked
      else if (e.status) this.say(e.words); // else the service is away for a moment
      return;
    }
    if (turn !== this.turn) return; // a later look has begun
    const some = commands.filter((p) => alive(p)).concat(commands.filter((p) => !alive(p) && !p.pty).slice(-20));
    this.list(arrange(commands.filter((p) => some.includes(p)), tree));
    put(empty, problem ? `What runs in the session cannot be seen now: ${problem}` : "Servers and other programs that run beside the cells.");
    empty.hidden = !problem && list.children.length > 0;
    this.ports(open);
    const runs = open.length > 0 || commands.some(alive) || tree.some((p) => !p.interpreter);
    if (runs || box.dataset.busy === "true") this.timer = setTimeout(() => this.again(), again);
  }

  list(rows) {
    const seen = new Set();
    const show = (into, some) => place(into, some.flatMap((row) => {
      if (seen.size >= most) return [];
      seen.add(row.key);
      const shown = this.rows.get(row.key) ?? this.entry(row);
      this.rows.set(row.key, shown);
      this.fill(shown, row);
      show(shown.below, row.rows);
      return [shown.element];
    }));
    show(list, rows);
    for (const key of this.rows.keys()) if (!seen.has(key)) this.rows.delete(key);
  }

  // entry makes what shows a row. What it says may change, not what it is.
  entry(row) {
    const element = document.createElement("li");
    element.className = "process";
    const line = document.createElement("div");
    line.className = "process-line";
    const name = document.createElement(row.output ? "button" : "span");
    name.className = row.output ? "link tree-name" : "tree-name";
    if (row.output) name.addEventListener("click", () => this.output(row.output));
    const stop = document.createElement("button");
    stop.className = "quiet";
    stop.textContent = "End";
    const note = document.createElement("small");
    const below = document.createElement("ul");
    line.append(name, stop);
    element.append(line, note, below);
    stop.addEventListener("click", () => this.end(stop, row));
    return { element, name, note, stop, below };
  }

  fill({ name, note, stop }, row) {
    put(name, named(row.name).slice(0, 200)); // another one after an exec
    name.title = named(row.name);
    stop.ariaLabel = `End ${name.textContent}, with all that it has started`;
    put(note, [row.mark, row.note].filter(Boolean).join(" · "));
    stop.hidden = stop.disabled = !row.end;
  }

  async end(stop, row) {
    if (!row.end) return; // nothing but the session is there
    stop.disabled = true;
    try {
      await this.session.json(this.session.at(row.end), { method: "DELETE" });
      announce(`${named(row.name).slice(0, 200)} has ended.`);
      await this.refresh();
    } catch (e) {
      this.say(e.words ?? String(e));
    }
    stop.disabled = false;
    // The button is gone, with the row or alone: the keyboard goes on with the next, or with a new command.
    if (document.activeElement === document.body) (list.querySelector("button:not([hidden])") ?? form.elements.command).focus();
  }

  // output shows what a process puts out, as it comes, until the dialog is closed.
  async output(p) {
    const element = document.createElement("div");
    element.className = "console out-console";
    element.tabIndex = 0;
    element.setAttribute("role", "region");
    element.setAttribute("aria-label", "Output of the process");
    const closed = new AbortController();
    const console = new Console(element);
    this.show(words(p.argv), element, closed);
    const decoder = new TextDecoder();
    try {
      const answer = await this.session.send(this.session.at(`/processes/${p.id}/events`), { headers: { Accept: "text/event-stream" }, signal: closed.signal });
      for await (const { type, data } of events(answer.body)) {
        if (type === "exit") console.write("stderr", `[${ended(data)}]\n`);
        else if (type === "dropped") console.write("stderr", data.text);
        else console.write(type === "stderr" ? "stderr" : "stdout", data.text ?? decoder.decode(Uint8Array.from(atob(data.base64), (c) => c.charCodeAt(0)), { stream: true }));
      }
    } catch (e) {
      if (e.name !== "AbortError") this.say(e.words ?? String(e));
    }
  }

  ports(open) {
    const key = open.map((p) => p.port).join();
    if (ports.dataset.open === key) return;
    ports.dataset.open = key;
    ports.replaceChildren(...open.map(({ port, path }) => {
      const li = document.createElement("li");
      const name = document.createElement("a");
      name.className = "tree-name";
      name.textContent = `Port ${port}`;
      // A browser shows no key: with one, the page makes an address that stands for it.
      const href = box.dataset.keyed ? `${box.dataset.sessions}${this.session.id}/ports/${port}` : path;
      Object.assign(name, { href, target: "_blank", rel: "noopener noreferrer" });
      li.append(name);
      return li;
    }));
  }
}
