// What runs in the session beside the cells: processes, and the ports on which programs
// listen. While something runs it is looked at again every few seconds.
import { Console } from "./console.js";
import { events } from "./stream.js";

const box = document.getElementById("notebook");
const list = document.getElementById("processes");
const ports = document.getElementById("ports");
const form = document.getElementById("process-new");
const again = 3000; // milliseconds

const words = (argv) => (/\bbash$/.test(argv[0]) && argv[1] === "-c" ? argv.slice(2) : argv).join(" ").slice(0, 200);

function ended(p) {
  if (p.running) return "";
  return p.signal ? `ended by ${p.signal}` : `ended with ${p.exit_code}`;
}

export class Processes {
  constructor(session, { say, readOnly, show }) {
    this.session = session;
    this.say = say;
    this.show = show; // opens the dialog on an element
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

  async refresh() {
    clearTimeout(this.timer);
    this.timer = 0;
    if (!this.session.id) return;
    try {
      const [{ processes }, { ports: open }] = await Promise.all([this.session.get("/processes"), this.session.get("/ports")]);
      // What a terminal of the page runs is seen there.
      this.list(processes.filter((p) => !p.pty).reverse().slice(0, 20));
      this.ports(open);
      if (!document.hidden && (open.length || processes.some((p) => p.running))) this.timer = setTimeout(() => this.refresh(), again);
    } catch (e) {
      if (e.status) this.say(e.words); // else the service is away for a moment
    }
  }

  list(all) {
    document.getElementById("processes-empty").hidden = all.length > 0;
    // Focus stays where it is: only what has changed is made anew.
    const known = new Map([...list.children].map((li) => [li.dataset.id, li]));
    list.replaceChildren(...all.map((p) => {
      const there = known.get(p.id);
      return there?.dataset.running === String(p.running) ? there : this.entry(p);
    }));
  }

  entry(p) {
    const li = document.createElement("li");
    li.dataset.id = p.id;
    li.dataset.running = String(p.running);
    const name = document.createElement("button");
    name.className = "link tree-name";
    name.textContent = words(p.argv);
    name.addEventListener("click", () => this.output(p));
    const note = document.createElement("small");
    note.textContent = ended(p);
    li.append(name, note);
    if (p.running) {
      const stop = document.createElement("button");
      stop.className = "quiet";
      stop.textContent = "Stop";
      stop.setAttribute("aria-label", `Stop ${words(p.argv)}`);
      stop.addEventListener("click", () => this.session.json(this.session.at(`/processes/${p.id}`), { method: "DELETE" })
        .then(() => this.refresh(), (e) => this.say(e.words ?? String(e))));
      li.append(stop);
    }
    return li;
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
        else if (type === "dropped") console.write("stderr", "[The beginning is no longer there.]\n");
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
