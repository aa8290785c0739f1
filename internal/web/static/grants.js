// What the programs of a notebook may contact, and packages that are installed for it: what is granted, by whom, and
// what a person may grant or revoke here.
import { announce } from "./page.js";
import { Console } from "./console.js";

const section = document.getElementById("network");
const summary = document.getElementById("network-summary");
const left = document.getElementById("left");
const PACKAGES = "packages"; // the rule for the registries of pip and npm
const installs = { python: "pip", javascript: "npm", typescript: "npm" };

function element(tag, content, props = {}) {
  const e = Object.assign(document.createElement(tag), props);
  e.append(...[content].flat().filter((c) => c !== undefined && c !== ""));
  return e;
}

// Who allows something, as the service says it.
const whose = { key: "your key", service: "the operator, to everyone here" };

// called is the words for a rule.
const called = (rule) => (rule === PACKAGES ? "package registries (pip, npm)" : rule);

// alive reports whether a session has variables in an interpreter that runs.
const alive = (live) => ["idle", "busy", "waiting"].includes(live.state) && !live.fresh;

export class Grants {
  constructor(notebook) {
    this.notebook = notebook;
    document.getElementById("install").addEventListener("click", () => this.openInstall());
    document.getElementById("network-change").addEventListener("click", () => this.openNetwork());
    document.addEventListener("visibilitychange", () => { if (!document.hidden) this.back(); });
  }

  get session() { return this.notebook.session; }

  // installs reports whether packages can be installed for the language of the notebook.
  get installs() { return !!installs[this.session.language]; }

  // opened is told when a notebook is open: it says what is left of its variables.
  async opened() {
    document.getElementById("install").hidden = !this.installs;
    if (!this.session.id) return;
    this.left();
    await this.refresh();
  }

  // back is told when somebody looks at the page again, whose interpreter may have been ended for want of cells.
  async back() {
    const { notebook } = this;
    if (!this.session.id || notebook.runner.running || !left.hidden) return;
    const { live } = await this.session.get("").catch(() => ({}));
    if (!live || alive(live)) return;
    notebook.live = live;
    this.left();
    notebook.widgets.lost();
    notebook.side.refresh();
  }

  // left says whether the variables of a notebook that was closed are still there.
  left() {
    const { notebook } = this;
    const { live } = notebook;
    if (!live || notebook.readOnly || notebook.runner.running || !notebook.cells.list.some((c) => c.count)) return;
    const [badge, state, words] = alive(live) ? ["ok", "ready", "Variables are still there: go on where you left off."]
      : live.memory ? ["", "paused", "Variables are kept: the next cell continues with them."]
        : ["", "ended", "Variables are gone; files are there. Run the cells again to go on. "];
    notebook.runner.state(badge, state);
    left.replaceChildren(words);
    if (state === "ended") {
      const all = element("button", "Run all", { type: "button" });
      all.addEventListener("click", () => notebook.runner.run(notebook.cells.list));
      left.append(all);
    }
    left.hidden = false;
  }

  async refresh() {
    if (!this.session.id) return;
    try {
      this.network = await this.session.get("/network");
    } catch (e) {
      this.network = null;
      this.notebook.say(e.words ?? String(e));
      return;
    }
    const { allow, by } = this.network;
    const from = by === "key" ? "from your key" : "you allowed it for this notebook";
    summary.textContent = allow.length ? `${allow.map(called).join(", ")}: ${from}.` : "Programs of this notebook contact nothing.";
    section.dataset.granted = String(allow.length > 0);
  }

  // may reports whether this visitor may grant a rule.
  may(rule) { return this.network.may.some((r) => r === rule || r === "*"); }

  async known() {
    await this.session.make();
    if (!this.network) await this.refresh();
    return this.network;
  }

  // refusal says what is missing and who can grant it.
  refusal(rules) {
    return element("div", [
      element("p", "Programs of this service have no network, and nothing that you may allow changes that. The operator of the service can:"),
      element("pre", `airlock serve --network-allow ${rules}\nairlock keys create --network ${rules}    # for one key`, { className: "text", tabIndex: 0 }),
      element("p", "Send them these lines; the first one is for everybody, the second one for one key.", { className: "note" }),
    ], { className: "stack" });
  }

  async openInstall(names = "") {
    const { side } = this.notebook;
    if (this.notebook.readOnly) return;
    const form = element("form", element("p", "Reading what is allowed …", { className: "note" }), { className: "stack" });
    side.open("Install package", form);
    try {
      await this.known();
    } catch (e) {
      form.replaceChildren(element("p", e.words ?? String(e), { className: "problem" }));
      return;
    }
    if (!this.may(PACKAGES)) {
      form.replaceChildren(this.refusal(PACKAGES));
      return;
    }
    const tool = installs[this.session.language];
    const field = element("input", "", { type: "text", name: "names", value: names, required: true, spellcheck: false, autocomplete: "off", placeholder: tool === "pip" ? "seaborn, or seaborn==0.13.2" : "lodash, or lodash@4" });
    const go = element("button", "Allow and install", { className: "primary" });
    form.replaceChildren(
      element("label", ["Packages", field]),
      element("p", `While it installs, ${tool} may contact the package registries of this service, and nothing else. The cells cannot. This is allowed by ${whose[this.network.may_by] ?? "this service"}, and you allow it with the button.`),
      element("p", "What is installed belongs to this notebook, and goes with its interpreter: the page then offers to install it again.", { className: "note" }),
      element("div", go),
    );
    field.focus();
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      if (!go.disabled) this.install(field.value.split(/[\s,]+/).filter(Boolean), form, go);
    });
  }

  // install installs packages, and shows what pip or npm says.
  async install(names, form, go) {
    go.disabled = true;
    form.querySelector(".console")?.remove();
    form.querySelector("[role=status]")?.remove();
    const said = element("p", "Installing …", { className: "note" });
    said.setAttribute("role", "status");
    const place = element("div", "", { className: "console out-console", tabIndex: 0 });
    place.setAttribute("role", "region");
    place.setAttribute("aria-label", "What the installer says");
    form.append(said, place);
    const output = new Console(place);
    try {
      const done = await this.session.install(names, (type, data) => { if (type === "stdout" || type === "stderr") output.write(type, data.text); });
      const good = done.status === "ok";
      said.className = good ? "note good" : "problem";
      said.textContent = good ? `Installed: ${names.join(", ")}. Import it in a cell; variables are as they were.` : "It was not installed: what the installer says is below.";
      if (good) this.remember(names);
    } catch (e) {
      said.className = "problem";
      said.textContent = e.words ?? String(e);
    }
    go.disabled = false;
    announce(said.textContent);
  }

  remember(names) {
    const { notebook } = this;
    const own = (notebook.metadata.airlock ??= {});
    const name = (text) => text.replace(/[\[=<>!~@].*$/, "") || text;
    own.packages = [...(own.packages ?? []).filter((old) => !names.some((n) => name(n) === name(old))), ...names];
    notebook.changed();
  }

  // renewed is told when a cell runs in a new interpreter: packages may be gone with the one before.
  async renewed() {
    const { packages = [] } = this.notebook.metadata.airlock ?? {};
    if (!packages.length) return;
    const folder = installs[this.session.language] === "npm" ? "node_modules" : ".packages";
    const there = await this.session.get(`/fs/stat?path=${folder}`).catch((e) => e.status !== 404);
    if (there) return;
    this.notebook.say(`Packages that were installed for this notebook are gone with its interpreter: ${packages.join(", ")}.`, "warning", {
      "Install again": () => { this.notebook.say(""); this.openInstall(packages.join(" ")); },
    });
  }

  async openNetwork() {
    const body = element("div", element("p", "Reading what is allowed …", { className: "note" }), { className: "stack" });
    this.notebook.side.open("Network", body);
    try {
      await this.known();
      await this.refresh();
    } catch (e) {
      body.replaceChildren(element("p", e.words ?? String(e), { className: "problem" }));
      return;
    }
    this.fillNetwork(body);
  }

  // fillNetwork shows the grant of the notebook, and what this visitor may change of it.
  fillNetwork(body, problem = "") {
    const { allow, deny, by, may, may_by: mayBy } = this.network;
    const parts = [];
    if (problem) parts.push(element("p", problem, { className: "problem" }));
    if (allow.length) {
      parts.push(element("p", by === "key" ? "Your key gives the programs of this notebook these hosts:" : "You allowed the programs of this notebook these hosts:"));
      parts.push(element("ul", allow.map((rule) => {
        const revoke = element("button", "Revoke", { type: "button", className: "quiet danger" });
        revoke.setAttribute("aria-label", `Revoke ${called(rule)}`);
        revoke.addEventListener("click", () => this.set(body, allow.filter((r) => r !== rule), deny));
        return element("li", [element("code", called(rule)), revoke]);
      }), { className: "rules" }));
    } else {
      parts.push(element("p", "Programs of this notebook contact nothing."));
    }
    if (deny.length) parts.push(element("p", `Not among them: ${deny.join(", ")}.`, { className: "note" }));
    if (may.length) {
      const field = element("input", "", { type: "text", required: true, spellcheck: false, autocomplete: "off", placeholder: may.includes("*") ? "api.example.com" : may[0] });
      const add = element("button", "Allow", { className: "primary" });
      const form = element("form", [element("label", ["Host, or the word packages", field]), add], { className: "side-form rule-form" });
      form.addEventListener("submit", (e) => { e.preventDefault(); this.set(body, [...new Set([...allow, ...field.value.split(/[\s,]+/).filter(Boolean)])], deny); });
      parts.push(form, element("p", `You may allow: ${may.map(called).join(", ")}. That much is allowed by ${whose[mayBy] ?? "this service"}.`, { className: "note" }));
      parts.push(element("p", "A change restarts the interpreter: variables are gone, files stay.", { className: "note" }));
    } else {
      parts.push(this.refusal("api.example.com"));
    }
    body.replaceChildren(...parts);
  }

  async set(body, allow, deny) {
    try {
      const before = this.session.id;
      this.network = await this.session.json(this.session.at("/network"), { method: "PUT", body: { allow, deny } });
      if (before) this.notebook.runner.restarted("restarted");
      await this.refresh();
      this.fillNetwork(body);
      announce(summary.textContent);
    } catch (e) {
      this.fillNetwork(body, e.words ?? String(e));
    }
  }
}
