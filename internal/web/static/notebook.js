// The notebook: cells over a live session. What is written is kept in the browser at
// once and as a file of the session soon after; one tab edits a notebook at a time.
import { ask, named } from "./page.js";
import { addForm } from "./outputs.js";
import { blank, fromFile, languages, maxNotebook, toScript } from "./nbformat.js";
import { toHTML } from "./nbhtml.js";
import { Cells } from "./cells.js";
import { Commands } from "./commands.js";
import { Grants } from "./grants.js";
import { Keeper } from "./keeper.js";
import { Outline } from "./outline.js";
import { Runner } from "./runner.js";
import { Session } from "./session.js";
import * as drafts from "./stash.js";
import { Side } from "./side.js";
import { show as showMarkdown } from "./markdown.js";
import { fromData } from "./table.js";
import { VIEW, Widgets } from "./widgets.js";

const box = document.getElementById("notebook");
const title = document.getElementById("title");
const notice = document.getElementById("notice");
const element = (id) => document.getElementById(id);
const session = new Session(box.dataset.api, box.dataset.session, box.dataset.language, box.dataset.image);

// rendered is HTML of Markdown, without scripts and pictures from elsewhere.
const rendered = async (source) => (await session.elsewhere(box.dataset.markdown, { method: "POST", raw: source, headers: { "Content-Type": "text/plain" } })).text();

// notebook is what its parts know of each other.
const notebook = {
  box, session, readOnly: false,
  metadata: {}, // of the file, as Jupyter and this page have it
  say, changed: () => notebook.keeper.changed(),
  markdown: (text, into) => showMarkdown(text, into, rendered).then(() => notebook.outline.level()),
  show({ cells, metadata }) {
    notebook.metadata = metadata ?? {};
    notebook.cells.fill(cells);
  },
};
notebook.outline = new Outline(notebook);
notebook.runner = new Runner(notebook);
notebook.keeper = new Keeper(notebook);
notebook.side = new Side(session, { say, readOnly: () => notebook.readOnly });
notebook.widgets = new Widgets(session, { say, readOnly: () => notebook.readOnly });
notebook.cells = new Cells(notebook, element("cells"));
notebook.commands = new Commands(notebook, notebook.side);
notebook.grants = new Grants(notebook);
const { cells, keeper, runner, side, widgets } = notebook;

addForm("application/vnd.airlock.table+json", (data) => fromData(data, session).element);
addForm(VIEW, (data, output, outputs) => widgets.show(data, output, outputs));
addForm("text/markdown", (data) => {
  const shown = Object.assign(document.createElement("div"), { className: "cell-text" });
  notebook.markdown(Array.isArray(data) ? data.join("") : String(data), shown);
  return shown;
});

// What a cell put out may want to be made anew.
element("cells").addEventListener("airlock:run", (e) => runner.run(cells.list.filter((c) => c.view.element.contains(e.target))));

// say puts a sentence above the cells, with what can be done about it: words of buttons, and what they do.
function say(words, kind = "problem", acts = {}) {
  notice.className = kind;
  notice.textContent = words;
  for (const [label, act] of Object.entries(acts)) {
    const button = Object.assign(document.createElement("button"), { type: "button", textContent: label });
    button.addEventListener("click", act);
    notice.append(" ", button);
  }
  notice.hidden = !words;
}

// The bar.

const click = (id, act) => element(id).addEventListener("click", act);
click("run-all", () => runner.run(cells.list));
click("interrupt", () => runner.interrupt());
click("restart", () => runner.restart());
click("add-code", () => cells.insert(cells.list.at(-1), 1, "code"));
click("add-text", () => cells.insert(cells.list.at(-1), 1, "markdown"));
click("clear", () => { for (const c of cells.list) if (c !== runner.running) c.view.clear(); notebook.changed(); });
click("keys", () => notebook.commands.openSheet());
click("undo-delete", () => cells.restore());
title.addEventListener("input", () => notebook.changed());

function download(name, content, type) {
  const a = document.createElement("a");
  a.href = URL.createObjectURL(new Blob([content], { type }));
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(a.href), 10000);
}
const spoken = () => languages[session.language].info;
const named_ = (ending) => keeper.fileName.replace(/\.ipynb$/, ending);
click("export-ipynb", () => download(keeper.fileName, JSON.stringify(JSON.parse(keeper.content), null, 1) + "\n", "application/x-ipynb+json"));
click("export-script", () => download(named_(spoken().file_extension), toScript(cells.list, session.language), spoken().mimetype));
click("export-html", async () => {
  try {
    download(named_(".html"), await toHTML(title.value.trim() || "Untitled", cells.list, rendered), "text/html");
  } catch (e) {
    say(e.words ?? e.message);
  }
});

// share makes a link to a copy of the notebook as it is now.
function share() {
  const form = Object.assign(document.createElement("form"), { className: "stack" });
  const words = document.createElement("p");
  words.textContent = "Whoever has the link sees the notebook as it is now, with its outputs, and can change nothing. You can revoke it on the page of notebooks.";
  const label = document.createElement("label");
  const days = document.createElement("select");
  for (const n of [1, 7, 30]) days.append(new Option(n === 1 ? "1 day" : `${n} days`, n, n === 7, n === 7));
  label.append("Good for ", days);
  const go = Object.assign(document.createElement("button"), { className: "primary", textContent: "Make a link" });
  form.append(words, label, go);
  form.addEventListener("submit", async (e) => {
    e.preventDefault();
    try {
      const made = await ask(`${box.dataset.shares}?days=${days.value}&title=${encodeURIComponent(title.value)}`, { method: "POST", body: keeper.content, type: "application/json" });
      const link = Object.assign(document.createElement("input"), { type: "text", readOnly: true, value: new URL(made.url, location.href).href });
      link.setAttribute("aria-label", "The link");
      go.replaceWith(link);
      link.select();
      // What is copied is said; where it cannot be copied, the link is there to be.
      await navigator.clipboard?.writeText(link.value).then(() => { words.textContent = `The link is copied. ${words.textContent}`; }, () => {});
    } catch (error) {
      words.textContent = error.words ?? String(error);
    }
  });
  side.open("Share a link", form);
}
click("share", share);

session.made = () => {
  history.replaceState(null, "", `${box.dataset.base}${session.id}`);
  drafts.drop(keeper.fresh);
  keeper.edit(false);
  begun();
};
function begun() {
  element("restart").disabled = false;
  element("export-zip").hidden = false;
  element("export-zip").href = `${box.dataset.sessions}${session.id}/files.zip`;
  document.title = `${title.value} · Airlock`;
}

// stored returns the notebook of the session, as its text; "": it has none yet.
async function stored() {
  const [{ files = [] }, { language, image, live }] = await Promise.all([session.get("/files"), session.get("")]);
  session.language = language;
  session.image = image;
  notebook.live = live; // before anything here starts an interpreter
  const found = files.find((f) => /^[^/]+\.ipynb$/.test(f.path));
  if (!found) return "";
  if (found.size > maxNotebook) throw new Error(`It has ${Math.round(found.size / 2 ** 20)} MiB; the page opens up to ${maxNotebook >> 20} MiB. Download it among the files, and clear its outputs: jupyter nbconvert --clear-output.`);
  keeper.file = found.path;
  title.value = named(found.path.replace(/\.ipynb$/, ""));
  return (keeper.text = await (await session.elsewhere(`${box.dataset.files}${found.id}/content`)).text());
}

// open shows the notebook of the session, or what this browser has of it that was not
// saved.
async function open() {
  const found = keeper.drafted(); // asked for before anything is written over it
  const first = document.getElementById("first"); // a new notebook comes with its first cell
  if (first) {
    cells.fill([blank("code", first.value)]);
    cells.list[0].view.focus();
    if (first.value) notebook.changed();
  }
  const draft = await found;
  const typed = first ? cells.list.map((c) => c.source).filter((source) => source.trim()) : [];
  let there = "";
  if (session.id) {
    begun();
    there = await stored();
  }
  const mine = draft && (!draft.saved || !there);
  if (mine) title.value = draft.title;
  const content = mine ? draft.file : there;
  if (!first || draft) notebook.show(content ? fromFile(content) : { cells: [blank()] });
  if (draft) for (const source of typed) cells.add(blank("code", source));
  if (mine && there && draft.file !== there) { element("saved").textContent = "restored from this browser"; keeper.later(1000); }
  for (const c of cells.list) if (c.metadata.airlock?.cell && session.id) follow(c);
  element("language").textContent = languages[session.language].kernel.display_name + (session.image && session.image !== "host" ? ` in ${session.image}` : "");
  side.refresh();
}

// follow watches a cell again that ran when the page was left.
async function follow(c) {
  const { cell: id, parent } = c.metadata.airlock;
  c.view.make().dress();
  const before = c.outputs;
  c.outputs = [];
  c.view.outputs.reset([]);
  runner.running = c;
  const known = await session.get(`/cells/${id}`).catch((e) => e);
  if (known.status === 404 || known instanceof Error) c.view.outputs.reset(before);
  runner.carry(c, (tell) => session.follow(id, tell), parent);
}

const stolen = sessionStorage.getItem("airlock:take") === keeper.key;
sessionStorage.removeItem("airlock:take");
try {
  await open();
} catch (e) {
  cells.fill([blank()]);
  notebook.readOnly = true; // what could not be read is not written over
  say(`This notebook could not be opened: ${e.words ?? e.message} It is left as it is.`);
}
if (session.id && !notebook.readOnly) await keeper.edit(stolen);
notebook.grants.opened();
requestAnimationFrame(() => setTimeout(() => { box.dataset.took = String(performance.now()); })); // since the address
box.dataset.ready = "true";
