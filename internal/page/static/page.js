// What every page does: send with the token of this visitor's pages, say
// errors, and make "/" go to the search, on this page or that of the runs.

export function meta(name) {
  return document.querySelector(`meta[name="airlock-${name}"]`)?.content ?? "";
}

// Problem is an answer that says no, or that did not come.
export class Problem extends Error {
  constructor(message, hint, status) {
    super(message);
    this.hint = hint ?? "";
    this.status = status ?? 0;
  }
  get words() { // as sentences, which those of the API are not always
    if (!this.hint) return this.message;
    return `${this.message.replace(/[^.?!:;]$/, "$&.")} ${this.hint[0].toUpperCase()}${this.hint.slice(1)}`;
  }
}

// problemOf reads the words of an answer that is not 2xx.
export function problemOf(status, text) {
  try {
    const { error } = JSON.parse(text);
    return new Problem(error.message, error.hint, status);
  } catch {
    return new Problem(`The service answered ${status}.`, "", status);
  }
}

// send sends a request as this visitor. It throws a Problem.
export async function send(url, { method = "GET", body, headers, signal } = {}) {
  let answer;
  try {
    answer = await fetch(url, {
      method, body, signal, credentials: "same-origin", redirect: "error",
      headers: { "X-Airlock-Token": meta("token"), ...headers },
    });
  } catch (e) {
    if (e.name === "AbortError") throw e;
    throw new Problem("The service cannot be reached.", "Is it still running? This page tries again when you do.");
  }
  if (!answer.ok) throw problemOf(answer.status, await answer.text());
  return answer;
}

// loadScript imports a script that is needed later. It asks once more if the first request is lost:
// a browser does not ask for the same address again.
export async function loadScript(address) {
  try {
    return await import(address);
  } catch {
    await new Promise((done) => setTimeout(done, 2000));
    return import(`${address}?again`);
  }
}

// ask is send for an answer that is read as a whole.
export async function ask(url, { accept = "application/json", type, ...options } = {}) {
  const answer = await send(url, { ...options, headers: { Accept: accept, ...(type ? { "Content-Type": type } : {}) } });
  const text = await answer.text();
  return accept === "application/json" && text ? JSON.parse(text) : text;
}

// parts makes elements of a part of a page that the service rendered.
export function parts(html) {
  return [...new DOMParser().parseFromString(html, "text/html").body.children];
}

// announce says something to people who listen to the page.
export function announce(words) {
  let region = document.getElementById("announce");
  if (!region) {
    region = document.createElement("div");
    region.id = "announce";
    region.className = "unseen";
    region.setAttribute("role", "status");
    document.body.append(region);
  }
  region.textContent = words;
}

// copyText puts text on the clipboard, and returns whether it is there. Pages that come by plain
// http have no clipboard of their own: there the text is marked and copied as somebody does by hand.
export async function copyText(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = document.createElement("textarea");
    field.value = text;
    field.className = "unseen";
    const before = document.activeElement;
    document.body.append(field);
    field.select();
    const copied = document.execCommand("copy");
    field.remove();
    before?.focus();
    return copied;
  }
}

// named is a name with every character spelled out that would not show, or that
// would change how others show.
export function named(name) {
  return name.replace(/[\p{Cc}\p{Cf}\p{Zl}\p{Zp}]/gu, (c) => `⟨U+${c.codePointAt(0).toString(16).toUpperCase().padStart(4, "0")}⟩`);
}

export function writing(target) {
  return target.closest?.("input, textarea, select, [contenteditable=true], .cm-editor");
}

document.addEventListener("keydown", (e) => {
  if (e.key !== "/" || e.ctrlKey || e.metaKey || e.altKey || writing(e.target)) return;
  const search = document.querySelector("input[type=search]");
  const elsewhere = document.body.dataset.search;
  if (!search && !elsewhere) return;
  e.preventDefault();
  if (!search) {
    location.assign(elsewhere);
    return;
  }
  search.focus();
  search.select();
});
if (location.hash === "#q") document.getElementById("q")?.focus();

// A menu closes when somebody goes elsewhere.
for (const menu of document.querySelectorAll(".site-menu")) {
  document.addEventListener("pointerdown", (e) => { if (!menu.contains(e.target)) menu.open = false; });
  menu.addEventListener("focusout", (e) => { if (e.relatedTarget && !menu.contains(e.relatedTarget)) menu.open = false; });
  menu.addEventListener("keydown", (e) => {
    if (e.key !== "Escape" || !menu.open) return;
    e.preventDefault();
    menu.open = false;
    menu.querySelector("summary").focus();
  });
}

// The next user of this browser finds nothing of what was typed.
document.addEventListener("submit", (e) => {
  if (!e.target.matches(".visitor form")) return;
  for (const key of Object.keys(localStorage)) if (key.startsWith("airlock:")) localStorage.removeItem(key);
  indexedDB.deleteDatabase("airlock");
  indexedDB.deleteDatabase("airlock-folders");
});

// A button that cannot be undone asks first.
document.addEventListener("submit", (e) => {
  const question = e.target.dataset.confirm;
  if (question && !window.confirm(question)) e.preventDefault();
});
