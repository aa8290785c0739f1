// Review for a folder on the visitor's computer. Before the service plans or applies
// anything it is brought the files as they are; what it has committed is then written into
// the folder, if it is what was agreed to on this page.
import * as folders from "./folder.js";
import { ask, meta, named, Problem } from "./page.js";

const box = document.getElementById("local");
const { project, reply, txn, state } = box?.dataset ?? {};
const at = (p, rest = "") => `${box.dataset.at}/${encodeURIComponent(p)}/local${rest}`;

function say(words, kind = "note", ...buttons) {
  const line = document.createElement("p");
  line.className = kind;
  line.append(words);
  for (const [label, act] of buttons) {
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = label;
    button.addEventListener("click", () => attempt(act));
    line.append(" ", button);
  }
  box.replaceChildren(...(words ? [line] : []));
}

async function attempt(act) {
  try {
    await act();
  } catch (e) {
    if (e.name === "AbortError") return; // the picker was closed
    say(e instanceof Problem ? e.words : e.message ?? String(e), "problem");
  }
}

// folderOf returns a project's folder, with the right to write to it.
async function folderOf(p, asked = true) {
  const known = folders.able && await folders.record(p);
  if (!known?.handle) {
    throw new Error(folders.able
      ? "The folder of this project was chosen in another browser. Choose it here on the page of projects, or take the files as a zip."
      : "The folder of this project can be reached from a Chromium browser only, on a page that comes by https or from this machine. Take the files as a zip.");
  }
  if (!await folders.permitted(known.handle, asked)) {
    throw new Error(`The browser does not let this page write to "${named(known.handle.name)}" any more. Try again and allow it.`);
  }
  return known;
}

// bring gives the service the files of the folder as they are: those that it has, and
// those that a reply is about.
async function bring(p, root, paths) {
  const { files, most } = await ask(at(p));
  const there = new Map(files.map((f) => [f.path, f.sha256]));
  for (const path of new Set([...there.keys(), ...paths])) {
    let file;
    try {
      file = await folders.read(root, path);
    } catch (e) {
      if (there.has(path)) throw e;
      continue; // no path that could be written: the review refuses it too
    }
    const to = `${at(p, "/files")}?path=${encodeURIComponent(path)}`;
    if (!file) {
      if (there.has(path)) await ask(to, { method: "DELETE" });
      continue;
    }
    if (file.size > most) throw new Error(`"${named(path)}" is larger than ${most / 2 ** 20} MiB.`);
    if (await folders.sum(file) !== there.get(path)) await ask(to, { method: "PUT", body: file, type: "application/octet-stream" });
  }
}

// deliver writes a transaction into the folder: all of it or nothing.
async function deliver(paths) {
  const known = await folderOf(project);
  const { files } = await ask(at(project, `/changes/${txn}`));
  const steps = [];
  for (const f of files) {
    for (const path of [f.path, ...(f.from ? [f.from] : [])]) {
      folders.split(path);
      if (!paths.includes(path)) throw new Error(`"${named(path)}" was not on the page when you agreed, so nothing was written.`);
    }
    const bytes = async () => {
      const answer = await fetch(at(project, `/changes/${txn}/${f.id}`), { credentials: "same-origin", redirect: "error" });
      if (!answer.ok) throw new Error(`"${named(f.path)}" could not be fetched: ${answer.status}.`);
      return answer.blob();
    };
    steps.push({ path: f.path, before: f.from ? "" : f.before, after: f.after, bytes });
    if (f.from) steps.push({ path: f.from, before: f.before, after: "" });
  }
  const name = named(known.handle.name);
  say(`Writing into "${name}".`);
  const went = await folders.alone(project, async () => {
    try {
      await folders.begin(project, known.handle, { txn, reply }, steps);
      if ((await folders.finish(project, known.handle)).length) throw new folders.Changed("A file has changed meanwhile.");
    } catch (e) {
      if (await folders.journal(project)) await folders.rollBack(project, known.handle);
      await ask(at(project, `/changes/${txn}/undo`), { method: "POST", body: new URLSearchParams({ token: meta("token") }) });
      await settle(project, reply, null);
      throw new Error(`${e.message} Nothing was changed in "${name}", and the reply is undone in the timeline. Hand it in again to see it on the files as they are.`);
    }
    await settle(project, reply, txn);
    return true;
  });
  if (!went) throw new Error("Another tab writes into this folder. Look again when it is done.");
  say(`Written into "${name}" on this computer.`, "note");
}

// settle ends an intent.
async function settle(p, id, written) {
  const known = await folders.record(p);
  delete known.intents?.[id];
  if (written) known.written = [...known.written ?? [], written].slice(-500);
  await folders.keep(p, known);
}

// unfinished finds a journal that a closed tab has left, and lets the visitor decide.
async function unfinished(p) {
  const plan = await folders.journal(p);
  const known = plan && await folders.record(p);
  if (!known) return false;
  const name = named(known.handle.name);
  const decide = (act, words) => async () => {
    await folderOf(p);
    let left = [];
    await folders.alone(p, async () => { left = await act(p, known.handle); });
    const stays = `${left.map((path) => `"${named(path)}"`).join(", ")} changed meanwhile and stays as it is; all else is done.`;
    if (left.length && act === folders.finish) throw new Error(stays); // it can be rolled back still
    if (act === folders.rollBack) await ask(at(p, `/changes/${plan.txn}/undo`), { method: "POST", body: new URLSearchParams({ token: meta("token") }) });
    await settle(p, plan.reply, act === folders.finish ? plan.txn : null);
    say(left.length ? stays : words, left.length ? "warning" : "note");
  };
  const shown = await folders.alone(p, async () => true);
  if (!shown) return false; // another tab is at it
  const far = await folders.permitted(known.handle, false) ? `${await folders.done(known.handle, plan)} of ${plan.steps.length} files are written` : "some files may be written";
  say(`A change of "${name}" was interrupted: ${far}.`, "warning", ["Finish", decide(folders.finish, `Finished: all files are in "${name}".`)],
    ["Roll back", decide(folders.rollBack, `Rolled back: "${name}" is as it was before.`)]);
  return true;
}

async function link(p, known) {
  const handle = await window.showDirectoryPicker({ id: "airlock", mode: "readwrite" });
  if (!await folders.permitted(handle, true)) throw new Error("Without the right to write, replies could not be applied. Choose the folder again and allow it.");
  if (!known) await ask(`${box.dataset.at}/local`, { method: "POST", body: new URLSearchParams({ token: meta("token"), project: p }) });
  await folders.keep(p, { ...await folders.record(p), handle });
  location.reload();
}

// Before a form goes out, the service is brought what it is about.
const before = {
  async paste(form) {
    const chosen = form.elements.project.selectedOptions[0];
    if (!chosen?.hasAttribute("data-local")) return;
    const { handle } = await folderOf(chosen.value);
    const { paths } = await ask(at(chosen.value, "/paths"), { method: "POST", body: new URLSearchParams({ token: meta("token"), text: form.elements.text.value }) });
    await bring(chosen.value, handle, paths);
  },
  async change(form) {
    const known = await folderOf(project);
    const paths = [...document.querySelectorAll("[data-path]")].flatMap(({ dataset: d }) => d.from ? [d.path, d.from] : [d.path]);
    await bring(project, known.handle, paths);
    if (form.id === "decide" && reply) await folders.keep(project, { ...known, intents: { ...known.intents, [reply]: paths } });
  },
};

document.addEventListener("submit", (e) => {
  const form = e.target;
  const act = !box ? null : form.id === "paste" ? before.paste
    : project && /\/(apply|rebase|undo|redo)$/.test(form.getAttribute("action") ?? "") ? before.change : null;
  if (!act) return;
  e.preventDefault();
  e.stopImmediatePropagation();
  const buttons = form.querySelectorAll("button");
  for (const button of buttons) button.disabled = true;
  attempt(async () => {
    try {
      await act(form);
      form.submit();
    } finally {
      for (const button of buttons) button.disabled = false;
    }
  });
}, true);

async function begin() {
  const form = document.getElementById("link-local");
  if (!folders.able) {
    if (project && !state) return;
    if (project) say("The folder of this project is on another computer, or in another browser: here a reply can be looked at and taken as a zip.");
    return;
  }
  if (form) {
    form.hidden = false;
    document.getElementById("no-local").hidden = true;
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      attempt(() => link(form.elements.project.value));
    });
    for (const button of document.querySelectorAll("[data-local-pick]")) {
      button.hidden = false;
      button.addEventListener("click", () => attempt(() => link(button.dataset.localPick, true)));
    }
    const linked = [...document.querySelectorAll("[data-local-name]")].map((line) => line.dataset.localName);
    for (const p of await folders.projects()) if (!linked.includes(p)) await folders.forget(p); // it was unlinked
    for (const line of document.querySelectorAll("[data-local-name]")) {
      const known = await folders.record(line.dataset.localName);
      line.textContent = known?.handle ? `${named(known.handle.name)}, on this computer` : "a folder in another browser";
    }
  }
  for (const p of project ? [project] : await folders.projects()) if (await unfinished(p)) return;
  if (state !== "applied" || !txn) {
    if (reply && !document.getElementById("decide") && await folders.record(project)) await settle(project, reply, null);
    return;
  }
  const known = await folders.record(project);
  if (!known || known.written?.includes(txn)) return;
  const paths = known.intents?.[reply];
  if (paths && await folders.permitted(known.handle, false)) await deliver(paths);
  else {
    const listed = [...document.querySelectorAll("#receipt .done [data-path]")].flatMap(({ dataset: d }) => d.from ? [d.path, d.from] : [d.path]);
    say(`It is not in "${named(known.handle.name)}" yet.`, "warning", ["Write it into the folder", () => deliver(paths ?? listed)]);
  }
}
if (box) attempt(begin);
