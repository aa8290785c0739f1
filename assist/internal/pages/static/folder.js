// A folder on the visitor's computer, by the File System Access API: paths are checked
// here whatever the service says, and what is written is written through a journal.
//
// The journal is in the browser's own files (origin-private). It has the new and the old
// contents of all files before the first is touched, so that a tab that is closed in the
// middle leaves enough to finish or to roll back. Each step knows by the SHA-256 of what
// is there whether it was done; what is neither old nor new is somebody else's and stays.
import { named } from "./page.js";

const owner = document.body.dataset.owner ?? "";
export const able = "showDirectoryPicker" in window && !!navigator.storage?.getDirectory && !!crypto.subtle;

export class Changed extends Error {}

const opened = able && new Promise((done, fail) => {
  const request = indexedDB.open("airlock-folders", 1);
  request.onupgradeneeded = () => request.result.createObjectStore("folders");
  request.onsuccess = () => done(request.result);
  request.onerror = () => fail(request.error);
});

// on returns the result once the transaction is complete: leaving the page aborts it before.
async function on(mode, act) {
  const db = await opened;
  return new Promise((done, fail) => {
    const transaction = db.transaction("folders", mode);
    const request = act(transaction.objectStore("folders"));
    transaction.oncomplete = () => done(request.result);
    transaction.onabort = () => fail(transaction.error);
  });
}

// A record of a project: { handle, intents: { reply: [paths] }, written: [transactions] }.
export const record = (project) => on("readonly", (s) => s.get(`${owner}:${project}`));
export const keep = (project, value) => on("readwrite", (s) => s.put(value, `${owner}:${project}`));
export const forget = (project) => on("readwrite", (s) => s.delete(`${owner}:${project}`));
export const projects = async () => (await on("readonly", (s) => s.getAllKeys()))
  .filter((key) => key.startsWith(`${owner}:`)).map((key) => key.slice(owner.length + 1));

export async function permitted(handle, ask) {
  const how = { mode: "readwrite" };
  if (await handle.queryPermission(how) === "granted") return true;
  return ask && await handle.requestPermission(how) === "granted";
}

const devices = /^(con|prn|aux|nul|com\d|lpt\d)(\.|$)/i;

// split returns the names of a path, or throws: nothing leads out of the folder, into a
// repository's own files, or to a name that some system takes for another.
export function split(path) {
  const names = path.split("/");
  for (const name of names) {
    if (!name || name === "." || name === ".." || /[\\:*?"<>|\p{Cc}]/u.test(name) || /[. ]$/.test(name) || name.length > 255
      || name.toLowerCase() === ".git" || devices.test(name)) {
      throw new Error(`The page does not touch "${named(path)}": it is not a plain path inside the folder.`);
    }
  }
  return names;
}

const fold = (name) => name.normalize("NFC").toLowerCase();

// parent opens the folder that a file is in, or makes it; null: it is not there.
async function parent(root, names, make) {
  let at = root;
  for (let i = 0; i < names.length - 1; i++) {
    try {
      at = await at.getDirectoryHandle(names[i]);
    } catch (e) {
      if (e.name !== "NotFoundError") throw e;
      if (!make) return null;
      await other(at, names[i]);
      at = await at.getDirectoryHandle(names[i], { create: true });
    }
  }
  return at;
}

// missing are the folders that writing a file makes.
async function missing(root, path) {
  const names = split(path), made = [];
  for (let i = 1; i < names.length; i++) if (!await parent(root, names.slice(0, i + 1))) made.push(names.slice(0, i).join("/"));
  return made;
}

// other refuses a new name that differs from one that is there by case alone.
async function other(folder, name) {
  for await (const there of folder.keys()) {
    if (there !== name && fold(there) === fold(name)) throw new Changed(`There is "${named(there)}", which is "${named(name)}" on some systems.`);
  }
}

export async function read(root, path) {
  const names = split(path);
  try {
    const folder = await parent(root, names);
    return folder && await (await folder.getFileHandle(names.at(-1))).getFile();
  } catch (e) {
    if (e.name === "NotFoundError" || e.name === "TypeMismatchError") return null;
    throw e;
  }
}

async function write(root, path, blob) {
  const names = split(path), name = names.at(-1);
  const folder = await parent(root, names, true);
  let handle;
  try {
    handle = await folder.getFileHandle(name);
  } catch (e) {
    if (e.name !== "NotFoundError") throw e;
    await other(folder, name);
    handle = await folder.getFileHandle(name, { create: true });
  }
  const to = await handle.createWritable(); // beside the file; close puts it in its place
  try {
    await to.write(blob);
  } catch (e) {
    await to.abort().catch(() => {});
    throw e;
  }
  await to.close();
}

async function remove(root, path) {
  const names = split(path);
  await (await parent(root, names))?.removeEntry(names.at(-1));
}

export async function sum(blob) {
  if (!blob) return "";
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", await blob.arrayBuffer()));
  return [...digest].map((b) => b.toString(16).padStart(2, "0")).join("");
}

// The journals: a folder each, with plan.json written last.
const shelf = async () => (await navigator.storage.getDirectory()).getDirectoryHandle("airlock-journals", { create: true });
const shelved = (project) => `${encodeURIComponent(owner)}:${project}`.replace(/[.:*]/g, (c) => `%${c.charCodeAt(0).toString(16)}`);

export async function journal(project) {
  try {
    const at = await (await shelf()).getDirectoryHandle(shelved(project));
    return { at, ...JSON.parse(await (await read(at, "plan.json")).text()) };
  } catch {
    return null; // none, or one that was cut while it was made: nothing was touched
  }
}

async function clear(project) {
  await (await shelf()).removeEntry(shelved(project), { recursive: true }).catch(() => {});
}

// where says how far a step is. A file is made empty before it gets its content: an
// empty one where there was none is one that was begun.
async function where(root, step) {
  const there = await read(root, step.path), now = await sum(there);
  if (now === step.after) return "new";
  return now === step.before ? "old" : there?.size === 0 && !step.before ? "begun" : "other";
}

// begin makes the journal of a change: steps are { path, before, after, bytes }, of which
// bytes fetches the new content. Nothing in the folder is touched.
export async function begin(project, root, about, steps) {
  await clear(project);
  const at = await (await shelf()).getDirectoryHandle(shelved(project), { create: true });
  try {
    for (const [i, step] of steps.entries()) {
      const there = await read(root, step.path);
      const now = await sum(there);
      if (now !== step.before && now !== step.after) throw new Changed(`"${named(step.path)}" has changed meanwhile.`);
      if (there) await write(at, `old-${i}`, there);
      if (!step.after) continue;
      const fresh = await step.bytes();
      if (await sum(fresh) !== step.after) throw new Error(`"${named(step.path)}" did not arrive as it was approved.`);
      await write(at, `new-${i}`, fresh);
    }
    const plan = { ...about, project, steps: steps.map(({ path, before, after }) => ({ path, before, after })), made: [] };
    await write(at, "plan.json", new Blob([JSON.stringify(plan)]));
  } catch (e) {
    await clear(project);
    throw e;
  }
}

// carry goes through a journal, forward or back, and removes it. It returns what it
// could not touch, because somebody else has changed it since.
async function carry(project, root, from, to, order) {
  const plan = await journal(project);
  const left = [];
  for (const [i, step] of order([...plan.steps.entries()])) {
    const state = await where(root, step);
    if (state === to || step.before === step.after) continue;
    if (state !== from && state !== "begun") {
      left.push(step.path);
      continue;
    }
    const content = await read(plan.at, `${to}-${i}`);
    if (!content) {
      await remove(root, step.path);
      continue;
    }
    const made = await missing(root, step.path);
    if (made.length) {
      plan.made.push(...made);
      const { at, ...text } = plan;
      await write(at, "plan.json", new Blob([JSON.stringify(text)]));
    }
    await write(root, step.path, content);
    if (await where(root, step) !== to) throw new Error(`"${named(step.path)}" could not be written.`);
  }
  if (to === "old") {
    for (const folder of plan.made.reverse()) await remove(root, folder).catch(() => {}); // it has files by now
  }
  if (!left.length || to === "old") await clear(project);
  return left;
}

export const finish = (project, root) => carry(project, root, "old", "new", (steps) => steps);
export const rollBack = (project, root) => carry(project, root, "new", "old", (steps) => steps.reverse());

// state says how far a journal has come: how many of its steps are done.
export async function done(root, plan) {
  let n = 0;
  for (const step of plan.steps) if (await where(root, step) === "new") n++;
  return n;
}

// alone does something with a project's folder that no other tab does meanwhile; it
// returns undefined if one does.
export const alone = (project, act) => navigator.locks.request(`airlock-folder:${owner}:${project}`, { ifAvailable: true },
  (lock) => lock ? act() : undefined);
